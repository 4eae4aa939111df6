"""Compares pages that have very many candidates with a whole crowd in one kernel call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simstream.index.index import CrowdedAnswer
from simstream.judge.batch import PageBatch
from simstream.judge.live_pages import LivePages
from simstream.judge.numbers import NO_ENTRY, BatchPlace, ClusterRef, EntryId, Row
from simstream.kernels.index.entry_numbers import NUMBER_MASK
from simstream.kernels.judge.best_match import SEEN_CLUSTERS, choose
from simstream.kernels.judge.crowd import (
    CANDIDATES,
    MATCHES,
    NEXT,
    SIZE,
    TIES,
    TILE_ENTRIES,
    TWIN,
    CrowdColumns,
    CrowdPage,
    CrowdScratch,
    CrowdSearch,
    search,
)

MAX_TIES = 4096
"""The room for clusters in one kernel call."""

Outcome = tuple[NDArray[np.int64], set[ClusterRef], EntryId]
"""What is chosen (3,), see `kernels/judge/best_match`; clusters; an entry of the same key and bucket, or 0."""


class CrowdedFinder:
    """Finds the best matches for the crowded pages of one store's batches; clusters matter if `ties`.

    Cost: some 20 us a page, .5 ns for each entry of the crowd, and 2 to 3 ns for each match.
    """

    def __init__(self, store: LivePages, ties: bool) -> None:
        self._store = store
        self._index = store.index
        self._room = np.empty(MAX_TIES if ties else 0, np.int64)
        self._scratch = CrowdScratch(
            np.empty(TILE_ENTRIES, np.uint64), np.empty(TILE_ENTRIES, np.uint64), np.empty(TILE_ENTRIES, np.int64)
        )

    def begin(self, batch: PageBatch) -> None:
        """Begin with the pages of this batch."""
        self._batch = batch
        self._fellows: CrowdColumns | None = None
        self._taken = 0
        """How many of the pages that have founded an entry are in `_fellows`."""

    def choose(self, number: BatchPlace, near: CrowdedAnswer) -> Outcome:
        """Return the best live match, and the clusters of all matches, among the near entries and the earlier pages
        of the batch.

        The entry of the same key is reported only if it is in a crowd.
        """
        to, live, ties = self._to(), self._store.columns(), set[ClusterRef]()
        most = 0, 0  # candidates and matches; several draws find mostly the same entries
        for found, candidates in near.matches:
            most = max(most, (candidates, len(found.entry)))
            clusters = np.empty(len(found.entry) if len(self._room) else 0, np.int64)
            columns = found.entry, found.distance, found.agreement
            count = choose(*columns, 0, len(found.entry), live, to.chosen, to.seen, clusters, 0)
            ties.update(clusters[:count].tolist())
        page = self._page(number)
        for crowd in near.crowds:
            to.found[CANDIDATES] = to.found[MATCHES] = 0
            self._search(page, crowd.columns, crowd.count, to, ties)
            most = max(most, (int(to.found[CANDIDATES]), int(to.found[MATCHES])))
        self._index.count(*most)
        twin = EntryId(Row(int(to.found[TWIN])))
        self._search(page, self._columns(), number, to, ties)
        return to.chosen, ties, twin

    def twin(self, number: BatchPlace, near: CrowdedAnswer) -> EntryId:
        """Return an entry in a crowd with a live page and exactly the key and bucket of page `number`, or 0.

        Cost: some 20 us, and .3 ns for each entry of the crowd.
        """
        batch = self._batch
        for crowd in near.crowds:
            columns = crowd.columns
            same = np.flatnonzero(columns.fingerprints[: crowd.count] == batch.fingerprints[number])
            rows = columns.rows[same]
            wanted = (columns.sketches[:, same] == batch.sketches[number][:, np.newaxis]).all(axis=0)
            wanted &= (rows >> np.uint32(31) == batch.short[number]) & (
                columns.buckets[same] == batch.buckets[number]
            )
            for entry in (rows[wanted] & np.uint32(NUMBER_MASK)).tolist():
                if self._store.rows.earliest(entry):
                    return EntryId(entry)
        return NO_ENTRY

    def _to(self) -> CrowdSearch:
        return CrowdSearch(
            np.full(3, -1, np.int64), np.zeros(SEEN_CLUSTERS, np.int64), self._room, np.zeros(SIZE, np.int64)
        )

    def _page(self, number: BatchPlace) -> CrowdPage:
        batch = self._batch
        key = batch.fingerprints[number], batch.sketches[number], bool(batch.short[number])
        return self._index.page(*key, int(batch.buckets[number]))

    def _search(
        self, page: CrowdPage, columns: CrowdColumns, count: int, to: CrowdSearch, ties: set[ClusterRef]
    ) -> None:
        to.found[NEXT] = 0
        while to.found[NEXT] < count:
            search(columns, count, self._index.released, page, self._store.columns(), to, self._scratch)
            ties.update(to.ties[: to.found[TIES]].tolist())
            to.found[TIES] = 0

    def _columns(self) -> CrowdColumns:
        """Return the batch's pages in columns, each with the entry that it has founded by now, if any."""
        batch = self._batch
        if self._fellows is None:
            sketches, rows = np.ascontiguousarray(batch.sketches.T), np.zeros(len(batch), np.uint32)
            self._fellows = CrowdColumns(batch.fingerprints, sketches, rows, batch.buckets)
        numbers = np.array(batch.founded[self._taken :], np.int64)
        self._taken += len(numbers)
        short = batch.short[numbers].astype(np.uint32) << np.uint32(31)
        self._fellows.rows[numbers] = batch.rows[numbers] | short
        return self._fellows
