"""Counts the pages of files that could not be read, with reasons and places."""

from __future__ import annotations

from collections.abc import Callable

from simstream.errors import InputError
from simstream.model import Page, PageKind, Verdict, VerdictKind
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
        """Count the page of the next verdict."""
        unreadable = verdict.verdict == VerdictKind.UNREADABLE
        self._count((verdict.reason or "") if unreadable else None, verdict.source.topic, verdict.source.offset)

    def take_page(self, page: Page, path: str) -> None:
        """Count the next page, of this file, after its extraction."""
        self._count(page.reason if page.kind == PageKind.UNREADABLE else None, path, page.offset)

    def _count(self, reason: str | None, path: str, offset: int) -> None:
        """Count a page, and why it could not be read."""
        self._pages += 1
        if reason is not None:
            self._counts[reason] = self._counts.get(reason, 0) + 1
            if reason not in self._first:
                self._first[reason] = place(path, offset)

    def check(self, share: float | None) -> None:
        """Raise InputError if more than this share of the pages could not be read; None: if any was not JSON."""
        unread = sum(self._counts.values())
        if "bad_json" in self._counts if share is None else unread > share * self._pages:
            raise InputError(
                str(self), "repair these lines, or allow a share of unreadable pages with --max-unreadable"
            )

    def report(self, say: Callable[[str], None]) -> None:
        """Say which pages could not be read, if there are any."""
        if self._counts:
            say(str(self))

    def __str__(self) -> str:
        """Return a sentence for people about the pages that could not be read."""
        order = sorted(self._counts, key=lambda reason: -self._counts[reason])
        each = [f"{self._counts[reason]:,} {reason} (first {self._first[reason]})" for reason in order[:_MAX_SHOWN]]
        return f"{sum(self._counts.values()):,} of {self._pages:,} {self._of} could not be read: {', '.join(each)}"
