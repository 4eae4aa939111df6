"""The live pages: by identity, by entry of the index, by cluster and by time.

Under `link = "any"` every live page stands in the index; under `link = "canonical"` only the canonical page of
each cluster does, and the next oldest member takes its place when it leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from stream.index import Index
from stream.judge.clusters import Cluster, merge
from stream.judge.members import Expiry, LazyHeap, LivePage
from stream.judge.sizes import Alert, Sizes
from stream.model import U64


class Store:
    """Adds and removes live pages so that directory, index, clusters and window always agree.

    Entries of the index are released at `settle`, not before: what a batch has interned stays valid within it.
    """

    def __init__(self, index: Index, window_ms: int | None, canonical_only: bool, alert: Alert) -> None:
        self.index = index
        self.window_ms = window_ms
        self.canonical_only = canonical_only
        self.stream_time: int | None = None
        self.directory: dict[bytes, LivePage] = {}
        self.promoted: list[LivePage] = []
        """Pages indexed since `settle` in place of a canonical page that left: a query made before misses them."""
        self.sizes = Sizes(alert)
        self._entries: dict[int, LazyHeap] = {}
        self._touched: set[int] = set()
        self._expiry = Expiry()

    def intern(self, fingerprints: U64, sketches: U64, short: NDArray[np.bool_]) -> list[int]:
        """Entry numbers for fingerprints (n,), sketches (n, S) and whether short (n,), to be settled later."""
        entries: list[int] = self.index.intern(fingerprints, sketches, short).tolist()
        self._touched.update(entries)
        return entries

    def earliest(self, entry: int) -> LivePage | None:
        """The indexed live page of least ordinal that has this entry."""
        pages = self._entries.get(entry)
        return pages.first() if pages else None

    def pages(self, entry: int) -> Iterator[LivePage]:
        """All indexed live pages that have this entry, in no particular order."""
        pages = self._entries.get(entry)
        return iter(pages) if pages else iter(())

    def advance(self, time: int) -> None:
        """Advance stream time to a readable page's time; pages that the window leaves behind go."""
        if self.stream_time is None or time > self.stream_time:
            self.stream_time = time
            if self.window_ms is not None:
                while (page := self._expiry.due(time - self.window_ms)) is not None:
                    self.leave(page)

    def remaining(self, time: int) -> Iterator[LivePage]:
        """All live pages that are still there once a readable page of this time has come; linear."""
        pages = iter(self.directory.values())
        if self.window_ms is None:
            return pages
        edge = (time if self.stream_time is None else max(time, self.stream_time)) - self.window_ms
        return (page for page in pages if page.time > edge)

    def is_late(self, time: int) -> bool:
        """Whether a page of this time is outside the window already."""
        if self.window_ms is None or self.stream_time is None:
            return False
        return time <= self.stream_time - self.window_ms

    def add(self, page: LivePage, cluster: Cluster) -> None:
        """Store a page as the current version of its identity and a member of a root cluster."""
        self.directory[page.identity] = page
        cluster.join(page)
        self.sizes.joined(cluster)
        if self.window_ms is not None:
            self._expiry.add(page)
        if not self.canonical_only or cluster.canonical() is page:
            self._index(page)

    def tie(self, clusters: Collection[Cluster]) -> tuple[Cluster, list[int]]:
        """As `merge`: distinct root clusters become one."""
        if len(clusters) == 1:
            [only] = clusters
            return only, []
        sizes = {cluster.id: cluster.members.live for cluster in clusters}
        survivor, merged = merge(clusters)
        self.sizes.tied(survivor, sizes[survivor.id], [(other, sizes[other]) for other in merged])
        return survivor, merged

    def leave(self, page: LivePage) -> None:
        """Take a live page out of everything. In a cluster that lives on, nothing else changes but its
        canonical page."""
        page.live = False
        if self.directory.get(page.identity) is page:
            del self.directory[page.identity]
        cluster = page.cluster.root()
        cluster.members.left()
        self.sizes.left(cluster)
        if self.window_ms is not None:
            self._expiry.left()
        indexed = page.indexed
        if indexed:
            self._entries[page.entry].left()
            self._touched.add(page.entry)
        if self.canonical_only and indexed and (heir := cluster.members.first()) is not None:
            self._promote(heir)

    def settle(self) -> None:
        """Release the entries that no live page has. Called at the end of a batch."""
        idle = []
        for entry in sorted(self._touched):
            pages = self._entries.get(entry)
            if pages is None or not pages.live:
                self._entries.pop(entry, None)
                idle.append(entry)
        if idle:
            self.index.release(np.array(idle, np.int64))
        self._touched.clear()
        self.promoted.clear()

    def _index(self, page: LivePage) -> None:
        pages = self._entries.get(page.entry)
        if pages is None:
            pages = self._entries[page.entry] = LazyHeap()
        pages.push(page.ordinal, page)
        page.indexed = True

    def _promote(self, heir: LivePage) -> None:
        words = np.frombuffer(heir.sketch.to_bytes(8 * self.index.sketch_words, "little"), np.uint64)
        fingerprint = np.array([heir.fingerprint], np.uint64)
        [heir.entry] = self.intern(fingerprint, words.reshape(1, -1), np.array([heir.short]))
        self._index(heir)
        self.promoted.append(heir)
