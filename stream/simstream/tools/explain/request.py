"""The types of a request to `explain`, and the errors if nothing is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from simstream.errors import PageUnknown
from simstream.model import Verdict
from simstream.tools.explain.explanation import Explanation

Tick = Callable[[int], None]
"""Hears how far the work has come."""
Counting = Callable[[str, int | None], AbstractContextManager[Tick]]
"""Shows work under a title, with how much it will be where that is known."""
SUGGESTED = 3
MIN_PART = 3
"""Bytes of an id that is looked for within others."""


class ExplainRequest(NamedTuple):
    """Ids without doubles; the ordinal of a verdict meant instead of the newest; the id to set them beside."""

    ids: tuple[str, ...]
    ordinal: int | None = None
    beside: str | None = None


class ExplainAnswer(NamedTuple):
    """An explanation for each page that was found, and an error for each id that was not."""

    explanations: list[Explanation]
    unknown: list[PageUnknown]


class WantedIds:
    """Recognizes ids that are asked for, and keeps ids that look like them."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._names = {page_id.encode("utf-8", "surrogateescape"): page_id for page_id in ids}
        self._similar: dict[str, list[str]] = {page_id: [] for page_id in self._names.values()}

    def known(self, name: bytes, content: bytes = b"") -> str | None:
        """The id that is asked for, if it is one; else remembers where one of them is a part of name or content."""
        found = self._names.get(name)
        if found is None:
            for part, page_id in self._names.items():
                near = self._similar[page_id]
                if len(part) >= MIN_PART and (part in name or part in content) and len(near) < SUGGESTED:
                    other = name.decode("utf-8", "replace")
                    near += [] if other in near else [other]
        return found

    def unknown(self, page_id: str, where: str, advice: str) -> PageUnknown:
        """The error for an id that was not found; `where` is what has no page of that name."""
        near = self._similar[page_id]
        return PageUnknown(f"{where} {page_id!r}", f"did you mean {' or '.join(near)}?" if near else advice)


def check_ordinal(asked: ExplainRequest, verdict: Verdict | None, count: int) -> Verdict:
    """The verdict of the ordinal asked for. Raises PageUnknown where it is not there, or is another page's."""
    if verdict is None:
        advice = f"give 0 to {count - 1}" if count else "nothing was judged yet"
        raise PageUnknown(f"there is no ordinal {asked.ordinal}", advice)
    if asked.ids and verdict.id != asked.ids[0]:
        raise PageUnknown(
            f"ordinal {asked.ordinal} is not {asked.ids[0]} but {verdict.id}",
            "give that ID, or none with --ordinal",
        )
    return verdict
