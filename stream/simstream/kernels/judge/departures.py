"""Takes many leaving pages out of their chains and clusters.

Columns are those of `judge/row_table` (by row, place and chain) and `judge/clusters` (by node and cluster). Each
kernel says what has become free; the caller gives it back to its table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64, uint8, uint32
from numpy.typing import NDArray

from simstream.kernels.jit import helper, inlined, kernel, lean_kernel
from simstream.kernels.judge.best_match import CHAINED, FOUNDER, INDEXED, LIVE, chain_place_of, node_of
from simstream.kernels.judge.pairing_heaps import meld_all

U32 = NDArray[np.uint32]
SPENT_SHARE = 4
SPENT_ROOM = 16
"""A heap is built again if more than SPENT_SHARE times its live members, plus SPENT_ROOM, have left it."""


class NodeColumns(NamedTuple):
    """Columns that say which node a page has."""

    state: NDArray[np.uint8]  # by row
    link: U32
    place_node: U32  # by place in a chain
    chain_first: U32  # by chain


class EntryChains(NamedTuple):
    """Columns that say which pages share an entry of the index."""

    state: NDArray[np.uint8]  # by row
    link: U32
    next: U32  # by place in a chain
    previous: U32
    chain: U32
    founder: U32  # by chain
    first: U32
    last: U32
    pages: U32


class ClusterForest(NamedTuple):
    """The heaps of clusters, and the rings of records that form one cluster."""

    row: U32  # by node
    child: U32
    sibling: U32
    cluster: U32
    age: NDArray[np.int64]
    into: U32  # by cluster
    root: U32
    live: U32
    spent: U32
    ring: U32


@lean_kernel
def leave_chains(rows: U32, chains: EntryChains, idle: U32, places: U32, ended: U32) -> tuple[int, int, int]:
    """Let the pages of these live rows leave, as `RowTable.leave` does for each. They have no nodes any more.

    Writes the entries that no live page has any more, and the free places and chains, and returns the number of
    each. Each array has room for all rows. Cost: 5 to 20 ns a row.
    """
    idle_count = place_count = ended_count = 0
    for i in range(rows.size):
        row = int64(rows[i])
        state = chains.state[row]
        chains.state[row] = state & uint8(0xFF ^ (LIVE | INDEXED))
        if not state & uint8(INDEXED):
            continue
        if not state & uint8(CHAINED):
            idle[idle_count] = row
            idle_count += 1
            continue
        if state & uint8(FOUNDER):
            chain = chains.link[row]
            place = chains.first[chain]  # the founder of an entry is its earliest page
        else:
            place = chains.link[row]
            chain = chains.chain[place]
            chains.state[row] &= uint8(0xFF ^ CHAINED)
            chains.link[row] = 0
        before, after = chains.previous[place], chains.next[place]
        if before != 0:
            chains.next[before] = after
        else:
            chains.first[chain] = after
        if after != 0:
            chains.previous[after] = before
        else:
            chains.last[chain] = before
        places[place_count] = place
        place_count += 1
        chains.pages[chain] -= uint32(1)
        if chains.pages[chain] == 0:
            founder = chains.founder[chain]
            chains.state[founder] &= uint8(0xFF ^ CHAINED)
            chains.link[founder] = 0
            idle[idle_count] = founder
            idle_count += 1
            ended[ended_count] = chain
            ended_count += 1
    return idle_count, place_count, ended_count


@inlined
def _head(into, cluster):  # type: ignore[no-untyped-def]
    """Return the record that has taken in a record; halves the path to it."""
    while into[cluster] != cluster:
        into[cluster] = into[into[cluster]]
        cluster = into[cluster]
    return cluster


@lean_kernel
def leave_nodes(rows: U32, nodes: NodeColumns, forest: ClusterForest, found: U32) -> None:
    """End the membership of these rows' pages: their nodes lose their rows, and their rows lose their nodes.

    `found` has for each row its former cluster, 0 for a page that was alone. Cost: some 10 ns a row, and two cache
    misses for each row with a node.
    """
    for i in range(rows.size):
        row = rows[i]
        node = node_of(nodes, row)
        if node == 0:
            found[i] = 0
            continue
        state = nodes.state[row]
        if state & uint8(CHAINED):
            nodes.place_node[chain_place_of(nodes, row, state)] = 0
        else:
            nodes.link[row] = 0
        forest.row[node] = 0
        found[i] = _head(forest.into, forest.cluster[node])


@helper
def _with_room(buffer, used):  # type: ignore[no-untyped-def]
    """Return the buffer, or a larger one with the same content if it is full."""
    if used < buffer.size:
        return buffer
    larger = np.empty(2 * buffer.size, np.uint32)
    for i in range(used):  # a slice would compile the messages of its errors, too
        larger[i] = buffer[i]
    return larger


@helper
def _collect(root, forest, found, used):  # type: ignore[no-untyped-def]
    """Append all nodes of a heap, and return the buffer and its length. The buffer is also the queue of nodes to
    visit."""
    at = used
    found = _with_room(found, used)
    found[used] = root
    used += 1
    while at < used:
        node = found[at]
        at += 1
        for following in (forest.sibling[node], forest.child[node]):
            if following != 0:
                found = _with_room(found, used)
                found[used] = following
                used += 1
    return found, used


@helper
def _renew(cluster, forest, gone, used):  # type: ignore[no-untyped-def]
    """Build a heap again from its live members; append the other nodes to `gone`."""
    first = used
    gone, end = _collect(forest.root[cluster], forest, gone, used)
    members = uint32(0)
    for i in range(first, end):
        node = gone[i]
        if forest.row[node] == 0:
            gone[used] = node
            used += 1
        else:
            forest.child[node] = 0
            forest.sibling[node] = members
            forest.cluster[node] = cluster
            members = node
    forest.root[cluster] = meld_all(members, forest.child, forest.sibling, forest.age)
    forest.spent[cluster] = 0
    return gone, used


@helper
def _break_ring(cluster, forest, ended, used):  # type: ignore[no-untyped-def]
    """Append the records that a cluster took in; then it is alone in its ring."""
    at = forest.ring[cluster]
    while at != cluster:
        ended = _with_room(ended, used)
        ended[used] = at
        used += 1
        at = forest.ring[at]
    forest.ring[cluster] = cluster
    return ended, used


@kernel
def tidy(clusters: U32, forest: ClusterForest) -> tuple[U32, U32]:
    """Tidy clusters after members have left: end empty clusters, and bring the oldest live member to each root.

    If most of a heap has left, it is built again, and its cluster gives up the records that it took in. Returns the
    free nodes and the free records of clusters. Cost: O(log n) amortized for each member that has left.
    """
    most = int64(16)
    for cluster in clusters:
        live, spent = int64(forest.live[cluster]), int64(forest.spent[cluster])
        if spent > SPENT_SHARE * live + SPENT_ROOM or live == 0:
            most += live + spent
    gone, ended = np.empty(most, np.uint32), np.empty(clusters.size + 16, np.uint32)
    gone_count = ended_count = 0
    for cluster in clusters:
        live, spent = int64(forest.live[cluster]), int64(forest.spent[cluster])
        if live == 0:
            gone, gone_count = _collect(forest.root[cluster], forest, gone, gone_count)
            ended, ended_count = _break_ring(cluster, forest, ended, ended_count)
            ended = _with_room(ended, ended_count)
            ended[ended_count] = cluster
            ended_count += 1
        elif spent > SPENT_SHARE * live + SPENT_ROOM:
            gone, gone_count = _renew(cluster, forest, gone, gone_count)
            ended, ended_count = _break_ring(cluster, forest, ended, ended_count)
        else:
            top = forest.root[cluster]
            while forest.row[top] == 0:
                gone = _with_room(gone, gone_count)
                gone[gone_count] = top
                gone_count += 1
                forest.spent[cluster] -= uint32(1)
                top = meld_all(forest.child[top], forest.child, forest.sibling, forest.age)
            forest.root[cluster] = top
    return gone[:gone_count], ended[:ended_count]


@lean_kernel
def link_rings(others: U32, into: U32, ring: U32) -> None:
    """Put each record that was taken in into the ring of its present cluster."""
    for other in others:
        head = _head(into, other)
        ring[other], ring[head] = ring[head], ring[other]
