"""Numbers every stored page by a row, and chains the pages that share an entry.

A row is the number of a stored page while it lives. The number of an index entry is the row of the page that
founded it. A second page with the same key makes a chain: all live pages of the entry in the order of their
ordinals. So the earliest page is found at once, and any page leaves at once. Most entries have one page and no
chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simstream.errors import StateDamaged
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.numbers import NO_ENTRY, NO_NODE, NO_ROW, EntryId, NodeNumber, Row
from simstream.judge.record_table import NONE, RecordTable
from simstream.kernels.judge.best_match import CHAINED, FOUNDER, INDEXED, LIVE
from simstream.kernels.judge.departures import EntryChains, NodeColumns, leave_chains

__all__ = ["CHAINED", "FOUNDER", "INDEXED", "LIVE", "RowTable"]


class RowTable:
    """Rows by number: `link` (a node of `judge/clusters`, or chains), `cold` (see `judge/pages/store`), `state`.

    Few pages share their entry. Their nodes stand with their places in chains, so that one column is enough.
    Memory: 9 bytes a page; 20 more for each page that shares its entry, and 16 for each entry that is shared.
    """

    def __init__(self) -> None:
        self.table = RecordTable("rows", {"cold": np.uint32, "link": np.uint32, "state": np.uint8})
        places = ("next", "previous", "chain", "row", "node")
        self._places = RecordTable("places", dict.fromkeys(places, np.uint32))
        self._chains = RecordTable(
            "chains", {"founder": np.uint32, "first": np.uint32, "last": np.uint32, "pages": np.uint32}
        )

    def __len__(self) -> int:
        return len(self.table)

    def take(self, count: int) -> NDArray[np.uint32]:
        """Return `count` rows that have no page yet."""
        rows = self.table.take(count)
        for name in ("link", "state"):
            self.table.column(name)[rows] = 0
        return rows

    def node(self, row: Row) -> NodeNumber:
        """Return a page's node; NO_NODE if it is alone in its cluster, or has left."""
        state, link = self.table.state[row], self.table.link[row]
        if state & CHAINED:
            if not state & LIVE:
                return NO_NODE
            link = self._places.node[self._place(state, link)]
        node: NodeNumber = link
        return node

    def set_node(self, row: Row, node: NodeNumber) -> None:
        """Give a live page a node, or NO_NODE."""
        state, link = self.table.state[row], self.table.link[row]
        if state & CHAINED:
            self._places.node[self._place(state, link)] = node
        else:
            self.table.link[row] = node

    def _place(self, state: int, link: int) -> int:
        """Return the place of a live page in its chain; a live founder is the first."""
        place: int = self._chains.first[link] if state & FOUNDER else link
        return place

    def found(self, row: Row) -> None:
        """Make a row the number of an entry, and its live page the entry's first page."""
        self.table.state[row] |= FOUNDER | INDEXED

    def join(self, founder: EntryId, row: Row) -> None:
        """Let a live page share the entry of `founder`. It must be later than the entry's other pages."""
        table, chains = self.table, self._chains
        if table.state[founder] & CHAINED:
            chain = table.link[founder]
        else:
            chain = chains.new()
            chains.founder[chain], chains.pages[chain] = founder, 0
            chains.first[chain] = chains.last[chain] = NONE
            if table.state[founder] & LIVE:
                self._append(chain, founder)
            table.link[founder] = chain
            table.state[founder] |= CHAINED
        table.link[row] = self._append(chain, row)
        table.state[row] |= CHAINED | INDEXED

    def _append(self, chain: int, row: Row) -> int:
        """Give a page, which is in no chain yet, the last place in one, and return the place."""
        places, chains = self._places, self._chains
        place: int = places.new()
        last = chains.last[chain]
        places.row[place], places.chain[place], places.node[place] = row, chain, self.table.link[row]
        places.next[place], places.previous[place] = NONE, last
        if last:
            places.next[last] = place
        else:
            chains.first[chain] = place
        chains.last[chain] = place
        chains.pages[chain] += 1
        return place

    def earliest(self, entry: EntryId) -> Row:
        """Return the live page of least ordinal with this entry; 0 for none."""
        state = self.table.state[entry]
        if state & CHAINED and state & FOUNDER:
            row: Row = self._places.row[self._chains.first[self.table.link[entry]]]
            return row
        return entry if state & LIVE and state & INDEXED else NO_ROW

    def pages(self, entry: EntryId) -> Iterator[Row]:
        """Return all live pages of an entry, in the order of their ordinals."""
        state = self.table.state[entry]
        if state & CHAINED and state & FOUNDER:
            place = self._chains.first[self.table.link[entry]]
            while place:
                yield self._places.row[place]
                place = self._places.next[place]
        elif state & LIVE and state & INDEXED:
            yield entry

    def leave(self, row: Row) -> EntryId:
        """Remove a page that is no longer live; return the number of the entry that it answered for, or 0.

        It has no node any more. The row is free unless it is the number of an entry.
        """
        table = self.table
        state = table.state[row]
        table.state[row] = state & ~(LIVE | INDEXED)
        if not state & INDEXED:
            return NO_ENTRY
        if not state & CHAINED:
            return EntryId(row)
        places, chains = self._places, self._chains
        if state & FOUNDER:
            chain = table.link[row]
            place = chains.first[chain]  # the founder of an entry is its earliest page
        else:
            place = table.link[row]
            chain = places.chain[place]
            table.state[row] &= ~CHAINED
            table.link[row] = NONE
        founder: EntryId = chains.founder[chain]
        before, after = places.previous[place], places.next[place]
        if before:
            places.next[before] = after
        else:
            chains.first[chain] = after
        if after:
            places.previous[after] = before
        else:
            chains.last[chain] = before
        places.free(place)
        chains.pages[chain] -= 1
        if not chains.pages[chain]:
            chains.free(chain)
            table.state[founder] &= ~CHAINED
            table.link[founder] = NONE
        return founder

    def leave_many(self, rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Do what `leave` does for n live rows without nodes, and return the entries (m,) without live pages.

        Cost: 5 to 20 ns each.
        """
        idle, places, ended = (np.empty(len(rows), np.uint32) for _ in range(3))
        table = {name: self.table.column(name) for name in ("state", "link")}
        chained = {name: self._places.column(name) for name in ("next", "previous", "chain")}
        chains = {name: self._chains.column(name) for name in ("founder", "first", "last", "pages")}
        counts = leave_chains(rows, EntryChains(**table, **chained, **chains), idle, places, ended)
        self._places.free_all(places[: counts[1]])
        self._chains.free_all(ended[: counts[2]])
        return idle[: counts[0]]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return its columns of `kernels/judge/best_match.LiveColumns`. They are valid until a table grows."""
        others = {"cold": self.table.column("cold"), "place_row": self._places.column("row")}
        return self.nodes()._asdict() | others

    def nodes(self) -> NodeColumns:
        """Return the columns that say which node a page has. They are valid until a table grows."""
        state, link = self.table.column("state"), self.table.column("link")
        return NodeColumns(state, link, self._places.column("node"), self._chains.column("first"))

    def give_back(self, rows: NDArray[np.uint32]) -> None:
        """Note that the index no longer has these entries: their rows are free if their pages have left."""
        state = self.table.column("state")
        state[rows] &= 0xFF ^ FOUNDER
        self.table.free_all(rows[(state[rows] & LIVE) == 0])

    def is_live(self, row: Row) -> bool:
        """Whether a live page has this row."""
        return bool(self.table.state[row] & LIVE)

    def are_live(self, rows: NDArray[np.uint32], colds: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Return whether the records `colds` (n,) belong to the live pages in `rows` (n,)."""
        used = rows < self.table.used
        rows = np.where(used, rows, 0)
        live = (self.table.column("state")[rows] & LIVE).astype(np.bool_)
        same: NDArray[np.bool_] = self.table.column("cold")[rows] == colds
        return used & live & same

    @property
    def numbers_used(self) -> int:
        """The numbers in use in the fullest table. A founder that left keeps its row as long as its entry lives."""
        return max(len(self.table), len(self._places), len(self._chains))

    def nbytes(self) -> int:
        """Return the bytes in use, of rows and chains."""
        return self.table.nbytes() + self._places.nbytes() + self._chains.nbytes()

    def parts(self) -> list[SnapshotPart]:
        """Return rows and chains, as parts of a snapshot."""
        return [self.table.part(), self._places.part(), self._chains.part()]

    def restore(self, parts: dict[str, SnapshotPart]) -> None:
        """Take over what `parts` returned. Raises StateDamaged."""
        parts = _with_nodes_in_links(parts)
        for table in (self.table, self._places, self._chains):
            table.restore(parts[table.name])


def _with_nodes_in_links(parts: dict[str, SnapshotPart]) -> dict[str, SnapshotPart]:
    """Return the parts of a snapshot. Nodes of an earlier one, which had a column, stand in links and places.

    Raises StateDamaged.
    """
    rows, places, chains = (parts[name].arrays for name in ("rows", "places", "chains"))
    if "node" not in rows:
        return parts
    try:
        state, link, node = rows["state"], rows["link"], rows["node"]
        chained = (state & CHAINED) != 0
        live = np.flatnonzero(chained & ((state & LIVE) != 0))
        at, founds = link[live], (state[live] & FOUNDER) != 0
        at[founds] = chains["first"][at[founds]]
        place_node = np.zeros_like(places["row"])
        place_node[at] = node[live]
        links = np.where(chained, link, node)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise StateDamaged(f"rows and chains of the state do not fit together ({error!r})", START_OVER) from error
    kept = {name: array for name, array in {**rows, "link": links}.items() if name != "node"}
    return parts | {
        "rows": parts["rows"]._replace(arrays=kept),
        "places": parts["places"]._replace(arrays={**places, "node": place_node}),
    }
