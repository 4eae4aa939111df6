"""Decides which field of a line is the page's text, and which is its id, if fields have other names."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isnan
from typing import Any, Final

import msgspec

from simstream.errors import InputError, UsageError
from simstream.model import MAX_ID_BYTES
from simstream.wire.field_paths import Steps, value_at
from simstream.wire.page import status_of

KNOWN: Final = ("id", "url", "title", "text", "html", "time", "status")
"""The fields that a page may have."""

UNUSABLE: Final = -1.5
"""Stands for an integer of too many digits, or a value that is nested too deeply: of a wrong type in each field,
and absent as `time`."""
_MAX_EXACT: Final = {16: 1 << 11, 32: 1 << 24, 64: 1 << 53}
"""By the bits of a float: from here on it stands for several whole numbers."""
_MAX_HELD_LINES: Final = 1000
_MAX_HELD_BYTES: Final = 4 << 20
Line = tuple[int, bytes]
"""The number and the bytes of a line."""


def steps_of(name: str, names: Container[str]) -> Steps:
    """Return the names along the way to a field: the name itself if it is one of `names`, else its parts between
    dots."""
    return (name,) if name in names else tuple(name.split("."))


@dataclass(frozen=True, slots=True)
class FieldNames:
    """`text` and `id` name the fields that hold a page's text and id; None: they have these names.

    A name with dots that is no field leads into objects, as a path of `[fields]` does (`wire/field_paths`). Of the
    other fields and columns, those of `known` are kept.
    """

    text: str | None = None
    id: str | None = None
    known: tuple[str, ...] = KNOWN

    def rename_line(self, line: bytes) -> bytes:
        """Return the JSON line with a page's own names. Returns a line that is not a JSON object unchanged.

        Only the named field counts: without it, the page has no text (not even `html`), or no id. Numbers become
        ids in decimal. About 10 us for a page of 2 KB.
        """
        if self.text is None and self.id is None:
            return line
        tree = _tree(line)
        return line if tree is None else encoded(self.rename_fields(tree))

    def rename_fields(self, tree: dict[str, Any]) -> dict[str, Any]:
        """Return the known fields of a page under their own names."""
        page: dict[str, Any] = {name: tree[name] for name in self.known if name in tree}
        if self.text is not None:
            page.pop("html", None)
            page["text"] = value_at(tree, steps_of(self.text, tree), is_joined=True)
        if self.id is not None:
            value = value_at(tree, steps_of(self.id, tree), is_joined=False)
            page["id"] = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        return page

    def check(
        self, names: Sequence[str], path: str, header: str, *, has_structs: bool = True, in_python: bool = False
    ) -> None:
        """Raise UsageError if these columns, which `header` of `path` has, lack the text or a named field.

        With `has_structs`, a name with dots may lead into a column. `in_python`: the error names an argument, and
        no option.
        """
        for option, columns in self._wanted().items():
            if in_python:
                option = option.removeprefix("--").replace("-", "_")
            firsts = {steps_of(column, names)[0] if has_structs else column for column in columns}
            if not firsts & set(names):
                raise _missing(f"{path} has no column", option, columns, f"{header} has {_shown(names)}")

    def require_fields(self, lines: Iterable[Line], path: str) -> Iterator[Line]:
        """Yield the lines of JSON, once each wanted field was seen: the text, and each named field.

        Holds back at most the first 1,000 lines (4 MB) until then. Raises UsageError if the file is one array, and
        at its end if no page has one of the fields. Error pages (`status` other than 2xx) need no text.
        """
        wanted, names, held, size = self._wanted(), dict[str, None](), list[Line](), 0
        try:
            for number, line in lines:
                if wanted:
                    if not size and line.lstrip().startswith(b"["):
                        raise UsageError(
                            f"{path} is a JSON array", "write one page a line, for example with: jq -c '.[]'"
                        )
                    wanted = _still_wanted(wanted, line, names)
                    held.append((number, line))
                    size += len(line)
                    if wanted and len(held) < _MAX_HELD_LINES and size < _MAX_HELD_BYTES:
                        continue
                    yield from held
                    held.clear()
                else:
                    yield number, line
        except InputError:
            yield from held
            raise
        if wanted and names:
            [option, columns], *_ = wanted.items()
            raise _missing(f"no page of {path} has a field", option, columns, f"there are {_shown(list(names))}")
        yield from held

    def _wanted(self) -> dict[str, list[str]]:
        """Return the wanted names, by the option that sets them: a page needs one name of each list."""
        wanted = {"--text-field": ["text", "html"] if self.text is None else [self.text]}
        if self.id is not None:
            wanted["--id-field"] = [self.id]
        return wanted


def page_columns(names: Sequence[str], place: str, fields: FieldNames) -> list[str]:
    """Return which of these columns hold fields of a page. Raises UsageError if one of them is there twice."""
    named = {steps_of(name, names)[0] for name in (fields.text, fields.id) if name is not None}
    columns = [name for name in names if name in fields.known or name in named]
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise UsageError(f"{place} has two columns named {twice[0]}", "rename one of them")
    return columns


def _still_wanted(wanted: dict[str, list[str]], line: bytes, names: dict[str, None]) -> dict[str, list[str]]:
    """Return what is still wanted after this line. Adds a page's fields to `names`, except of error pages."""
    tree = _tree(line)
    if tree is None:
        return wanted
    status = status_of(tree.get("status"))
    if not isinstance(status, int) or 200 <= status < 300:
        names.update(dict.fromkeys(tree))
    found = {column for columns in wanted.values() for column in columns if _has(tree, column)}
    return {option: columns for option, columns in wanted.items() if not found & set(columns)}


