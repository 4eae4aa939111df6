"""Collects the changes of one batch to the live pages, and applies them to index, directory and page store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from simstream.index.index import Index
from simstream.judge.batch import PageBatch
from simstream.judge.directory import PageDirectory
from simstream.judge.expiry import Beat
from simstream.judge.numbers import BEFORE_BATCH, NO_ROW, BatchPlace, EntryId, RecordNumber, Row
from simstream.judge.pages.store import PageStore
from simstream.judge.row_table import FOUNDER, INDEXED, LIVE, RowTable

Buckets = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Returns the bucket (n,) of each time (n,)."""
KEEP_SHARE = 1024
"""If at least one page in 1,024 leaves in a batch, one pass goes over the whole directory."""
MAX_APART_HEIRS = 1 << 13
"""The most heirs that each page of a batch is compared with; if there are more, all go to the index at once."""
MAX_RECORDS_AT_ONCE = 1 << 16
"""Records that are read together."""


class BatchChanges:
    """The changes of the current batch. `settle` applies them all at once, and then there are none."""

    def __init__(
        self, index: Index, rows: RowTable, pages: PageStore, directory: PageDirectory, buckets: Buckets, beat: Beat
    ) -> None:
        self.reindexed = 0
        """How often heirs were indexed within a batch. An earlier answer does not contain these heirs."""
        self._index = index
        self._rows = rows
        self._pages = pages
        self._directory = directory
        self._buckets = buckets
        self._beat = beat
        self._clear()

    def _clear(self) -> None:
        self.batch = PageBatch.empty(self._index.sketch_words)
        self.promoted: list[Row] = []
        """Rows that stand for a canonical page that has left in this batch, and are not in the index yet."""
        self._touched: set[EntryId] = set()
        """Entries from which a page has left."""
        self._gone: list[tuple[bytes, Row]] = []
        """Identities and rows of pages that are no longer live."""
        self._replaced: list[RecordNumber] = []
        """Records whose row has another record now."""
        self._left: list[tuple[NDArray[np.uint32], NDArray[np.uint32]]] = []
        """Rows and records of pages of earlier batches that left with many others; empty if there are too many."""
        self._left_count = 0
        self._former_heirs: list[Row] = []
        """Rows of `_left` whose entry never came to the index; they are free once the batch is settled."""
        self._lone_founders: NDArray[np.int64] = np.empty(0, np.int64)
        """The places of the pages of `entries`. None of them changes any more within the batch."""

    def entry(self, number: BatchPlace, row: Row) -> None:
        """Note that page `number`, in this row, has founded an entry."""
        self._rows.found(row)
        self.batch.found(number, row)

    def entries(self, numbers: NDArray[np.int64]) -> None:
        """Do what `entry` does for pages (n,) of the batch that are near no other page of it. Call it last, and
        once."""
        rows = self.batch.rows[numbers]
        self._rows.table.column("state")[rows] |= FOUNDER | INDEXED
        self._lone_founders = numbers

    def promote(self, heir: Row) -> None:
        """Let a new canonical page be found: in `promoted` at first, in the index after `settle` or
        `index_promoted`."""
        self._rows.found(heir)
        self.batch.founders[EntryId(heir)] = self.batch.number_of(heir)
        self.promoted.append(heir)
        if len(self.promoted) > MAX_APART_HEIRS:
            self.index_promoted()

    def promote_many(self, heirs: NDArray[np.uint32]) -> None:
        """Do what `promote` does for each heir."""
        mine = np.isin(heirs, self.batch.rows)
        for heir in heirs[mine].tolist():
            self.promote(heir)
        others = heirs[~mine]
        self._rows.table.column("state")[others] |= FOUNDER | INDEXED
        if len(self.promoted) + len(others) <= MAX_APART_HEIRS:
            self.batch.founders.update(dict.fromkeys(others.tolist(), BEFORE_BATCH))
            self.promoted += others.tolist()
        else:
            self.index_promoted()
            self._add_many_heirs(others)

    def index_promoted(self) -> None:
        """Move the promoted pages to the index now, as otherwise each page of the batch is compared with all."""
        live = [EntryId(heir) for heir in self.promoted if self._rows.is_live(heir)]
        self._add_entries({heir: self.batch.founders.pop(heir) for heir in live}, np.empty(0, np.int64))
        self.promoted.clear()
        self.reindexed += 1

    def replace(self, cold: RecordNumber) -> None:
        """Note that a row has another record from now on."""
        self._replaced.append(cold)

    def leave(self, row: Row, identity: bytes) -> None:
        """Note that a page is no longer live: nothing refers to it, and its row is free once the batch is
        settled."""
        entry = self._rows.leave(row)
        if entry:
            self._touched.add(entry)
        if self.batch.live.get(identity, row) == row:
            self.batch.live[identity] = NO_ROW
        self._gone.append((identity, row))

    def leave_many(self, rows: NDArray[np.uint32], colds: NDArray[np.uint32]) -> None:
        """Do what `leave` does for each of n live pages with these records; most rows are free from now on."""
        batch, table = self.batch, self._rows.table
        idle = self._rows.leave_many(rows)
        own = self._wait_for_index(idle)
        self._touched.update(idle[own].tolist())
        idle = idle[~own]
        if self._touched:
            self._touched.difference_update(idle.tolist())
        self._index.release(idle, sweep=False)
        before = ~np.isin(rows, batch.rows[~batch.kept])
        rows, colds = rows[before], colds[before]
        self._pages.note_left(colds)
        numbers = (table.column("state")[rows] & FOUNDER) != 0
        self._former_heirs += rows[numbers][self._wait_for_index(rows[numbers])].tolist()
        self._left_count += len(rows)
        if self._is_few():
            self._left.append((rows, colds))
        else:
            self._left.clear()
        table.free_all(rows[~numbers])

    def _wait_for_index(self, rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Return for each row (n,) whether it has an entry that is not in the index yet."""
        founders = self.batch.founders
        return np.fromiter((row in founders for row in rows.tolist()), np.bool_, len(rows))

    def _is_few(self) -> bool:
        return self._left_count * KEEP_SHARE < len(self._directory)

    def settle(self) -> None:
        """Add the remaining pages of the batch to index and directory, and remove the pages that have left."""
        founders, state = self.batch.founders, self._rows.table.state
        idle = [entry for entry in self._touched if not self._rows.earliest(entry)]
        for entry in idle:
            if entry in founders:
                state[entry] &= ~FOUNDER
        self._add_entries(founders, self._lone_founders)
        released = sorted(entry for entry in idle if entry not in founders)
        if released:
            self._index.release(np.array(released, np.uint32), sweep=False)
        self._settle_pages()
        self._clear()

    def _add_entries(self, founders: Mapping[EntryId, BatchPlace], lone: NDArray[np.int64]) -> None:
        """Add the new entries of the batch's pages, and those of heirs, to the index, except entries that have
        ended. Entries of lone pages (n,) never end within the batch."""
        entries = np.fromiter(founders.keys(), np.uint32, len(founders))
        numbers = np.fromiter(founders.values(), np.int64, len(founders))
        remain = (self._rows.table.column("state")[entries] & FOUNDER) != 0
        own = remain & (numbers != BEFORE_BATCH)
        numbers = np.concatenate([numbers[own], lone])
        if len(numbers):
            batch = self.batch
            self._index.add(
                batch.rows[numbers],
                batch.fingerprints[numbers],
                batch.sketches[numbers],
                batch.short[numbers],
                batch.buckets[numbers],
            )
        heirs = entries[remain & ~own]
        if len(heirs):
            self._add_many_heirs(heirs)

    def _add_many_heirs(self, heirs: NDArray[np.uint32]) -> None:
        heirs = heirs[np.argsort(self._rows.table.column("cold")[heirs])]  # neighbouring records are read together
        for at in range(0, len(heirs), MAX_RECORDS_AT_ONCE):
            self._add_heirs(heirs[at : at + MAX_RECORDS_AT_ONCE])
            self._beat()

    def _add_heirs(self, heirs: NDArray[np.uint32]) -> None:
        found = self._pages.records(self._rows.table.column("cold")[heirs])
        self._index.add(heirs, found["fingerprint"], found["sketch"], found["short"], self._buckets(found["time"]))

    def _settle_pages(self) -> None:
        """Add the batch's live pages to the directory, remove earlier pages that have left, and free their rows."""
        batch, rows, pages = self.batch, self._rows, self._pages
        state = rows.table.column("state")
        live = (state[batch.rows] & LIVE) != 0
        new = ~batch.kept
        mine = set(batch.rows[new].tolist()) if self._gone else ()
        before = [(identity, row) for identity, row in self._gone if row not in mine]
        self._take_out(before)
        if before:
            pages.note_left(rows.table.column("cold")[np.array([row for _, row in before], np.uint32)])
        stayed, left = live & new, ~live & new
        if stayed.any():
            self._directory.add(batch.identities[stayed], batch.rows[stayed])
        if left.any():
            pages.note_left(batch.colds[left])
        if self._replaced:
            pages.note_left(np.array(self._replaced, np.uint32))
        for row in [*(row for _, row in before), *self._former_heirs, *batch.rows[left].tolist()]:
            if not state[row] & FOUNDER:
                rows.table.free(row)

    def _take_out(self, before: list[tuple[bytes, Row]]) -> None:
        """Remove from the directory the pages of earlier batches that have left: `before` and `_left`."""
        if self._left_count and not self._is_few():
            live = self._rows.table.column("state")
            if self._directory.keep(live, LIVE, self._beat) != len(before) + self._left_count:
                raise ValueError("the directory does not hold exactly the live pages")
            return
        identities = [np.frombuffer(b"".join(identity for identity, _ in before), np.uint64).reshape(-1, 2)]
        rows = [np.array([row for _, row in before], np.uint32)]
        for gone, colds in self._left:
            identities.append(self._pages.records(colds)["identity"])
            rows.append(gone)
        gone = np.concatenate(rows)
        if len(gone):
            self._directory.remove(np.concatenate(identities), gone)
