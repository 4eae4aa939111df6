"""Fields of other names: which of a line's fields is the page's text, and which its id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stream.errors import UsageError

KNOWN: Final = ("id", "url", "title", "text", "html", "time", "status")
"""The fields that a page may have."""


@dataclass(frozen=True, slots=True)
class Fields:
    """`text` and `id` name the fields that stand for the page's own; None: it is called so."""

    text: str | None = None
    id: str | None = None

    def mapped(self, line: bytes) -> bytes:
        """The JSON line as one with the page's own names; a line that is no JSON object comes back as it is.

        A field that was named counts alone: where it is missing, so is the text (`html` does not count either) or
        the id. Numbers become ids in decimal. About 10 us for a page of 2 KB.
        """
        if self.text is None and self.id is None:
            return line
        tree = _tree(line)
        return line if tree is None else encoded(self.renamed(tree))

    def renamed(self, tree: dict[str, Any]) -> dict[str, Any]:
        """The known fields of a page under their own names."""
        page: dict[str, Any] = {name: tree[name] for name in KNOWN if name in tree}
        if self.text is not None:
            page.pop("html", None)
            page["text"] = tree.get(self.text)
        if self.id is not None:
            value = tree.get(self.id)
            page["id"] = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        return page

    def check(self, names: Sequence[str], path: str, header: str) -> None:
        """Whether these names of columns, which `header` of `path` has, include the text and each field that was
        named. Raises UsageError."""
        wanted = {"--text-field": ["text", "html"] if self.text is None else [self.text]}
        if self.id is not None:
            wanted["--id-field"] = [self.id]
        for option, columns in wanted.items():
            if not set(columns) & set(names):
                shown = ", ".join(name[:40] for name in names[:20]) or "none"
                what = f"{path} has no column {' or '.join(columns)}"
                raise UsageError(what, f"name it with {option}; {header} has {shown}")


def encoded(page: dict[str, Any]) -> bytes:
    """A page as JSON, whatever its strings hold."""
    try:
        return msgspec.json.encode(page)
    except UnicodeEncodeError:
        return json.dumps(page).encode()  # lone surrogates, which only this encoder escapes


def _tree(line: bytes) -> dict[str, Any] | None:
    tree: Any
    try:
        tree = msgspec.json.decode(line)
    except RecursionError:
        return None
    except ValueError:
        try:
            tree = json.loads(line.decode())  # takes lone surrogates, as pages are read
        except (ValueError, RecursionError):
            return None
    return tree if isinstance(tree, dict) else None
