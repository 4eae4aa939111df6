"""Counts the pages of files that could not be read, with reasons and places."""

from __future__ import annotations

from simstream.errors import InputError
from simstream.model import Verdict, VerdictKind
from simstream.sources.input_files import place

_MAX_SHOWN = 8


class UnreadPages:
    """Counts the unreadable pages of a run by reason; `of` names the pages for people."""

    def __init__(self, of: str = "pages") -> None:
        self._of = of
        self._pages = 0
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def take(self, verdict: Verdict) -> None:
        """Count the next verdict."""
        self._pages += 1
        if verdict.verdict == VerdictKind.UNREADABLE:
            reason = verdict.reason or ""
            self._counts[reason] = self._counts.get(reason, 0) + 1
            if reason not in self._first:
                self._first[reason] = place(verdict.source.topic, verdict.source.offset)

    def check(self, share: float | None) -> None:
        """Raise InputError if more than this share of the pages could not be read; None: if any was not JSON."""
        unread = sum(self._counts.values())
        if "bad_json" in self._counts if share is None else unread > share * self._pages:
            raise InputError(
                str(self), "repair these lines, or allow a share of unreadable pages with --max-unreadable"
            )

    def __str__(self) -> str:
        """Return a sentence for people; it is empty if every page could be read."""
        if not self._counts:
            return ""
        order = sorted(self._counts, key=lambda reason: -self._counts[reason])
        each = [f"{self._counts[reason]:,} {reason} (first {self._first[reason]})" for reason in order[:_MAX_SHOWN]]
        return f"{sum(self._counts.values()):,} of {self._pages:,} {self._of} could not be read: {', '.join(each)}"
