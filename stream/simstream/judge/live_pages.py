"""Adds and removes live pages, and keeps rows, index, directory, clusters and page store in step.

Under `link = "any"` the index has every live page. Under `link = "canonical"` it has only the canonical page of
each cluster; when it leaves, the next oldest member takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from simstream.index.index import Index
from simstream.judge.batch import PageBatch
from simstream.judge.batch_changes import BatchChanges
from simstream.judge.candidates import LivePage
from simstream.judge.cluster_sizes import ClusterSizes, GrownCluster, SizeAlert
from simstream.judge.clusters import Clusters
from simstream.judge.departures import PageDepartures
from simstream.judge.directory import PageDirectory
from simstream.judge.earlier_versions import EarlierVersion, versions
from simstream.judge.expiry import MAX_SINGLE_PAGES, Beat, Leaving, PageExpiry
from simstream.judge.numbers import (
    NO_ENTRY,
    Age,
    BatchPlace,
    ClusterId,
    ClusterRef,
    EntryId,
    RecordNumber,
    Row,
    is_lone,
    lone_cluster,
)
from simstream.judge.pages.due_times import MIN_TIME_MS
from simstream.judge.pages.store import PageRecord, PageStore
from simstream.judge.row_table import FOUNDER, INDEXED, LIVE, RowTable
from simstream.kernels.judge.best_match import LiveColumns
from simstream.model import U64, lookup_values

BUCKETS_A_WINDOW = 4
"""The number of buckets of a window; the index holds about one more.

