"""Keeps the clusters of live pages: union-find, ids that stay, and the oldest live member.

A cluster's id is the ordinal at which its founder came. When clusters merge the oldest id survives. A cluster ends
with its last live member, keeps its id when its founder leaves, and never splits; ids are never reused.

A page that founded a cluster and is alone in it needs no record: its row alone identifies the cluster. Every other
cluster has a record, which points to the record that took it in (union-find), and a node for each member. The nodes
of a cluster form a pairing heap by age (Fredman, Sedgewick, Sleator, Tarjan 1986), with the oldest live member at
the root. Joining and merging cost O(1), and finding the next oldest O(log n) amortized.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.errors import StateDamaged
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.numbers import (
    NO_NODE,
    Age,
    ClusterId,
    ClusterRecord,
    ClusterRef,
    NodeNumber,
    Row,
    is_lone,
    lone_cluster,
    only_row,
)
from simstream.judge.record_table import NONE, RecordTable
from simstream.judge.row_table import RowTable
from simstream.kernels.judge.departures import SPENT_ROOM, SPENT_SHARE, ClusterForest, leave_nodes, link_rings, tidy
from simstream.kernels.judge.pairing_heaps import collect

IDS_AT_ONCE = 1 << 20
"""Ids that are compared in one step, so that a scan takes 1 MB."""


class ClusterShrinkage(NamedTuple):
    """The effect on clusters of many pages that left at once."""

    alone: int
    """Pages that were alone in their clusters; these clusters have ended."""
    heads: NDArray[np.uint32]  # (n,) the clusters of the other pages, each once
    ids: NDArray[np.int64]  # (n,)
    before: NDArray[np.uint32]  # (n,) members before
    after: NDArray[np.uint32]  # (n,) members now; 0 if the cluster has ended
    by_row: NDArray[np.uint32]
    """Per page its cluster; 0 if it was alone."""


class Clusters:
    """The clusters of the live pages of `rows`; `age_of` gives the age of the page in a row that is alone.

    Memory: nothing for a page that is alone; otherwise 24 bytes a member and 28 bytes a cluster.
    """

    def __init__(self, rows: RowTable, age_of: Callable[[Row], Age]) -> None:
        self._rows = rows
        self._age_of = age_of
        self._nodes = RecordTable(
            "nodes",
            {"row": np.uint32, "child": np.uint32, "sibling": np.uint32, "cluster": np.uint32, "age": np.int64},
        )
        self._clusters = RecordTable(
            "clusters",
            {"into": np.uint32, "root": np.uint32, "live": np.uint32, "spent": np.uint32, "id": np.int64},
        )
        self._ring: NDArray[np.uint32] = np.empty(0, np.uint32)
        """By cluster record: the next record of the same cluster. Nodes may name records that were taken in."""
        self._untidy: set[ClusterRecord] = set()
        """Clusters to be tidied: the oldest member has left, or the last, or most have."""

    def __len__(self) -> int:
        """Return the number of records in use, of nodes and clusters."""
        return len(self._nodes) + len(self._clusters)

    def of(self, row: Row) -> ClusterRef:
        """Return the cluster of a live page."""
        node = self._rows.node(row)
        return self._root(self._nodes.cluster[node]) if node else lone_cluster(row)

    def id(self, cluster: ClusterRef) -> ClusterId:
        """Return the cluster's id: the ordinal of its founder."""
        if is_lone(cluster):
            return ClusterId(self._age_of(only_row(cluster)))
        cluster_id: ClusterId = self._clusters.id[cluster]
        return cluster_id

    def size(self, cluster: ClusterRef) -> int:
        """Return the number of its live members."""
        live: int = 1 if is_lone(cluster) else self._clusters.live[cluster]
        return live

    def oldest(self, cluster: ClusterRef) -> Row:
        """Return the row of its oldest live member."""
        if is_lone(cluster):
            return only_row(cluster)
        if cluster in self._untidy:
            self.settle()
        row: Row = self._nodes.row[self._clusters.root[cluster]]
        return row

    def members(self, cluster: ClusterRef) -> Iterator[Row]:
        """Return the rows of all its live members, without an order. Cost: linear."""
        if is_lone(cluster):
            return iter((only_row(cluster),))
        rows = self._nodes.column("row")[self._tree(cluster)]
        return iter(rows[rows != NONE].tolist())

    def eldest(self, cluster: ClusterRef, most: int) -> list[Row]:
        """Return the rows of its `most` oldest live members, the oldest first. Cost: linear in all members."""
        if is_lone(cluster):
            return [only_row(cluster)][:most]
        tree = self._tree(cluster)
        tree = tree[self._nodes.column("row")[tree] != NONE]
        if tree.size > most:  # to sort ten million would take seconds, and no frame is judged meanwhile
            tree = tree[np.argpartition(self._nodes.column("age")[tree], most)[:most]]
        oldest = tree[np.argsort(self._nodes.column("age")[tree])]
        rows: list[Row] = self._nodes.column("row")[oldest].tolist()
        return rows

    def ids(self) -> NDArray[np.int64]:
        """Return the id of each record (n,), ended ones too. Another thread may read it meanwhile."""
        return self._clusters.column("id")[: self._clusters.used]

    def find(self, cluster_id: ClusterId, records: Iterable[int]) -> ClusterRef | None:
        """Return the cluster with this id, if it ever had two members. `records` come from `records_of`; the
        clusters may have changed since."""
        clusters = self._clusters
        for number in records:
            is_same = number != NONE and clusters.id[number] == cluster_id
            if is_same and clusters.into[number] == number and clusters.live[number]:
                return ClusterRef(number)
        return None

    def tie(self, clusters: Collection[ClusterRef]) -> tuple[ClusterRef, list[ClusterId]]:
        """Merge distinct clusters into the one with the oldest id. Return it and the ids of the others,
        ascending."""
        if len(clusters) == 1:
            [only] = clusters
            return only, []
        known = sorted((self.id(cluster), cluster) for cluster in clusters)
        survivor = self._recorded(known[0][1], known[0][0])
        for cluster_id, cluster in known[1:]:
            self._absorb(survivor, self._recorded(cluster, cluster_id))
        return survivor, [cluster_id for cluster_id, _ in known[1:]]

    def join(self, cluster: ClusterRef, row: Row, age: Age) -> ClusterRef:
        """Make a live page a member, and return the cluster, which has a record from now on."""
        record = self._recorded(cluster, self.id(cluster))
        self._push(record, row, age)
        self._clusters.live[record] += 1
        return record

    def replace(self, old: Row, new: Row) -> None:
        """Let the page of row `new` take the place and the age of the page of row `old`."""
        node = self._rows.node(old)
        self._rows.set_node(old, NO_NODE)
        self._rows.set_node(new, node)
        if node:
            self._nodes.row[node] = new

    def leave(self, row: Row) -> None:
        """Remove a member that is no longer live."""
        node = self._rows.node(row)
        if not node:
            return
        self._rows.set_node(row, NO_NODE)
        self._nodes.row[node] = NONE
        cluster = self._root(self._nodes.cluster[node])
        clusters = self._clusters
        clusters.live[cluster] -= 1
        clusters.spent[cluster] += 1
        live, spent = clusters.live[cluster], clusters.spent[cluster]
        if not live or node == clusters.root[cluster] or spent > SPENT_SHARE * live + SPENT_ROOM:
            self._untidy.add(cluster)

    def leave_many(self, rows: NDArray[np.uint32]) -> ClusterShrinkage:
        """Do what `leave` does for each row. Cost: some .1 us each; linear in a cluster that most members have
        left."""
        self.settle()
        by_row, forest = np.empty(len(rows), np.uint32), self._forest()
        leave_nodes(rows, self._rows.nodes(), forest, by_row)
        heads, counts = np.unique(by_row[by_row != NONE], return_counts=True)
        before, left = forest.live[heads], counts.astype(np.uint32)
        after = before - left
        forest.live[heads] = after
        forest.spent[heads] += left
        ids = self._clusters.column("id")[heads]
        if len(heads):
            self._tidy(heads)
        return ClusterShrinkage(len(rows) - int(counts.sum()), heads, ids, before, after, by_row)

    def heirs(self, heads: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the rows of the oldest live members of clusters with records, without ended clusters."""
        self.settle()
        living = heads[self._clusters.column("live")[heads] != 0]
        rows: NDArray[np.uint32] = self._nodes.column("row")[self._clusters.column("root")[living]]
        return rows

    def settle(self) -> None:
        """Tidy all clusters that members have left. Call it after each batch.

        As the oldest member of a cluster leaves a window first, nearly every departure would call the kernel, at
        10 us. Now it is called once a batch, and whenever the oldest member of an untidy cluster is asked for.
        """
        if self._untidy:
            heads = np.array(sorted(self._untidy), np.uint32)
            self._untidy.clear()
            self._tidy(heads)

    def _tidy(self, heads: NDArray[np.uint32]) -> None:
        gone, ended = tidy(heads, self._forest())
        self._nodes.free_all(gone)
        self._clusters.free_all(ended)

    def _forest(self) -> ClusterForest:
        nodes = {name: self._nodes.column(name) for name in ("row", "child", "sibling", "cluster", "age")}
        clusters = {name: self._clusters.column(name) for name in ("into", "root", "live", "spent")}
        return ClusterForest(**nodes, **clusters, ring=self._ring)

    def _root(self, cluster: ClusterRecord) -> ClusterRecord:
        into = self._clusters.into
        while into[cluster] != cluster:
            into[cluster] = into[into[cluster]]
            cluster = into[cluster]
        return cluster

    def _recorded(self, cluster: ClusterRef, cluster_id: ClusterId) -> ClusterRecord:
        """Return a cluster's record; make one if its page was alone."""
        if not is_lone(cluster):
            return ClusterRecord(cluster)
        clusters = self._clusters
        made = ClusterRecord(ClusterRef(clusters.new()))
        clusters.into[made], clusters.root[made], clusters.id[made] = made, NONE, cluster_id
        clusters.live[made], clusters.spent[made] = 1, 0
        self._make_rings()
        self._ring[made] = made
        self._push(made, only_row(cluster), Age(cluster_id))
        return made

    def _push(self, cluster: ClusterRecord, row: Row, age: Age) -> None:
        nodes = self._nodes
        node = NodeNumber(nodes.new())
        nodes.row[node], nodes.age[node], nodes.cluster[node] = row, age, cluster
        nodes.child[node] = nodes.sibling[node] = NONE
        self._rows.set_node(row, node)
        self._clusters.root[cluster] = self._meld(self._clusters.root[cluster], node)

    def _meld(self, one: NodeNumber, other: NodeNumber) -> NodeNumber:
        """Join two heaps. No two members of a cluster have the same age."""
        if not one or not other:
            return one or other
        nodes = self._nodes
        if nodes.age[other] < nodes.age[one]:
            one, other = other, one
        nodes.sibling[other] = nodes.child[one]
        nodes.child[one] = other
        return one

    def _absorb(self, survivor: ClusterRecord, other: ClusterRecord) -> None:
        clusters = self._clusters
        clusters.into[other] = survivor
        if other in self._untidy:  # its oldest member, which has left, may be the oldest of all
            self._untidy.remove(other)
            self._untidy.add(survivor)
        clusters.root[survivor] = self._meld(clusters.root[survivor], clusters.root[other])
        clusters.live[survivor] += clusters.live[other]
        clusters.spent[survivor] += clusters.spent[other] + 1
        self._ring[other], self._ring[survivor] = self._ring[survivor], self._ring[other]

    def _make_rings(self) -> None:
        """Make as many places as there may be clusters."""
        room = len(self._clusters.column("into"))
        if len(self._ring) < room:
            self._ring = np.concatenate([self._ring, np.zeros(room - len(self._ring), np.uint32)])

    def _tree(self, cluster: ClusterRef) -> NDArray[np.uint32]:
        """Return all nodes of a cluster, also nodes whose members have left."""
        nodes, clusters = self._nodes, self._clusters
        most = clusters.live[cluster] + clusters.spent[cluster]
        found: NDArray[np.uint32] = collect(
            clusters.root[cluster], nodes.column("child"), nodes.column("sibling"), most
        )
        return found

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return its columns of `kernels/judge/best_match.LiveColumns`. They are valid until a table grows."""
        return {"node_cluster": self._nodes.column("cluster"), "into": self._clusters.column("into")}

    def sizes(self) -> NDArray[np.uint32]:
        """Return the number of live members of every cluster with a record, without an order. Cost: linear."""
        self.settle()
        used = np.arange(1, self._clusters.used, dtype=np.uint32)
        free = _are_free(self._clusters)
        heads = used[(self._clusters.column("into")[used] == used) & ~free[used]]
        live: NDArray[np.uint32] = self._clusters.column("live")[heads]
        return live

    @property
    def numbers_used(self) -> int:
        """The numbers in use in the fuller table. Members that left keep nodes until their heap is tidied."""
        return max(len(self._nodes), len(self._clusters))

    def nbytes(self) -> int:
        """Return the bytes in use."""
        return self._nodes.nbytes() + self._clusters.nbytes() + self._ring.itemsize * self._clusters.used

    def parts(self) -> list[SnapshotPart]:
        """Return all columns, as parts of a snapshot."""
        self.settle()
        return [self._nodes.part(), self._clusters.part()]

    def restore(self, parts: dict[str, SnapshotPart]) -> None:
        """Take over what `parts` returned. Raises StateDamaged."""
        for table in (self._nodes, self._clusters):
            table.restore(parts[table.name])
        self._untidy.clear()
        free = _are_free(self._clusters)
        used = np.arange(1, self._clusters.used, dtype=np.uint32)
        into = self._clusters.column("into")
        members = np.where(_are_free(self._nodes), 0, self._nodes.column("cluster")[: self._nodes.used])
        _check_roots(np.where(free, np.arange(free.size, dtype=np.uint32), into[: free.size]), members)
        self._make_rings()
        self._ring[1 : self._clusters.used] = used
        link_rings(used[(into[used] != used) & ~free[used]], into, self._ring)


def records_of(ids: NDArray[np.int64], cluster_id: ClusterId) -> Iterator[int]:
    """Yield the places of an id in what `Clusters.ids` returned. Cost: about 1 ns a record."""
    for at in range(0, len(ids), IDS_AT_ONCE):
        yield from (np.flatnonzero(ids[at : at + IDS_AT_ONCE] == cluster_id) + at).tolist()


def _are_free(table: RecordTable) -> NDArray[np.bool_]:
    """Return for each number of a table whether no record has it now."""
    free = np.zeros(table.used, np.bool_)
    free[table.free_numbers()] = True
    return free


def _check_roots(into: NDArray[np.uint32], members: NDArray[np.uint32]) -> None:
    """Raise StateDamaged unless each member leads to a record, and each record to one that leads to itself.

    A kernel would go on for ever, or outside the arrays. Cost: a few passes, and 8 bytes a record for as long.
    """
    for what, numbers in (("a cluster's record", into), ("a member", members)):
        if numbers.size and numbers.max() >= into.size:
            raise StateDamaged(f"{what} leads to cluster {numbers.max()}, and there is none", START_OVER)
    roots = into
    for _ in range(into.size.bit_length()):
        further = roots[roots]
        if np.array_equal(further, roots):
            break
        roots = further
    if not np.array_equal(into[roots], roots):
        raise StateDamaged("records of clusters lead to each other in a ring", START_OVER)
