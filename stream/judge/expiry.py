"""Expiry: which pages the window leaves behind as stream time advances, exactly and in order.

The times of all pages lie in the page store, on disk; here are only those of the pages that come due next.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from stream.judge.pages import Pages
from stream.judge.rows import Rows

SLICES = 256
"""Times are read ahead in so many parts of the window, so that one reading is short."""

Due = tuple[int, int, int]
"""(time, ordinal, row)"""


class Expiry:
    """The live pages whose time comes next, for a window of `window_ms`.

    Memory: about 100 bytes for each page of one slice of the window.
    """

    def __init__(self, rows: Rows, pages: Pages, window_ms: int) -> None:
        self._rows = rows
        self._pages = pages
        self._slice = max(1, window_ms // SLICES)
        self._until: int | None = None
        """All live pages up to this time are in the heap."""
        self._heap: list[Due] = []

    def add(self, time: int, ordinal: int, row: int) -> None:
        """Remember a page that has just become live."""
        if self._until is not None and time <= self._until:
            heappush(self._heap, (time, ordinal, row))

    def due(self, edge: int) -> int:
        """The row of a live page with `time <= edge`, the oldest first; 0 when there is none."""
        if self._until is None or edge > self._until:
            self._read(edge)
        heap = self._heap
        while heap and heap[0][0] <= edge:
            _, ordinal, row = heappop(heap)
            if self._rows.is_live(row) and self._pages.read(self._rows.table.cold[row]).ordinal == ordinal:
                return row
        return 0

    def _read(self, edge: int) -> None:
        """Read the times of the next slice, or of all that the edge has passed."""
        until = edge + self._slice
        times, colds, rows, ordinals = self._pages.due(self._until, until)
        live = self._rows.are_live(rows, colds)
        found = zip(times[live].tolist(), ordinals[live].tolist(), rows[live].tolist(), strict=True)
        self._heap += found
        heapify(self._heap)
        self._until = until
