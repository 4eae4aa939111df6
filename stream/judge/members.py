"""Live pages, and the heaps that find the first of a group of them."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stream.judge.clusters import Cluster


class LivePage(msgspec.Struct, eq=False):
    """One live version of a page. Only `live`, `indexed` and, with that, `entry` change."""

    identity: bytes
    id: str
    ordinal: int
    age: int
    """Ordinal at which it joined its cluster; a page that stays `unchanged` keeps it."""
    time: int
    fingerprint: int
    sketch: int
    entry: int
    cluster: Cluster
    short: bool = False
    live: bool = True
    indexed: bool = False
    """Whether it stands in the index: always under `any`, as the canonical page under `canonical`."""


class LazyHeap:
    """A heap of live pages by a rank; dead ones are dropped when they come up, or when they outnumber.

    Costs O(log n) a push; memory stays within a constant factor of the live pages.
    """

    __slots__ = ("_items", "live")

    def __init__(self) -> None:
        self._items: list[tuple[int, int, LivePage]] = []
        self.live = 0

    def push(self, rank: int, page: LivePage) -> None:
        """Add a live page. Pages of equal rank come in the order of their ordinals."""
        heappush(self._items, (rank, page.ordinal, page))
        self.live += 1

    def left(self) -> None:
        """Say that one of the pages has been marked dead."""
        self.live -= 1
        if not self.live:
            self._items = []  # no reference leads back to a page that left, so it goes without a collector
        elif len(self._items) > 4 * self.live + 16:
            self._items = [item for item in self._items if item[2].live]
            heapify(self._items)

    def first(self) -> LivePage | None:
        """The live page of least rank."""
        items = self._items
        while items and not items[0][2].live:
            heappop(items)
        return items[0][2] if items else None

    def __iter__(self) -> Iterator[LivePage]:
        return (page for _, _, page in self._items if page.live)

    def absorb(self, other: LazyHeap) -> None:
        """Take all live pages of another heap, the smaller into the larger."""
        if len(other._items) > len(self._items):
            self._items, other._items = other._items, self._items
        for item in other._items:
            if item[2].live:
                heappush(self._items, item)
        other._items = []
        self.live += other.live
        other.live = 0


class Expiry:
    """Live pages by time, for windows: gives up those whose time has come."""

    def __init__(self) -> None:
        self._heap = LazyHeap()

    def add(self, page: LivePage) -> None:
        """Remember a stored page."""
        self._heap.push(page.time, page)

    def left(self) -> None:
        """Say that one of the pages has left."""
        self._heap.left()

    def due(self, until: int) -> LivePage | None:
        """A live page with `time <= until`, the oldest first; None when there is none."""
        page = self._heap.first()
        return page if page is not None and page.time <= until else None
