"""Defines the request to `explain`, where judged pages are found, and the errors if nothing is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from simstream.errors import PageUnknown
from simstream.model import Record
from simstream.tools.explain.explanation import Explanation
from simstream.tools.explain.rejudge import AcceptedBatch, PageOrigin

Tick = Callable[[int], None]
"""Hears how much is done."""
Counting = Callable[[str, int | None], AbstractContextManager[Tick]]
"""Shows work under a title, with its total if that is known."""
MAX_SUGGESTIONS = 3
MIN_PART_BYTES = 3
"""A shorter id is not looked for within other ids, in bytes."""


class ExplainRequest(NamedTuple):
    """Which pages to explain, and what to show of each."""

    ids: tuple[str, ...]
    """Distinct ids."""
    ordinal: int | None = None
    """The verdict that is meant, if it is not the newest one."""
    beside: str | None = None
    """The id of a page to compare them with."""
    words: int | None = None
    """Show so many of the heaviest words; None: all."""
    candidates: int | None = None
    """Show so many of the closest candidates; None: all."""
    diff: bool = False
    """Show texts side by side."""


class ExplainAnswer(NamedTuple):
    """An explanation for each page that was found, and an error for each missing id."""

    explanations: list[Explanation]
    unknown: list[PageUnknown]


class JudgedPage(NamedTuple):
    """A page that has a verdict. `published` is the verdict's bytes; files have none."""

    id: str
    ordinal: int
    published: bytes | None = None


class PageHistory(Protocol):
    """Pages in the order in which they were judged: those of files, or of a log."""

    def find(self, request: ExplainRequest, names: WantedIds) -> list[JudgedPage]:
        """Return the page of the ordinal, or the newest version of each page that is there, in the order of ids.

        Raises PageUnknown if there is no such ordinal, or if it belongs to another page.
        """

    def batches(self, end: int, /) -> Iterator[AcceptedBatch]:
        """Yield pages from the first on, at least those of the ordinals below `end`."""

    def originals(self, wanted: Iterable[PageOrigin]) -> Mapping[PageOrigin, Record | str]:
        """Return the records of distinct pages by their origin; a sentence says why a record is gone."""

    def unknown(self, page_id: str, names: WantedIds) -> PageUnknown:
        """Return the error for a page that was not found."""


class WantedIds:
    """Recognizes wanted ids, and remembers ids that look like them."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._names = {page_id.encode("utf-8", "surrogateescape"): page_id for page_id in ids}
        self._similar: dict[str, list[str]] = {page_id: [] for page_id in self._names.values()}

    def known(self, name: bytes, content: bytes = b"") -> str | None:
        """Return the name if it is a wanted id.

        Else remember it if a wanted id is a part of it or of the content.
        """
        found = self._names.get(name)
        if found is None:
            for part, page_id in self._names.items():
                near = self._similar[page_id]
                if (
                    len(part) >= MIN_PART_BYTES
                    and (part in name or part in content)
                    and len(near) < MAX_SUGGESTIONS
                ):
                    other = name.decode("utf-8", "replace")
                    near += [] if other in near else [other]
        return found

    def unknown(self, page_id: str, where: str, advice: str) -> PageUnknown:
        """Return the error for an id that was not found; `where` begins its sentence."""
        near = self._similar[page_id]
        return PageUnknown(f"{where} {page_id!r}", f"did you mean {' or '.join(near)}?" if near else advice)


def no_such_ordinal(request: ExplainRequest, count: int) -> PageUnknown:
    """Return the error for an ordinal that none of `count` pages has."""
    advice = f"give 0 to {count - 1}" if count else "wait: no page was judged yet"
    return PageUnknown(f"no verdict has the ordinal {request.ordinal}", advice)


def check_ordinal(request: ExplainRequest, page_id: str) -> None:
    """Raise PageUnknown if the ordinal that was asked for belongs to another page."""
    if request.ids and page_id != request.ids[0]:
        raise PageUnknown(
            f"ordinal {request.ordinal} belongs to {page_id}, not to {request.ids[0]}",
            "give that ID, or only --ordinal",
        )
