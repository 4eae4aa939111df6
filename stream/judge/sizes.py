"""How large the live clusters are, and which of them grow out of proportion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stream.judge.clusters import Cluster


class Alert(NamedTuple):
    """From where on a cluster is out of proportion: both must hold."""

    pages: int = 1000
    """Least number of its live members."""
    share: float = 0.01
    """Least share of them in all live pages."""


class Grown(NamedTuple):
    """A cluster that is out of proportion."""

    cluster_id: int
    pages: int
    canonical: str
    """Id of its oldest live page."""


class Sizes:
    """Told of every change of a cluster; each costs O(1), apart from the clusters that a page ties together."""

    def __init__(self, alert: Alert) -> None:
        self.largest = 0
        """Live members of the largest cluster."""
        self._alert = alert
        self._clusters: dict[int, int] = {}
        """How many clusters have so many live members."""
        self._next: dict[int, int] = {}
        """Per cluster that was noticed, the size at which it is again."""
        self._noticed: dict[int, Cluster] = {}

    def joined(self, cluster: Cluster) -> None:
        """A page has become a member."""
        size = cluster.members.live
        clusters = self._clusters
        clusters[size] = clusters.get(size, 0) + 1
        if size > self.largest:
            self.largest = size
        if size == 1:
            return
        if clusters[size - 1] > 1:
            clusters[size - 1] -= 1
        else:
            del clusters[size - 1]

    def left(self, cluster: Cluster) -> None:
        """A member has left."""
        size = cluster.members.live
        self._change(size + 1, size)
        if self._next and 2 * size < self._alert.pages:
            self._next.pop(cluster.id, None)
            self._noticed.pop(cluster.id, None)

    def tied(self, survivor: Cluster, before: int, absorbed: Sequence[tuple[int, int]]) -> None:
        """A cluster of `before` members has taken in others, each an (id, its members)."""
        self._change(before, survivor.members.live)
        for cluster_id, size in absorbed:
            self._change(size, 0)
            if self._noticed.pop(cluster_id, None) is not None:
                self._noticed[survivor.id] = survivor
            due = self._next.pop(cluster_id, 0)
            if due:
                self._next[survivor.id] = max(due, self._next.get(survivor.id, 0))

    def look(self, cluster: Cluster, live_pages: int) -> None:
        """Notice a cluster that is out of proportion, and after that at each doubling of its size."""
        size = cluster.members.live
        if size < self._alert.pages or size < self._alert.share * live_pages:
            return
        if size >= self._next.get(cluster.id, 0):
            self._next[cluster.id] = 2 * size
            self._noticed[cluster.id] = cluster

    def noticed(self) -> list[Grown]:
        """The clusters noticed since the last call that are still large, as they are now."""
        found = [
            Grown(cluster.id, cluster.members.live, cluster.canonical().id) for cluster in self._noticed.values()
        ]
        self._noticed.clear()
        return found

    def _change(self, before: int, after: int) -> None:
        if after:
            self._clusters[after] = self._clusters.get(after, 0) + 1
            self.largest = max(self.largest, after)
        if self._clusters[before] > 1:
            self._clusters[before] -= 1
        else:
            del self._clusters[before]
        while self.largest and self.largest not in self._clusters:
            self.largest -= 1  # one step: who was the largest alone has lost one member