With more of them entries would leave sooner: they stay in memory up to a bucket's time longer than their pages. But
each page is looked up in every bucket, and a text that comes again has an entry in each.
"""


class LivePages:
    """Adds and removes live pages so that directory, index, clusters, window and page store always agree.

    It works batch by batch. `begin` gives every page of a batch a row and a record. `add` makes a page live.
    `settle` adds the remaining pages to index and directory, and removes the pages that have left.
    """

    def __init__(
        self,
        index: Index,
        window_ms: int | None,
        canonical_only: bool,
        alert: SizeAlert,
        beat: Beat = lambda: None,
        *,
        indexes: bool = True,
    ) -> None:
        """Make a store without pages. Without `indexes` the index stays empty: matchers compare the pages."""
        self.index = index
        self._indexes = indexes
        self.window_ms = window_ms
        self.canonical_only = canonical_only
        self.stream_time: int | None = None
        self.live_pages = 0
        self.rows = RowTable()
        self.pages = PageStore(index.sketch_words)
        self.directory = PageDirectory()
        self.clusters = Clusters(self.rows, lambda row: self.record(row).age)
        self.sizes = ClusterSizes(alert)
        self.beat = beat
        """Called within long steps, as a sign of life."""
        self._expiry = PageExpiry(self.rows, self.pages, window_ms, beat) if window_ms is not None else None
        self.buckets_a_window = BUCKETS_A_WINDOW
        """A state keeps its first number, because its segments belong to these buckets."""
        self.changes = BatchChanges(index, self.rows, self.pages, self.directory, self.buckets, beat)
        self._departures = PageDepartures(self.rows, self.clusters, self.sizes, self.changes, canonical_only)
        self._buckets_dropped = 0
        self._read: tuple[RecordNumber, PageRecord] | None = None
        """The last record read; dropped when records change or move."""

    def begin(self, batch: PageBatch, stored: NDArray[np.bool_] | None = None) -> None:
        """Give every page of a batch a row and a record. No page is live yet.

        If `stored` (n,) is given, only its pages get a row, and a record without an id. The other pages can never
        become live, and `kept` is true for them.
        """
        self.changes.batch, self._read = batch, None
        chosen: slice | NDArray[np.int64] = slice(None)
        ids, id_ends = batch.ids, batch.id_ends
        if stored is not None and not stored.all():
            chosen = np.flatnonzero(stored)
            ids, id_ends = b"", np.zeros(len(chosen), np.uint32)
            batch.kept[:] = True
            batch.kept[chosen] = False
        ordinals = batch.ordinals[chosen]
        rows = self.rows.take(len(ordinals))
        colds = self.pages.append(
            ordinals=ordinals,
            times=batch.times[chosen],
            identities=batch.identities[chosen],
            fingerprints=batch.fingerprints[chosen],
            sketches=batch.sketches[chosen],
            short=batch.short[chosen],
            rows=rows,
            ids=ids,
            id_ends=id_ends,
        )
        self.rows.table.column("cold")[rows] = colds
        batch.rows, batch.colds = np.zeros(len(batch), np.uint32), np.zeros(len(batch), np.uint32)
        batch.rows[chosen], batch.colds[chosen] = rows, colds

    @property
    def _bucket_ms(self) -> int | None:
        return max(1, self.window_ms // self.buckets_a_window) if self.window_ms is not None else None

    def buckets(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bucket (n,) of each time (n,)."""
        bucket_ms = self._bucket_ms
        return np.zeros_like(times) if bucket_ms is None else times // bucket_ms

    @property
    def span_ms(self) -> int:
        """Return the ms from the beginning of the oldest bucket of the index to stream time; 0 without a window or
        entries."""
        bucket_ms = self._bucket_ms
        if bucket_ms is None or self.stream_time is None or not (buckets := self.index.buckets):
            return 0
        return max(0, self.stream_time - buckets[0] * bucket_ms)

    def record(self, row: Row) -> PageRecord:
        """Return a page's record. Cost: a few us, or nothing for the last page asked for."""
        cold = self.rows.table.cold[row]
        if self._read is None or self._read[0] != cold:
            self._read = cold, self.pages.read(cold)
        return self._read[1]

    def id_of(self, row: Row) -> str:
        """Return a page's id. Cost: a few us."""
        return self.record(row).id

    def identity_of(self, row: Row) -> bytes:
        """Return a page's identity. Cost: a few us."""
        return self.pages.identity(self.rows.table.cold[row])

    def live_page(self, row: Row) -> LivePage:
        """Return a live page with its cluster, for queries."""
        return LivePage(self.record(row), self.clusters.id(self.clusters.of(row)))

    def ordinal_rank(self, row: Row) -> int:
        """Return a number that ascends with the pages' ordinals and costs less."""
        return self.pages.order(self.rows.table.cold[row])

    def columns(self) -> LiveColumns:
        """Return the columns that say which page stands for an entry, and its cluster. They are valid until a
        change."""
        return LiveColumns(**self.rows.columns(), **self.clusters.columns(), ranks=self.pages.ranks())

    def lookup_values(self, rows: Sequence[Row], number: int) -> U64:
        """Return the words (n, number) that stored pages are looked up by; see `model.lookup_values`."""
        if len(rows) <= MAX_SINGLE_PAGES:
            records = [self.record(row) for row in rows]
            return np.array([lookup_values(one.fingerprint, one.sketch, number) for one in records], np.uint64)
        found = self.pages.records(self.rows.table.column("cold")[np.array(rows, np.uint32)])
        return np.column_stack([found["fingerprint"], found["sketch"][:, : number - 1]])

    def known(self, identities: NDArray[np.uint64]) -> list[Sequence[EarlierVersion]]:
        """Return for each of n identities (n, 2) the pages that may be its live page.

        Call it between two batches, or at the beginning of one. Cost: some 3 us a page, next to nothing without
        one.
        """
        return versions(self.directory, self.rows, self.pages, identities)

    def live_version(self, identity: bytes, known: Iterable[EarlierVersion]) -> EarlierVersion | None:
        """Return the live page with this identity. `known` comes from the method `known`; its pages may have left
        since."""
        row = self.changes.batch.live.get(identity)
        if row is not None:
            return EarlierVersion.of(self.record(row), row) if row and self.rows.is_live(row) else None
        for version in known:
            if version.identity == identity and self.rows.is_live(version.row):
                return version
        return None

    def advance(self, time: int) -> None:
        """Advance stream time to a readable page's time, and remove pages that are outside the window now."""
        if self.stream_time is None or time > self.stream_time:
            self.stream_time = time
            if self._expiry is not None and self.window_ms is not None:
                self._expire(self._expiry.due(time - self.window_ms))

    def _expire(self, due: Iterable[Leaving]) -> None:
        """Let live pages leave, one by one or many at once; the result is the same."""
        for rows, colds in due:
            if len(rows) > MAX_SINGLE_PAGES:
                self._departures.leave(rows, colds)
                self.live_pages -= len(rows)
            else:
                for row in rows.tolist():
                    self.leave(row, self.record(row).identity)
        self._departures.promote()

    @property
    def late_until(self) -> int:
        """The greatest time of a page that is already outside the window; before all times without a window."""
        if self.window_ms is None or self.stream_time is None:
            return MIN_TIME_MS
        return self.stream_time - self.window_ms

    def tie(self, clusters: Collection[ClusterRef]) -> tuple[ClusterRef, list[ClusterId]]:
        """Merge distinct clusters, as `Clusters.tie` does."""
        if len(clusters) == 1:
            return self.clusters.tie(clusters)
        before = [self.clusters.size(cluster) for cluster in clusters]
        survivor, merged = self.clusters.tie(clusters)
        self.sizes.note_tied(self.clusters.id(survivor), survivor, self.clusters.size(survivor), before, merged)
        return survivor, merged

    def add(self, number: BatchPlace, entry: EntryId, cluster: ClusterRef | None) -> ClusterRef:
        """Make page `number` of the batch live, in a cluster or, for None, in its own cluster.

        `entry` is the entry of an indexed page with exactly its key and bucket, or 0.
        """
        row = self._arrive(number)
        if cluster is None:
            joined = lone_cluster(row)
            self.sizes.note_joined(1)
        else:
            joined = self.clusters.join(cluster, row, Age(int(self.changes.batch.ordinals[number])))
            self.sizes.note_joined(self.clusters.size(joined))
        if not self.canonical_only:
            self._index(number, row, entry)
        elif self.clusters.oldest(joined) == row:
            self._index(number, row, NO_ENTRY)
        return joined

    def add_lone(self, numbers: NDArray[np.int64]) -> None:
        """Make pages (n,) of the batch live, each in its own cluster and under its own entry.

        Each must be a lone page (see `ClosestFinder.find_lone`) with an identity that comes once in the batch. Call
        this after all other changes of the batch. Cost: about .5 us a page.
        """
        batch = self.changes.batch
        rows = batch.rows[numbers]
        self.rows.table.column("state")[rows] = LIVE
        self.live_pages += len(numbers)
        self.sizes.note_alone(len(numbers))
        if self._expiry is not None:
            self._expiry.add_many(batch.times[numbers], rows, batch.colds[numbers])
        self.changes.entries(numbers)

    def renew(self, number: BatchPlace, entry: EntryId, old: Row, age: Age, cluster: ClusterRef) -> ClusterRef:
        """Let page `number` of the batch replace its earlier version, which leaves."""
        alone = self.rows.table.state[old] == LIVE | INDEXED | FOUNDER
        own_entry = EntryId(old)
        if alone and entry == own_entry and own_entry not in self.changes.batch.founders:
            self._stay(number, old, age)
            return cluster
        row = self._arrive(number)
        self._amend(self.rows.table.cold[row], age)
        self.clusters.replace(old, row)
        if not self.canonical_only or self.rows.table.state[old] & INDEXED:
            self._index(number, row, entry)
        self._forget(old, self.changes.batch.identity(number))
        return lone_cluster(row) if is_lone(cluster) else cluster

    def _stay(self, number: BatchPlace, row: Row, age: Age) -> None:
        """Give page `number` of the batch the row of its earlier version, which was alone with the same key."""
        batch, table = self.changes.batch, self.rows.table
        self.changes.replace(table.cold[row])
        cold = RecordNumber(int(batch.colds[number]))
        self._amend(cold, age, row)
        table.cold[row] = cold
        table.free(int(batch.rows[number]))
        batch.rows[number] = row
        batch.kept[number] = True
        batch.live[batch.identity(number)] = row
        self._expires(number, row)

    def leave(self, row: Row, identity: bytes) -> None:
        """Remove a live page everywhere. In a cluster that lives on, only the canonical page changes."""
        indexed = self.rows.table.state[row] & INDEXED
        cluster = self.clusters.of(row)
        size = self.clusters.size(cluster)
        self.sizes.note_left(lambda: self.clusters.id(cluster), size - 1)
        self.clusters.leave(row)
        self._forget(row, identity)
        if self.canonical_only and indexed and size > 1:
            self.changes.promote(self.clusters.oldest(cluster))

    def leave_at_once(self, number: BatchPlace) -> None:
        """Do what `leave` does for page `number` of the batch."""
        batch = self.changes.batch
        self.leave(batch.rows[number].item(), batch.identity(number))

    def settle(self) -> None:
        """Store the remaining pages of the batch; remove the others from index, clusters, directory and store."""
        self.changes.settle()
        self.clusters.settle()
        self._drop_buckets()
        self.index.sweep()
        self.index.settle()
        for numbers in self.index.dropped_slices():
            self.rows.give_back(numbers)
            self.beat()
        self._compact()

    def _amend(self, cold: RecordNumber, age: Age, row: Row | None = None) -> None:
        self._read = None
        self.pages.amend(cold, age=age, row=row)

    def _arrive(self, number: BatchPlace) -> Row:
        batch, row = self.changes.batch, Row(int(self.changes.batch.rows[number]))
        self.rows.table.state[row] = LIVE
        batch.live[batch.identity(number)] = row
        self.live_pages += 1
        self._expires(number, row)
        return row

    def _expires(self, number: BatchPlace, row: Row) -> None:
        if self._expiry is not None:
            batch = self.changes.batch
            self._expiry.add(int(batch.times[number]), row, RecordNumber(int(batch.colds[number])))

    def _index(self, number: BatchPlace, row: Row, entry: EntryId) -> None:
        """Let a live page of the batch answer for an entry: a known entry, an entry of the batch, or its own."""
        if not self._indexes:
            return
        batch = self.changes.batch
        if not self.canonical_only:
            entry = entry or batch.entry_of(batch.groups[number])
            if entry:
                self.rows.join(entry, row)
                return
        self.changes.entry(number, row)

    def _forget(self, row: Row, identity: bytes) -> None:
        self.changes.leave(row, identity)
        self.live_pages -= 1

    def _drop_buckets(self) -> None:
        """Drop the buckets that are outside the window."""
        bucket_ms = self._bucket_ms
        if bucket_ms is None or self.window_ms is None or self.stream_time is None:
            return
        below = (self.stream_time - self.window_ms + 1) // bucket_ms
        if below != self._buckets_dropped:
            self.index.drop_buckets(below)
            self._buckets_dropped = below

    def _compact(self) -> None:
        self._read = None
        moves = self.pages.compact(self.rows.are_live)
        if moves is not None:
            rows, colds = moves
            self.rows.table.column("cold")[rows] = colds

    def look(self, cluster: ClusterRef) -> None:
        """Notice a cluster that is too large."""
        size = self.clusters.size(cluster)
        if self.sizes.is_large(size, self.live_pages):
            self.sizes.look(self.clusters.id(cluster), cluster, size)

    def outgrown(self) -> list[GrownCluster]:
        """Return the clusters noticed as too large since the last call, as they are now."""
        found = []
        for cluster_id, cluster in self.sizes.noticed.items():
            oldest = self.clusters.oldest(cluster)
            if self.rows.is_live(oldest):
                found.append(GrownCluster(cluster_id, self.clusters.size(cluster), self.id_of(oldest)))
        self.sizes.noticed.clear()
        return found

    def close(self) -> None:
        """End the threads of merges and lookups, and close files."""
        self.index.close()
        self.pages.close()