def _has(tree: dict[str, Any], column: str) -> bool:
    return column in tree or value_at(tree, steps_of(column, tree), is_joined=False) is not None


def _missing(what: str, option: str, columns: Sequence[str], there: str) -> UsageError:
    return UsageError(f"{what} {' or '.join(columns)}", f"name it with {option}; {there}")


def _shown(names: Sequence[str]) -> str:
    return ", ".join(name[:40] for name in names[:20]) or "none"


def encoded(page: Mapping[str, Any]) -> bytes:
    """Return a page as JSON, also with lone surrogates, and texts of a subclass of str."""
    try:
        return msgspec.json.encode(page, enc_hook=_text)
    except UnicodeEncodeError:
        return json.dumps(dict(page)).encode()  # lone surrogates, which only this encoder escapes


def _text(value: object) -> str:
    """Return a text of a subclass of str, as lxml, BeautifulSoup and numpy have them. Raises TypeError."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"JSON has no type {type(value).__name__}")


def _tree(line: bytes) -> dict[str, Any] | None:
    tree: Any
    try:
        tree = msgspec.json.decode(line)
    except RecursionError:
        return None
    except ValueError:
        try:
            tree = json.loads(line.decode(), parse_int=_integer)  # takes lone surrogates, as pages are read
        except (ValueError, RecursionError):
            return None
    return tree if isinstance(tree, dict) else None


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return UNUSABLE


def integer_of(value: Any, bits: int = 64) -> Any:
    """Return an integer for a whole float or Decimal, None for NaN, and any other value unchanged.

    pandas makes floats of a column of numbers with missing values, and databases write keys as Decimal. `bits`: the
    size of a float. From some size on, floats stand for several whole numbers, and stay. So does a Decimal with
    more digits than an id may have.
    """
    if isinstance(value, Decimal):
        is_whole = value.is_finite() and value.adjusted() < MAX_ID_BYTES and value == value.to_integral_value()
        return int(value) if is_whole else value
    if not isinstance(value, float):
        return value
    if isnan(value):
        return None
    return int(value) if value.is_integer() and abs(value) < _MAX_EXACT[bits] else value
