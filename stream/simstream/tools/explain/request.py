"""Defines the request to `explain`, and the errors if nothing is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from simstream.errors import PageUnknown
from simstream.model import Verdict
from simstream.tools.explain.explanation import Explanation

Tick = Callable[[int], None]
"""Hears how much is done."""
Counting = Callable[[str, int | None], AbstractContextManager[Tick]]
"""Shows work under a title, with its total if that is known."""
MAX_SUGGESTIONS = 3
MIN_PART_BYTES = 3
"""A shorter id is not looked for within other ids, in bytes."""


class ExplainRequest(NamedTuple):
    """Distinct ids; an ordinal, if not the newest verdict is meant; the id to compare them with."""

    ids: tuple[str, ...]
    ordinal: int | None = None
    beside: str | None = None


class ExplainAnswer(NamedTuple):
    """An explanation for each page that was found, and an error for each missing id."""

    explanations: list[Explanation]
    unknown: list[PageUnknown]


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


def check_ordinal(request: ExplainRequest, verdict: Verdict | None, count: int) -> Verdict:
    """Return the verdict of the ordinal asked for.

    Raises PageUnknown if it is missing, or belongs to another page.
    """
    if verdict is None:
        advice = f"give 0 to {count - 1}" if count else "wait: no page was judged yet"
        raise PageUnknown(f"no verdict has the ordinal {request.ordinal}", advice)
    if request.ids and verdict.id != request.ids[0]:
        raise PageUnknown(
            f"ordinal {request.ordinal} belongs to {verdict.id}, not to {request.ids[0]}",
            "give that ID, or only --ordinal",
        )
    return verdict
