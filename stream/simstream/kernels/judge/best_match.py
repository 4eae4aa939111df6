"""Chooses the best match of each page among its matches, and the clusters that they tie.

A match is an entry of the index; the earliest live page that has it stands for all that do. Columns are those of
`judge/row_table` (by row, chain and place in a chain), `judge/clusters` (by node and cluster) and
`judge/pages/store`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy import int64, uint8, uint32
from numpy.typing import NDArray

from simstream.kernels.jit import inlined, lean_kernel
from simstream.kernels.judge.cluster_refs import lone_cluster

U32 = NDArray[np.uint32]

LIVE: Final = 1
"""Bit of a row's state: a live page has this row."""
INDEXED: Final = 2
"""Bit: it answers for its entry; under `any` always, under `canonical` if it is the canonical page."""
FOUNDER: Final = 4
"""Bit: the row is the number of an entry, which the index may still hold."""
CHAINED: Final = 8
"""Bit: `link` is a chain (of a founder) or a place in a chain (of another page), instead of a node."""

AGREEMENT, DISTANCE, ROW = range(3)
"""Places in `chosen`."""
SEEN_CLUSTERS: Final = 64
"""The number of remembered clusters, so that most are named once."""


class LiveColumns(NamedTuple):
    """Columns that say which page stands for an entry, its cluster, and which page is earlier."""

    state: NDArray[np.uint8]  # by row
    link: U32
    cold: U32
    place_row: U32  # by place in a chain
    place_node: U32
    chain_first: U32  # by chain
    node_cluster: U32  # by node
    into: U32  # by cluster
    ranks: NDArray[np.int64]  # by slot of the page store


class FoundedEntries(NamedTuple):
    """The entries that a batch has founded: a list of pages for each group, each as its number + 1; 0 ends a
    list."""

    groups: NDArray[np.int64]  # (m,) the groups in question
    heads: U32  # by group
    following: U32  # by page
    rows: U32  # by page


@inlined
def earliest(live, entry):  # type: ignore[no-untyped-def]
    """Return what `RowTable.earliest` returns."""
    state = live.state[entry]
    if state & uint8(CHAINED) and state & uint8(FOUNDER):
        return int64(live.place_row[live.chain_first[live.link[entry]]])
    if state & uint8(LIVE) and state & uint8(INDEXED):
        return int64(entry)
    return int64(0)


@inlined
def chain_place_of(columns, row, state):  # type: ignore[no-untyped-def]
    """Return the place of a live page, whose state is CHAINED; a live founder is the first of its chain."""
    link = columns.link[row]
    return columns.chain_first[link] if state & uint8(FOUNDER) else link


@inlined
def node_of(columns, row):  # type: ignore[no-untyped-def]
    """Return what `RowTable.node` returns."""
    state = columns.state[row]
    if not state & uint8(CHAINED):
        return columns.link[row]
    if not state & uint8(LIVE):
        return uint32(0)
    return columns.place_node[chain_place_of(columns, row, state)]


@inlined
def cluster_of(live, row):  # type: ignore[no-untyped-def]
    """Return what `Clusters.of` returns; halves the path to the root."""
    node = node_of(live, row)
    if node == uint32(0):
        return lone_cluster(row)
    at = live.node_cluster[node]
    while live.into[at] != at:
        live.into[at] = live.into[live.into[at]]
        at = live.into[at]
    return int64(at)


@inlined
def rank_of(live, row):  # type: ignore[no-untyped-def]
    """Return what `PageStore.order` returns: a number that ascends with the ordinals."""
    cold = int64(live.cold[row])
    return (live.ranks[cold >> 16] << 16) | (cold & 0xFFFF)


@inlined
def _take(live, entry, distance, agreement, chosen, seen, ties, count):  # type: ignore[no-untyped-def]
    """Consider one match, and return the new number of clusters; `ties` is empty if clusters do not matter."""
    row = earliest(live, entry)
    if row == 0:
        return count
    closer = agreement > chosen[AGREEMENT]
    if agreement == chosen[AGREEMENT]:
        closer = distance < chosen[DISTANCE]
        if distance == chosen[DISTANCE]:
            closer = rank_of(live, row) < rank_of(live, chosen[ROW])
    if closer:
        chosen[AGREEMENT], chosen[DISTANCE], chosen[ROW] = agreement, distance, row
    if ties.size:
        cluster = cluster_of(live, row)
        if seen[cluster & (SEEN_CLUSTERS - 1)] != cluster:
            seen[cluster & (SEEN_CLUSTERS - 1)] = cluster
            ties[count] = cluster
            count += 1
    return count


@lean_kernel
def choose(
    entries: NDArray[np.int64],
    distances: NDArray[np.uint8],
    agreements: NDArray[np.uint16],
    start: int,
    end: int,
    live: LiveColumns,
    chosen: NDArray[np.int64],
    seen: NDArray[np.int64],
    ties: NDArray[np.int64],
    count: int,
) -> int:
    """Consider the matches from `start` to `end`. Many of them may have no live page.

    `chosen` (3,) is the closest so far, by greatest agreement, then smallest distance, then least ordinal; its
    agreement is -1 if there is none. `seen` (64,) are clusters named before, 0 for an empty place. Writes clusters
    from `ties[count]` on, some of them twice, and returns one past the last. `ties` has room for all, or none at
    all if clusters do not matter. Cost: some 5 ns a match.
    """
    for i in range(start, end):
        count = _take(live, entries[i], int64(distances[i]), int64(agreements[i]), chosen, seen, ties, count)
    return count


@lean_kernel
def choose_founded(
    matches: NDArray[np.int64],
    distances: NDArray[np.uint8],
    agreements: NDArray[np.uint16],
    start: int,
    end: int,
    founded: FoundedEntries,
    live: LiveColumns,
    chosen: NDArray[np.int64],
    seen: NDArray[np.int64],
    ties: NDArray[np.int64],
    count: int,
) -> int:
    """Do what `choose` does for all entries of groups; a match is the place of a group in `founded.groups`.

    If clusters matter, a group has at most one entry.
    """
    for i in range(start, end):
        at = founded.heads[founded.groups[matches[i]]]
        while at != uint32(0):
            entry = int64(founded.rows[at - uint32(1)])
            count = _take(live, entry, int64(distances[i]), int64(agreements[i]), chosen, seen, ties, count)
            at = founded.following[at - uint32(1)]
    return count
