"""Clusters: connected components of live pages, with ids that stay.

A cluster's id is the ordinal at which its founder came. When clusters merge the oldest id survives. A cluster ends
with its last live member, keeps its id when its founder leaves, and never splits; ids are never reused.

A page that founded a cluster and is alone in it needs no record: its cluster is known by the page's row alone.
All others have a record, which points to the record that took it in (union-find), and a node for each member. The
nodes of a cluster are a pairing heap by age (Fredman, Sedgewick, Sleator, Tarjan 1986), so that its oldest live
member is at hand: joining and merging cost O(1), and the next oldest O(log n) amortized.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.files import Part
from stream.judge.rows import Rows
from stream.judge.table import NONE, Table
from stream.kernels.pairing import collect, oldest_of, pop

Cluster = int
"""A cluster's record, or the row of its only page below 0."""


class Clusters:
    """The clusters of the live pages of `rows`; `age_of` gives the age of a row whose page is alone.

    Memory: nothing for a page that is alone; 24 bytes a member and 24 a cluster otherwise.
    """

    def __init__(self, rows: Rows, age_of: Callable[[int], int]) -> None:
        self._rows = rows
        self._age_of = age_of
        self._nodes = Table(
            "nodes",
            {"row": np.uint32, "child": np.uint32, "sibling": np.uint32, "cluster": np.uint32, "age": np.int64},
        )
        self._clusters = Table(
            "clusters",
            {"into": np.uint32, "root": np.uint32, "live": np.uint32, "spent": np.uint32, "id": np.int64},
        )
        self._former: dict[int, list[int]] = {}
        """Per cluster the records that it took in, which nodes may still name."""

    def __len__(self) -> int:
        """Records in use, of nodes and clusters."""
        return len(self._nodes) + len(self._clusters)

    def of(self, row: int) -> Cluster:
        """The cluster of a live page."""
        node = self._rows.table.node[row]
        return self._root(self._nodes.cluster[node]) if node else -row

    def id(self, cluster: Cluster) -> int:
        """The ordinal of its founder."""
        return self._age_of(-cluster) if cluster < 0 else self._clusters.id[cluster]

    def size(self, cluster: Cluster) -> int:
        """Its live members."""
        return 1 if cluster < 0 else self._clusters.live[cluster]

    def oldest(self, cluster: Cluster) -> int:
        """The row of its oldest live member."""
        return -cluster if cluster < 0 else self._nodes.row[self._clusters.root[cluster]]

    def members(self, cluster: Cluster) -> Iterator[int]:
        """The rows of all its live members, in no particular order; linear."""
        if cluster < 0:
            return iter((-cluster,))
        rows = self._nodes.column("row")[self._tree(cluster)]
        return iter(rows[rows != NONE].tolist())

    def eldest(self, cluster: Cluster, most: int) -> list[int]:
        """The rows of its `most` oldest live members, the oldest first; linear in all of them."""
        if cluster < 0:
            return [-cluster][:most]
        tree = self._tree(cluster)
        tree = tree[self._nodes.column("row")[tree] != NONE]
        oldest = tree[np.argsort(self._nodes.column("age")[tree])[:most]]
        rows: list[int] = self._nodes.column("row")[oldest].tolist()
        return rows

    def find(self, cluster_id: int) -> Cluster | None:
        """The cluster of this id, if it ever had two members; a scan of all that did, about 1 ns each."""
        clusters = self._clusters
        for number in np.flatnonzero(clusters.column("id")[: clusters.used] == cluster_id).tolist():
            if number != NONE and clusters.into[number] == number and clusters.live[number]:
                return int(number)
        return None

    def tie(self, clusters: Collection[Cluster]) -> tuple[Cluster, list[int]]:
        """Make distinct clusters one, that of the oldest id; returns it and the ids of the others, ascending."""
        if len(clusters) == 1:
            [only] = clusters
            return only, []
        known = sorted((self.id(cluster), cluster) for cluster in clusters)
        survivor = self._recorded(known[0][1], known[0][0])
        for cluster_id, cluster in known[1:]:
            self._absorb(survivor, self._recorded(cluster, cluster_id))
        return survivor, [cluster_id for cluster_id, _ in known[1:]]

    def join(self, cluster: Cluster, row: int, age: int) -> Cluster:
        """Make a live page a member; returns the cluster, which has a record from now on."""
        recorded = self._recorded(cluster, self.id(cluster))
        self._push(recorded, row, age)
        self._clusters.live[recorded] += 1
        return recorded

    def replace(self, old: int, new: int) -> None:
        """Let the page of one row take the place, and the age, of the page of another."""
        node = self._rows.table.node[old]
        self._rows.table.node[old] = NONE
        self._rows.table.node[new] = node
        if node:
            self._nodes.row[node] = new

    def leave(self, row: int) -> None:
        """A member is no longer live."""
        node = self._rows.table.node[row]
        if not node:
            return
        self._rows.table.node[row] = NONE
        self._nodes.row[node] = NONE
        cluster = self._root(self._nodes.cluster[node])
        clusters = self._clusters
        clusters.live[cluster] -= 1
        clusters.spent[cluster] += 1
        if not clusters.live[cluster]:
            self._end(cluster)
        elif clusters.spent[cluster] > 4 * clusters.live[cluster] + 16:
            self._renew(cluster)
        elif node == clusters.root[cluster]:
            self._pop(cluster)

    def _root(self, cluster: int) -> int:
        into = self._clusters.into
        while into[cluster] != cluster:
            into[cluster] = into[into[cluster]]
            cluster = into[cluster]
        return cluster

    def _recorded(self, cluster: Cluster, cluster_id: int) -> int:
        """A cluster's record, made where its page was alone."""
        if cluster > 0:
            return cluster
        clusters = self._clusters
        made = clusters.new()
        clusters.into[made], clusters.root[made], clusters.id[made] = made, NONE, cluster_id
        clusters.live[made], clusters.spent[made] = 1, 0
        self._push(made, -cluster, cluster_id)
        return made

    def _push(self, cluster: int, row: int, age: int) -> None:
        nodes = self._nodes
        node = nodes.new()
        nodes.row[node], nodes.age[node], nodes.cluster[node] = row, age, cluster
        nodes.child[node] = nodes.sibling[node] = NONE
        self._rows.table.node[row] = node
        self._clusters.root[cluster] = self._meld(self._clusters.root[cluster], node)

    def _meld(self, one: int, other: int) -> int:
        """Two heaps as one. No two members of a cluster have one age."""
        if not one or not other:
            return one or other
        nodes = self._nodes
        if nodes.age[other] < nodes.age[one]:
            one, other = other, one
        nodes.sibling[other] = nodes.child[one]
        nodes.child[one] = other
        return one

    def _absorb(self, survivor: int, other: int) -> None:
        clusters = self._clusters
        clusters.into[other] = survivor
        clusters.root[survivor] = self._meld(clusters.root[survivor], clusters.root[other])
        clusters.live[survivor] += clusters.live[other]
        clusters.spent[survivor] += clusters.spent[other] + 1
        former = self._former.pop(other, [])
        former.append(other)
        mine = self._former.setdefault(survivor, former)
        if mine is not former:
            if len(former) > len(mine):
                mine, former = former, mine
                self._former[survivor] = mine
            mine += former

    def _pop(self, cluster: int) -> None:
        """Bring the oldest live member to the root."""
        nodes, clusters = self._nodes, self._clusters
        columns = (nodes.column("row"), nodes.column("child"), nodes.column("sibling"), nodes.column("age"))
        root, gone = pop(clusters.root[cluster], *columns)
        clusters.root[cluster] = root
        nodes.free_all(gone)
        clusters.spent[cluster] -= len(gone)

    def _tree(self, cluster: int) -> NDArray[np.uint32]:
        """All nodes of a cluster, also those whose members have left."""
        nodes, clusters = self._nodes, self._clusters
        most = clusters.live[cluster] + clusters.spent[cluster]
        found: NDArray[np.uint32] = collect(
            clusters.root[cluster], nodes.column("child"), nodes.column("sibling"), most
        )
        return found

    def _renew(self, cluster: int) -> None:
        """Build the heap anew of the live members alone, and give up the records that were taken in."""
        nodes, clusters = self._nodes, self._clusters
        tree = self._tree(cluster)
        live = nodes.column("row")[tree] != NONE
        kept = tree[live]
        nodes.free_all(tree[~live])
        nodes.column("cluster")[kept] = cluster
        columns = (nodes.column("child"), nodes.column("sibling"), nodes.column("age"))
        clusters.root[cluster] = oldest_of(kept, *columns)
        clusters.spent[cluster] = 0
        self._forget_former(cluster)

    def _end(self, cluster: int) -> None:
        self._nodes.free_all(self._tree(cluster))
        self._forget_former(cluster)
        self._clusters.free(cluster)

    def _forget_former(self, cluster: int) -> None:
        for other in self._former.pop(cluster, ()):
            self._clusters.free(other)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Those of `kernels/choose.Live`, until a table grows."""
        return {"node_cluster": self._nodes.column("cluster"), "into": self._clusters.column("into")}

    def sizes(self) -> NDArray[np.uint32]:
        """The live members of every cluster that has a record, in no particular order; linear."""
        used = np.arange(1, self._clusters.used, dtype=np.uint32)
        taken = np.zeros(self._clusters.used, np.bool_)
        taken[self._clusters.free_numbers()] = True
        heads = used[(self._clusters.column("into")[used] == used) & ~taken[used]]
        live: NDArray[np.uint32] = self._clusters.column("live")[heads]
        return live

    def nbytes(self) -> int:
        """Bytes in use."""
        return self._nodes.nbytes() + self._clusters.nbytes()

    def parts(self) -> list[Part]:
        """All of it, for a snapshot."""
        return [self._nodes.part(), self._clusters.part()]

    def restore(self, parts: dict[str, Part]) -> None:
        """Take over what `parts` gave. Raises StateDamaged."""
        for table in (self._nodes, self._clusters):
            table.restore(parts[table.name])
        self._former.clear()
        taken = np.zeros(self._clusters.used, np.bool_)
        taken[self._clusters.free_numbers()] = True
        used = np.arange(1, self._clusters.used, dtype=np.uint32)
        for other in used[(self._clusters.column("into")[used] != used) & ~taken[used]].tolist():
            self._former.setdefault(self._root(other), []).append(other)
