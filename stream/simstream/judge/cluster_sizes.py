"""Counts live clusters by size, and finds clusters that grow out of proportion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.judge.clusters import ClusterShrinkage
from simstream.judge.numbers import ClusterId, ClusterRef


class SizeAlert(NamedTuple):
    """The limits from which on a cluster is too large; both must be reached."""

    pages: int = 1000
    """The least number of its live members."""
    share: float = 0.01
    """The least share of its members in all live pages."""


class GrownCluster(NamedTuple):
    """A cluster that has become too large."""

    cluster_id: ClusterId
    pages: int
    canonical: str
    """The id of its oldest live page."""


class ClusterSizes:
    """Counts clusters by size, and learns of every change. Cost: O(1) a change, and O(1) for each tied cluster."""

    def __init__(self, alert: SizeAlert) -> None:
        self.noticed: dict[ClusterId, ClusterRef] = {}
        """Noticed clusters that were not yet reported, by their ids. The caller that reports them empties it."""
        self._alert = alert
        self.clusters: dict[int, int] = {}
        """The number of clusters by their number of live members."""
        self._next: dict[ClusterId, int] = {}
        """Per noticed cluster the size at which it is noticed again."""

    @property
    def largest(self) -> int:
        """The number of live members of the largest cluster. Cost: linear in the different sizes."""
        return max(self.clusters, default=0)

    def note_joined(self, size: int) -> None:
        """Note that a page has joined a cluster, which has `size` members now."""
        self._change(size - 1, size)

    def note_alone(self, count: int) -> None:
        """Note that `count` pages have come, each in a cluster of its own."""
        if count:
            self.clusters[1] = self.clusters.get(1, 0) + count

    def note_left(self, cluster_id: Callable[[], ClusterId], size: int) -> None:
        """Note that a member has left a cluster, which has `size` members now."""
        self._change(size + 1, size)
        if self._next and 2 * size < self._alert.pages:
            number = cluster_id()
            self._next.pop(number, None)
            self.noticed.pop(number, None)

    def note_left_many(self, shrunk: ClusterShrinkage, alone: Iterable[ClusterId] = ()) -> None:
        """Do what `note_left` does for many members at once.

        `alone` are the ids of clusters that ended with their only page, if `notices_every_page` needs them.
        """
        self._count(*np.unique(shrunk.after[shrunk.after != 0], return_counts=True), 1)
        self._count(*np.unique(shrunk.before, return_counts=True), -1)
        if shrunk.alone:
            self._count(np.ones(1, np.uint32), np.array([shrunk.alone]), -1)
        if self._next:
            for number in (*shrunk.ids[2 * shrunk.after.astype(np.int64) < self._alert.pages].tolist(), *alone):
                self._next.pop(number, None)
                self.noticed.pop(number, None)

    @property
    def notices_every_page(self) -> bool:
        """Whether clusters of one page may be noticed."""
        return self._alert.pages <= 1

    def note_tied(
        self,
        survivor: ClusterId,
        cluster: ClusterRef,
        size: int,
        before: Sequence[int],
        others: Sequence[ClusterId],
    ) -> None:
        """Note that clusters of `before` members each are one cluster of `size` members now.

        Its id is `survivor`; it took in the ids `others`.
        """
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
        """Whether a cluster of `size` members is too large."""
        return size >= self._alert.pages and size >= self._alert.share * live_pages

    def look(self, cluster_id: ClusterId, cluster: ClusterRef, size: int) -> None:
        """Notice a cluster that is too large, and again at each doubling of its size."""
        if size >= self._next.get(cluster_id, 0):
            self._next[cluster_id] = 2 * size
            self.noticed[cluster_id] = cluster

    def restore(self, sizes: NDArray[np.uint32], alone: int) -> None:
        """Begin with clusters of these sizes (n,), and `alone` clusters of one page."""
        found, counts = np.unique(sizes, return_counts=True)
        self.clusters = dict(zip(found.tolist(), counts.tolist(), strict=True))
        if alone:
            self.clusters[1] = self.clusters.get(1, 0) + alone

    def _count(self, sizes: NDArray[np.uint32], counts: NDArray[np.int64], sign: int) -> None:
        """Add (1) or subtract (-1) clusters of these sizes."""
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            number = self.clusters.get(size, 0) + sign * count
            if number:
                self.clusters[size] = number
            else:
                del self.clusters[size]

    def _change(self, before: int, after: int) -> None:
        clusters = self.clusters
        if after:
            clusters[after] = clusters.get(after, 0) + 1
        if before:
            if clusters[before] > 1:
                clusters[before] -= 1
            else:
                del clusters[before]
