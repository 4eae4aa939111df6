"""Decides which pages `dedup --keep` keeps: each page that matches no kept page before it.

Clusters are not used, since they chain: a page may be in a cluster without matching its canonical page, and a
stranger can lay such a chain to any page. Here a page is left out only if it matches a kept page itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.index.keys import KeyColumns
from simstream.judge.policy import Policy
from simstream.judge.state import make_index
from simstream.model import U64, VERSION_KINDS, FingerprintColumns, PageKind, Verdict, VerdictKind
from simstream.tools.dedup.groups import last_versions

_BATCH_PAGES: Final = 512
Confirm = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Returns whether two pages, by their ordinals (n,), match indeed (n,)."""


class KeepSelection(NamedTuple):
    """The ordinals (c,) of the kept pages, ascending, and how many pages are left out, by the reason."""

    ordinals: NDArray[np.int64]
    left_out: dict[str, int]


class _RunPages(NamedTuple):
    """All pages in the order of their verdicts."""

    identity: U64  # (n, 2)
    fingerprint: U64
    sketch: U64  # (n, S)
    words: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    time: NDArray[np.int64]


class _LastVersions(NamedTuple):
    """The pages that remain at the end, the oldest first: where each was last read, and since when it counts."""

    event: NDArray[np.int64]
    age: NDArray[np.int64]


class KeepSelector:
    """Collects pages and verdicts in the judge's order, from its first page on, and selects at the end.

    Memory: 37 bytes and the sketch for each page, twice that at the end, and the index of the kept pages.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._parts: list[_RunPages] = []
        self._unchanged = bytearray()

    def note_pages(self, columns: FingerprintColumns) -> None:
        """Add the next pages."""
        c = columns
        self._parts.append(_RunPages(c.identity, c.fingerprint, c.sketch, c.words, c.kind, c.time))

    def take(self, verdict: Verdict) -> None:
        """Add the next verdict."""
        self._unchanged.append(verdict.verdict == VerdictKind.UNCHANGED)

    def choose(
        self, first: int, heard: Callable[[int], None] = lambda pages: None, confirm: Confirm | None = None
    ) -> KeepSelection:
        """Return which pages are kept from ordinal `first` on; all earlier pages are the corpus to compare with.

        `heard` is called with the number of pages that were compared. With `confirm`, a match counts only if
        `confirm` says so. Cost: some 10 us a page.
        """
        if not self._parts:
            return KeepSelection(np.empty(0, np.int64), {})
        events = _RunPages(*map(np.concatenate, zip(*self._parts, strict=True)))
        self._parts.clear()
        pages = _final_pages(events, np.frombuffer(self._unchanged, np.bool_))
        kept, of_corpus = _KeepChoice(self._policy, events, pages, first, confirm).made(heard)
        own = pages.event >= first
        old = pages.age < first
        kinds = np.bincount(events.kind[first:], minlength=len(PageKind))
        reasons = {
            "like a kept page": int((own & ~old & ~kept & ~of_corpus).sum()),
            "like a page of the corpus": int((own & (old | (~kept & of_corpus))).sum()),
            "earlier versions": int(kinds[PageKind.READABLE] - own.sum()),
            "too short or gone": int(kinds[PageKind.TOO_SHORT]),
            "error pages": int(kinds[PageKind.FAILED]),
            "unreadable": int(kinds[PageKind.UNREADABLE]),
            "withdrawn": int(kinds[PageKind.WITHDRAWN]),
        }
        ordinals = np.sort(pages.event[kept & ~old])
        return KeepSelection(ordinals, {reason: count for reason, count in reasons.items() if count})


def _final_pages(events: _RunPages, unchanged: NDArray[np.bool_]) -> _LastVersions:
    told = np.flatnonzero(np.isin(events.kind, VERSION_KINDS))
    event, age = (told[places] for places in last_versions(events.identity[told], ~unchanged[told]))
    readable = np.flatnonzero(events.kind[event] == PageKind.READABLE)
    by_age = readable[np.argsort(age[readable], kind="stable")]
    return _LastVersions(event[by_age], age[by_age])


class _KeepChoice:
    """Goes through pages, the oldest first, beside an index of the kept pages."""

    def __init__(
        self, policy: Policy, events: _RunPages, pages: _LastVersions, first: int, confirm: Confirm | None
    ) -> None:
        at = self._event = pages.event
        self._confirm = confirm
        self._keys = KeyColumns(
            events.fingerprint[at], events.sketch[at], (events.words[at] < policy.short_words).view(np.uint8)
        )
        self._corpus = pages.age < first
        self._time = events.time[at]
        self._edge = np.full(len(at), np.iinfo(np.int64).min)
        """A page at or below this time is forgotten when the page comes."""
        if policy.window_ms is not None:
            readable = np.where(events.kind == PageKind.READABLE, events.time, np.iinfo(np.int64).min)
            self._edge = np.maximum.accumulate(readable)[pages.age] - policy.window_ms
        self._index = make_index(policy)
        self.kept = np.zeros(len(at), np.bool_)
        self.of_corpus = np.zeros(len(at), np.bool_)

    def made(self, heard: Callable[[int], None]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each page is kept, and whether it matches a page of the corpus."""
        for start in range(0, len(self.kept), _BATCH_PAGES):
            end = min(start + _BATCH_PAGES, len(self.kept))
            places = start + np.flatnonzero(~self._matched(start, end) | self._corpus[start:end])
            self._choose(places)
            chosen = places[self.kept[places]]
            self._index.add(chosen.astype(np.uint32), *self._keys.at(chosen), None)
            heard(end)
        self._index.close()
        return self.kept, self.of_corpus

    def _matched(self, start: int, end: int) -> NDArray[np.bool_]:
        """Return which of these pages match a page in the index that the window still has."""
        matched, at = np.zeros(end - start, np.bool_), start
        while at < end:
            found = self._index.query(*self._keys.at(slice(at, end)), in_order=False)
            page = at + np.repeat(np.arange(found.done), np.diff(found.starts))
            live = self._counts(page, found.entry)
            matched[page[live] - start] = True
            self.of_corpus[page[live & self._corpus[found.entry]]] = True
            at += found.done
        return matched

    def _choose(self, places: NDArray[np.int64]) -> None:
        """Decide among these pages themselves: none of them matches a page in the index."""
        keys = self._keys.at(places)
        found = self._index.join(keys, keys, _BATCH_PAGES * _BATCH_PAGES)
        own, others = np.repeat(places, np.diff(found.starts)), places[found.entry]
        counts = others < own
        counts[counts] = self._counts(own[counts], others[counts])
        for number, place in enumerate(places.tolist()):
            span = slice(found.starts[number], found.starts[number + 1])
            before = others[span][counts[span]]
            before = before[self.kept[before]]
            self.of_corpus[place] |= self._corpus[before].any()
            self.kept[place] = self._corpus[place] or not len(before)

    def _counts(self, pages: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each match counts (n,): the window still has the other page, and it is confirmed."""
        counts: NDArray[np.bool_] = self._time[others] > self._edge[pages]
        if self._confirm is not None:
            counts[counts] = self._confirm(self._event[pages[counts]], self._event[others[counts]])
        return counts
