"""Collects the final clusters of a run: the pages of each, the canonical page first.

Nothing is forgotten when it leaves the window: here a cluster is what was ever tied together. A page counts once,
as it was last read; it is out if that was a withdrawal, a text of few words, or status 404 or 410.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.model import COMPARED_VERDICTS, U64, Verdict, VerdictKind
from simstream.tools.find.clusters import UnionFind
from simstream.tools.find.pairs import FingerprintPairs
from simstream.wire.identity_hash import identity_of

GONE = -1
"""Stands for a cluster: the page is in none."""


class DuplicateGroup(msgspec.Struct):
    """A cluster of two or more pages: a line of JSON."""

    cluster_id: str
    """A decimal number."""
    canonical: str
    """The id of the oldest page."""
    pages: list[str]
    """The ids of the pages, the oldest first."""


class FinalCluster(NamedTuple):
    """The cluster of a page at the end of a run: its id, the number of its pages, and the id of its oldest page."""

    cluster_id: str
    size: int
    canonical: str


class _ClusterMembers(NamedTuple):
    """The pages that are in a cluster, by cluster and age."""

    cluster: NDArray[np.int64]
    age: NDArray[np.int64]
    ordinal: NDArray[np.int64]  # of the page's last version
    event: NDArray[np.int64]


def last_versions(identity: U64, fresh: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each identity (n, 2) stands last, and since where it counts: its last `fresh` (n,) place."""
    order = np.lexsort((identity[:, 1], identity[:, 0]))  # stable
    another = (identity[order[1:]] != identity[order[:-1]]).any(axis=1)
    last = np.flatnonzero(np.append(another, np.ones(min(len(order), 1), np.bool_)))
    since = np.maximum.accumulate(np.where(fresh[order], np.arange(len(order)), 0))
    return order[last], order[since[last]]


def page_numbers(identity: U64) -> NDArray[np.int64]:
    """Return a number (n,) for each identity (n, 2); equal identities have one number, below n."""
    order = np.lexsort((identity[:, 1], identity[:, 0]))
    number = np.zeros(len(order), np.int64)
    number[order[1:]] = np.cumsum((identity[order[1:]] != identity[order[:-1]]).any(axis=1))
    return number


class DuplicateGroups:
    """Collects verdicts in their order. Memory: 48 bytes and the id of each page in a cluster."""

    def __init__(self) -> None:
        self._identity = bytearray()
        self._ids = bytearray()
        self._id_ends = array("q", [0])
        self._ordinal, self._cluster = array("q"), array("q")
        self._fresh = bytearray()
        """Per page whether its age begins here; not for `unchanged`."""
        self._merged, self._into = array("q"), array("q")
        self._following = 0

    def take(self, verdict: Verdict, gone: bool) -> None:
        """Add the next verdict. `gone`: the page's record says that the page no longer exists."""
        self._following = verdict.ordinal + 1
        readable = verdict.verdict in COMPARED_VERDICTS
        if not readable and not gone:
            return
        page_id = verdict.id.encode()
        self._identity += identity_of(page_id)
        self._ids += page_id
        self._id_ends.append(len(self._ids))
        self._ordinal.append(verdict.ordinal)
        self._fresh.append(verdict.verdict != VerdictKind.UNCHANGED)
        self._cluster.append(int(verdict.cluster_id) if verdict.cluster_id is not None else GONE)
        for merged in verdict.merged_clusters:
            self._into.append(self._cluster[-1])
            self._merged.append(int(merged))

    def groups(self, first: int = 0) -> Iterator[DuplicateGroup]:
        """Return the clusters of two or more pages by their ids, if one of the pages was read from `first` on."""
        members = self._members()
        begins = np.flatnonzero(np.diff(members.cluster, prepend=-1))
        ends = np.append(begins[1:], len(members.cluster))
        newest = np.maximum.reduceat(members.ordinal, begins) if len(begins) else begins
        chosen = (ends - begins > 1) & (newest >= first)
        for begin, end in zip(begins[chosen].tolist(), ends[chosen].tolist(), strict=True):
            ids = [self._id(event) for event in members.event[begin:end].tolist()]
            yield DuplicateGroup(str(members.cluster[begin]), ids[0], ids)

    def finals(self, first: int = 0) -> Iterator[FinalCluster | None]:
        """Yield the final cluster of the page of each verdict from ordinal `first` on.

        None: the verdict has no cluster, or the page is in none at the end. Memory: 60 bytes a verdict more.
        """
        members = self._members()
        begins = np.flatnonzero(np.diff(members.cluster, prepend=-1))
        sizes = np.diff(np.append(begins, len(members.cluster)))
        page = page_numbers(np.frombuffer(bytes(self._identity), np.uint64).reshape(-1, 2))
        of_page = np.full(len(page), GONE)
        of_page[page[members.event]] = np.repeat(np.arange(len(begins)), sizes)
        readable = np.array(self._cluster, np.int64) != GONE
        found = np.full(self._following, GONE)
        found[np.array(self._ordinal, np.int64)[readable]] = of_page[page[readable]]
        for number in found[first:].tolist():
            if number == GONE:
                yield None
            else:
                begin = begins[number]
                yield FinalCluster(
                    str(members.cluster[begin]), int(sizes[number]), self._id(int(members.event[begin]))
                )

    def _id(self, event: int) -> str:
        return self._ids[self._id_ends[event] : self._id_ends[event + 1]].decode()

    def _members(self) -> _ClusterMembers:
        ordinal, cluster = (np.array(column, np.int64) for column in (self._ordinal, self._cluster))
        identity = np.frombuffer(bytes(self._identity), np.uint64).reshape(-1, 2)
        event, since = last_versions(identity, np.frombuffer(bytes(self._fresh), np.bool_))
        there = cluster[event] != GONE
        event, since = event[there], since[there]
        found = _ClusterMembers(self._survivors()[cluster[event]], ordinal[since], ordinal[event], event)
        by_age = np.lexsort((found.age, found.cluster))
        return _ClusterMembers(*(column[by_age] for column in found))

    def _survivors(self) -> NDArray[np.int64]:
        """Return the cluster (n,) that each cluster was merged into; the oldest survives."""
        forest = UnionFind(self._following)
        into, merged = (np.array(column, np.int64) for column in (self._into, self._merged))
        forest.tie(FingerprintPairs(np.minimum(into, merged), np.maximum(into, merged)))
        return forest.roots()
