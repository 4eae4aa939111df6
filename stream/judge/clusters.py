"""Clusters: union-find over live pages, with ids that stay.

A cluster's id is the ordinal at which its founder came. When clusters merge the oldest id survives. A cluster
ends with its last live member, keeps its id when its founder leaves, and never splits; ids are never reused.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream.judge.members import LazyHeap, LivePage


class Cluster:
    """One cluster, or a former one that points to the cluster that took it in."""

    __slots__ = ("_into", "id", "members")

    def __init__(self, founder_ordinal: int) -> None:
        self.id = founder_ordinal
        self.members = LazyHeap()
        self._into: Cluster | None = None

    def root(self) -> Cluster:
        """The cluster that this one is part of now. Amortized nearly constant (path halving)."""
        node = self
        while node._into is not None:
            if node._into._into is not None:
                node._into = node._into._into
            node = node._into
        return node

    def canonical(self) -> LivePage:
        """The oldest live member. The cluster must have one."""
        page = self.members.first()
        if page is None:
            raise LookupError(f"cluster {self.id} has no live member")
        return page

    def join(self, page: LivePage) -> None:
        """Make a live page a member, at its age."""
        page.cluster = self
        self.members.push(page.age, page)


def merge(clusters: Iterable[Cluster]) -> tuple[Cluster, list[int]]:
    """Tie distinct root clusters together; returns the survivor and the ids of the others, ascending.

    The survivor is the one with the oldest id; members move from the smaller heap into the larger, so n pages
    cost O(n log^2 n) over all merges.
    """
    first, *others = sorted(clusters, key=lambda cluster: cluster.id)
    for other in others:
        first.members.absorb(other.members)
        other._into = first
    return first, [other.id for other in others]
