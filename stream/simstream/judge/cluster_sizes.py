"""Counts live clusters by size, and finds clusters that grow out of proportion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.judge.clusters import Cluster, ClusterShrinkage


class SizeAlert(NamedTuple):
    """From where on a cluster is out of proportion: both must hold."""

    pages: int = 1000
    """Least number of its live members."""
    share: float = 0.01
    """Least share of them in all live pages."""


class GrownCluster(NamedTuple):
    """A cluster that is out of proportion."""

    cluster_id: int
    pages: int
    canonical: str
    """Id of its oldest live page."""


class ClusterSizes:
    """Told of every change of a cluster; each costs O(1), apart from the clusters that a page ties together."""

    def __init__(self, alert: SizeAlert) -> None:
        self.largest = 0
        """Live members of the largest cluster."""
        self.noticed: dict[int, int] = {}
        """The clusters that were noticed and not yet told of, by their ids; whoever tells empties it."""
        self._alert = alert
        self._clusters: dict[int, int] = {}
        """How many clusters have so many live members."""
        self._next: dict[int, int] = {}
        """Per cluster that was noticed, the size at which it is again."""

    @property
    def clusters(self) -> Mapping[int, int]:
        """How many clusters have so many live members."""
        return self._clusters

    def joined(self, size: int) -> None:
        """A page has become a member of a cluster, which has `size` now."""
        self._change(size - 1, size)

    def left(self, cluster_id: Callable[[], int], size: int) -> None:
        """A member has left a cluster, which has `size` now."""
        self._change(size + 1, size)
        if self._next and 2 * size < self._alert.pages:
            number = cluster_id()
            self._next.pop(number, None)
            self.noticed.pop(number, None)

    def left_many(self, shrunk: ClusterShrinkage, alone: Iterable[int] = ()) -> None:
        """As `left`, of many members at once. `alone` are the ids of clusters that ended with their only page, as
        far as `notices_every_page` asks for them."""
        self._count(*np.unique(shrunk.after[shrunk.after != 0], return_counts=True), 1)
        self._count(*np.unique(shrunk.before, return_counts=True), -1)
        if shrunk.alone:
            self._count(np.ones(1, np.uint32), np.array([shrunk.alone]), -1)
        self.largest = max(self._clusters, default=0)
        if self._next:
            for number in (*shrunk.ids[2 * shrunk.after.astype(np.int64) < self._alert.pages].tolist(), *alone):
                self._next.pop(number, None)
                self.noticed.pop(number, None)

    @property
    def notices_every_page(self) -> bool:
        """Whether a cluster of one page may have been noticed."""
        return self._alert.pages <= 1

    def tied(
        self, survivor: int, cluster: Cluster, size: int, before: Sequence[int], others: Sequence[int]
    ) -> None:
        """Clusters of `before` members each are one of `size` now, with the id `survivor`; `others` are the ids
        that it took in."""
        self._change(0, size)
        for members in before:
            self._change(members, 0)
        for other in others:
            if self.noticed.pop(other, None) is not None:
                self.noticed[survivor] = cluster
            due = self._next.pop(other, 0)
            if due:
                self._next[survivor] = max(due, self._next.get(survivor, 0))

    def is_large(self, size: int, live_pages: int) -> bool:
        """Whether a cluster of so many members is out of proportion."""
        return size >= self._alert.pages and size >= self._alert.share * live_pages

    def look(self, cluster_id: int, cluster: Cluster, size: int) -> None:
        """Notice a cluster that is out of proportion, and after that at each doubling of its size."""
        if size >= self._next.get(cluster_id, 0):
            self._next[cluster_id] = 2 * size
            self.noticed[cluster_id] = cluster

    def restore(self, sizes: NDArray[np.uint32], alone: int) -> None:
        """Begin with clusters of these sizes (n,), and so many of one page."""
        found, counts = np.unique(sizes, return_counts=True)
        self._clusters = dict(zip(found.tolist(), counts.tolist(), strict=True))
        if alone:
            self._clusters[1] = self._clusters.get(1, 0) + alone
        self.largest = max(self._clusters, default=0)

    def _count(self, sizes: NDArray[np.uint32], counts: NDArray[np.int64], sign: int) -> None:
        """So many clusters of each of these sizes have come (1), or gone (-1)."""
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            number = self._clusters.get(size, 0) + sign * count
            if number:
                self._clusters[size] = number
            else:
                del self._clusters[size]

    def _change(self, before: int, after: int) -> None:
        clusters = self._clusters
        if after:
            clusters[after] = clusters.get(after, 0) + 1
            self.largest = max(self.largest, after)
        if before:
            if clusters[before] > 1:
                clusters[before] -= 1
            else:
                del clusters[before]
        while self.largest and self.largest not in clusters:
            self.largest -= 1  # one step: who was the largest alone has lost one member
