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

from simstream.files import SnapshotPart
from simstream.judge.numbers import NO_ENTRY, NO_ROW, EntryId, Row
from simstream.judge.record_table import NONE, RecordTable
from simstream.kernels.judge.best_match import CHAINED, FOUNDER, INDEXED, LIVE
from simstream.kernels.judge.departures import EntryChains, leave_chains

__all__ = ["CHAINED", "FOUNDER", "INDEXED", "LIVE", "RowTable"]


class RowTable:
    """Rows by number: `node` (see `judge/clusters`), `link` (chains), `cold` (see `judge/pages/store`), `state`.

    Memory: 13 bytes a page; 16 more for each page that shares its entry, and 16 for each entry that is shared.
    """

    def __init__(self) -> None:
        self.table = RecordTable(
            "rows", {"cold": np.uint32, "node": np.uint32, "link": np.uint32, "state": np.uint8}
        )
        self._places = RecordTable(
            "places", {"next": np.uint32, "previous": np.uint32, "chain": np.uint32, "row": np.uint32}
        )
        self._chains = RecordTable(
            "chains", {"founder": np.uint32, "first": np.uint32, "last": np.uint32, "pages": np.uint32}
        )

    def __len__(self) -> int:
        return len(self.table)

    def take(self, count: int) -> NDArray[np.uint32]:
        """Return `count` rows that have no page yet."""
        rows = self.table.take(count)
        for name in ("node", "link", "state"):
            self.table.column(name)[rows] = 0
        return rows

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
            table.link[founder] = chain
            table.state[founder] |= CHAINED
            if table.state[founder] & LIVE:
                self._append(chain, founder)
        table.link[row] = self._append(chain, row)
        table.state[row] |= CHAINED | INDEXED

    def _append(self, chain: int, row: Row) -> int:
        places, chains = self._places, self._chains
        place: int = places.new()
        last = chains.last[chain]
        places.row[place], places.chain[place] = row, chain
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

        The row is free unless it is the number of an entry.
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
        return founder

    def leave_many(self, rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Do what `leave` does for n live rows, and return the entries (m,) without live pages. Cost: 5 to 20 ns
        each."""
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
        named = {name: self.table.column(name) for name in ("state", "link", "node", "cold")}
        return {**named, "place_row": self._places.column("row"), "chain_first": self._chains.column("first")}

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

    def nbytes(self) -> int:
        """Return the bytes in use, of rows and chains."""
        return self.table.nbytes() + self._places.nbytes() + self._chains.nbytes()

    def parts(self) -> list[SnapshotPart]:
        """Return rows and chains, as parts of a snapshot."""
        return [self.table.part(), self._places.part(), self._chains.part()]

    def restore(self, parts: dict[str, SnapshotPart]) -> None:
        """Take over what `parts` returned. Raises StateDamaged."""
        for table in (self.table, self._places, self._chains):
            table.restore(parts[table.name])
