"""Decides which pages leave the window as stream time advances.

The page store has the times of all pages on disk. This module keeps only the times of the pages that come due next.
If too many come due for memory, as after a pause as long as the window, it reads the page store chunk by chunk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.judge.numbers import RecordNumber, Row
from simstream.judge.pages.store import PageStore
from simstream.judge.row_table import LIVE, RowTable

Beat = Callable[[], None]
"""Called between the steps of long work, at most some 100 ms apart, as a sign of life."""
SLICES = 256
"""The number of parts of the window in which times are read ahead, so that one read is short."""
NARROWER = 4
"""The factor by which the part becomes shorter if it holds too many pages, and longer again if it holds few."""
MAX_AHEAD_PAGES = 1 << 18
"""The most pages of one part, of 16 bytes each."""
MAX_LATER_PAGES = 1 << 18
"""The most pages that come after their part was read. With more the part is read again."""
MAX_SINGLE_PAGES = 32
"""Up to this many due pages are processed one by one, as arrays cost as much."""
MAX_PAGES_AT_ONCE = 1 << 16
"""Pages of one slice, which leave between two beats."""

Leaving = tuple[NDArray[np.uint32], NDArray[np.uint32]]
"""Rows and records (n,) of live pages."""
Late = tuple[int, int, int]
"""(time, row, record)"""


class DuePages(NamedTuple):
    """Pages (n,) in the order of their times. Meanwhile some may have left, or have other records."""

    times: NDArray[np.int64]
    rows: NDArray[np.uint32]
    colds: NDArray[np.uint32]

    def cut(self, start: int, end: int | None = None) -> DuePages:
        """Return the pages from `start` to `end`."""
        return DuePages(self.times[start:end], self.rows[start:end], self.colds[start:end])

    @classmethod
    def of_late(cls, late: list[Late]) -> DuePages:
        """Make DuePages from pages that came later."""
        times, rows, colds = zip(*late, strict=True) if late else ((), (), ())
        return cls(np.array(times, np.int64), np.array(rows, np.uint32), np.array(colds, np.uint32))

    def followed_by(self, *others: DuePages) -> DuePages:
        """Return these pages, then the others."""
        every = (self, *others)
        return DuePages(
            np.concatenate([each.times for each in every]),
            np.concatenate([each.rows for each in every]),
            np.concatenate([each.colds for each in every]),
        )


NONE: Final = DuePages(np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32))


class PageExpiry:
    """The live pages that leave next, for a window of `window_ms`.

    Memory: 16 bytes for each page of one part of the window, and about 130 bytes for a page that came after its
    part was read. A part has at most 262,144 pages plus one chunk of the page store. At most 262,144 pages and a
    batch come after it was read; then it is forgotten, and read again when pages of it are due.
    """

    def __init__(self, rows: RowTable, pages: PageStore, window_ms: int, beat: Beat) -> None:
        self._rows = rows
        self._pages = pages
        self._beat = beat
        self._widest = max(1, window_ms // SLICES)
        self._part = self._widest
        self._edge: int | None = None
        """All pages up to this time have left."""
        self._forget()

    def add(self, time: int, row: Row, cold: RecordNumber) -> None:
        """Remember a new live page."""
        if self._until is not None and time <= self._until:
            heappush(self._late, (time, row, cold))
            self._bound_late()

    def add_many(self, times: NDArray[np.int64], rows: NDArray[np.uint32], colds: NDArray[np.uint32]) -> None:
        """Remember n new live pages: their times in ms (n,), rows (n,) and record numbers (n,)."""
        if self._until is not None:
            for at in np.flatnonzero(times <= self._until).tolist():
                heappush(self._late, (int(times[at]), int(rows[at]), int(colds[at])))
            self._bound_late()

    def due(self, edge: int) -> Iterator[Leaving]:
        """Yield the live pages with `time <= edge` in slices, each page once, in no particular order.

        `edge` is later than at the last call. The pages of a slice must leave before the next slice. Cost: a few us
        for up to 32 pages, else some .05 us a page.
        """
        if self._compactions != self._pages.compactions:
            self._forget()
        if self._until is None or edge > self._until:
            yield from self._read(edge)
        yield from self._known(edge)
        self._edge = edge

    def _bound_late(self) -> None:
        """Forget the part if memory has too many pages that came later: the page store has them, too."""
        if len(self._late) > MAX_LATER_PAGES:
            self._forget()

    def _forget(self) -> None:
        """Read the part again, as records may have new numbers."""
        self._compactions = self._pages.compactions
        self._until = self._edge
        """All live pages after the edge and up to this time are known here."""
        self._take(NONE)

    def _take(self, ahead: DuePages) -> None:
        self._ahead, self._times, self._at = ahead, ahead.times.data, 0
        self._late: list[Late] = []

    def _known(self, edge: int) -> Iterator[Leaving]:
        """Return the due pages among the known ones."""
        at, self._at = self._at, bisect_right(self._times, edge, self._at)
        late, ahead = self._late_ones(edge), self._ahead.cut(at, self._at)
        if len(ahead.rows) + len(late) > MAX_SINGLE_PAGES:
            due = ahead.followed_by(DuePages.of_late(late)) if late else ahead
            for start in range(0, len(due.rows), MAX_PAGES_AT_ONCE):
                yield self._live(
                    due.rows[start : start + MAX_PAGES_AT_ONCE], due.colds[start : start + MAX_PAGES_AT_ONCE]
                )
                self._beat()
        elif late or self._at > at:
            known = zip(ahead.rows.tolist(), ahead.colds.tolist(), strict=True)
            table, every = self._rows.table, (*known, *((row, cold) for _, row, cold in late))
            live = [(row, cold) for row, cold in every if table.state[row] & LIVE and table.cold[row] == cold]
            found = np.array(live, np.uint32).reshape(-1, 2)
            yield found[:, 0], found[:, 1]

    def _late_ones(self, edge: int) -> list[Late]:
        late = self._late
        if late and self._until is not None and edge >= self._until:
            self._late = []
            return late
        found = []
        while late and late[0][0] <= edge:
            found.append(heappop(late))
        return found

    def _read(self, edge: int) -> Iterator[Leaving]:
        """Read the pages of the next part. If there are too many up to the edge, yield them at once."""
        if self._extend(edge + self._part):
            return
        if self._until is not None:
            yield from self._known(self._until)
        for colds, due in self._pages.due_by_chunk(self._until, edge):
            yield self._live(np.ascontiguousarray(due["row"]), colds)
            self._beat()
        self._take(NONE)
        self._until = edge
        while not self._extend(edge + self._part) and self._part > 1:
            self._part = max(1, self._part // NARROWER)

    def _extend(self, until: int) -> bool:
        """Read all pages up to a time, unless there are too many."""
        found: list[DuePages] = []
        count = 0
        for colds, due in self._pages.due_by_chunk(self._until, until):
            rows = np.ascontiguousarray(due["row"])
            live = self._rows.are_live(rows, colds)
            found.append(DuePages(due["time"][live], rows[live], colds[live]))
            count += len(found[-1].rows)
            if count > MAX_AHEAD_PAGES:
                return False
        every = self._ahead.cut(self._at).followed_by(DuePages.of_late(self._late), *found)
        order = np.argsort(every.times, kind="stable")
        self._take(DuePages(every.times[order], every.rows[order], every.colds[order]))
        self._until = until
        if count < MAX_AHEAD_PAGES // (NARROWER * NARROWER):
            self._part = min(self._widest, self._part * NARROWER)
        return True

    def _live(self, rows: NDArray[np.uint32], colds: NDArray[np.uint32]) -> Leaving:
        live = self._rows.are_live(rows, colds)
        return rows[live], colds[live]
