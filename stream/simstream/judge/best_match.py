"""Finds the best match of each page of a batch, and the clusters that its matches tie.

The index answers for many pages at once, in columns. An answer is interpreted when its page is judged: meanwhile an
entry may have lost its pages, or have new ones. A kernel examines many matches; few are examined one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.index.answers import spread
from simstream.index.index import CrowdedAnswer, Index
from simstream.index.keys import frozen
from simstream.index.matches import Matches
from simstream.judge.batch import PageBatch
from simstream.judge.candidates import ComparedPage, compare
from simstream.judge.crowded_finder import CrowdedFinder
from simstream.judge.live_pages import LivePages
from simstream.judge.numbers import NO_ENTRY, BatchPlace, ClusterRef, EntryId, Row
from simstream.judge.policy import Policy
from simstream.kernels.index.hamming import any_near, mark_near
from simstream.kernels.judge.best_match import (
    AGREEMENT,
    DISTANCE,
    ROW,
    SEEN_CLUSTERS,
    FoundedEntries,
    choose,
    choose_founded,
)
from simstream.model import U64, lookup_values

STEP_PAGES = 256
"""Pages of a batch that are compared at once with one another and with earlier pages of the batch.

Under `any` these are all earlier pages, under `canonical` only canonical ones. So each of many similar pages costs
the same.
"""
MAX_SINGLE_MATCHES = 2
"""Up to this many matches of a page are examined one by one, as a call of the kernel costs as much."""
MAX_NEAR_HEIRS = 32
"""If more heirs are near a page, they are better compared by the index, which compares with many at once."""
NONE: Final = np.empty(0, np.int64)

Chosen = tuple["BestMatch | None", set[ClusterRef]]
Triple = tuple[EntryId, int, int]
"""(entry, distance, agreement)"""


class BestMatch(msgspec.Struct, frozen=True, gc=False):
    """The closest match: greatest agreement, then smallest distance, then least ordinal."""

    row: Row
    distance: int
    agreement: int


class ClosestMatches:
    """The near entries of the pages of a batch from `first` to `end`."""

    __slots__ = ("crowded", "end", "first", "found", "starts")

    def __init__(self, first: int, found: Matches) -> None:
        self.first = first
        self.end = first + found.done
        self.found = found
        self.starts: list[int] = found.starts.tolist()
        self.crowded: list[bool] = found.crowded.tolist()

    def is_crowded(self, number: BatchPlace) -> bool:
        """Whether a page is crowded, so that it has no matches here."""
        return self.crowded[number - self.first]

    def span(self, number: BatchPlace) -> tuple[int, int]:
        """Return where the matches of a page begin and end."""
        at = number - self.first
        return self.starts[at], self.starts[at + 1]

    def triples(self, start: int, end: int) -> Iterator[Triple]:
        """Return the matches from `start` to `end` as integers."""
        found = self.found
        columns = found.entry[start:end], found.distance[start:end], found.agreement[start:end]
        return zip(*(column.tolist() for column in columns), strict=True)


class ClosestFinder:
    """Finds the best matches for the batches of one store under one policy.

    Ask for the pages of a batch in their order: when the earlier pages are live, and the page itself is not.
    Memory: one answer of the index and one of a step, each at most a million matches, or the matches of one page.
    """

    def __init__(self, policy: Policy, store: LivePages, divided: bool = False) -> None:
        """`divided` says that the index is a shard's: it may find a copy by a further lookup alone."""
        self._policy = policy
        self._may_miss_copies = divided and policy.lookups > 1
        self._store = store
        self._index: Index = store.index
        self._any = policy.link == "any"
        self._crowded = CrowdedFinder(self._store, self._any)
        self._no_heirs: U64 = np.empty((policy.lookups, 0), np.uint64)

    def begin(self, batch: PageBatch, asked: NDArray[np.bool_] | None = None) -> None:
        """Begin with the pages of this batch.

        If `asked` (n,) is given, only its pages are looked up, and only among entries with their own fingerprints.
        Then call only `find_without_twin` and `find_twin`.
        """
        self._batch, self._asked = batch, asked
        self._entries = self._fellows = ClosestMatches(0, NOTHING)
        self._twins: dict[BatchPlace, list[EntryId]] = {}
        """Per page of `_entries` the entries with its own fingerprint, sketch, length and bucket."""
        self._heirs = self._no_heirs
        """The `lookup_values` (L, n) of the first rows of `BatchChanges.promoted`, which only grows until
        `reindexed` changes."""
        self._compared = 0
        """Heirs that were compared since all went to the index."""
        self._reindexed = self._store.changes.reindexed
        """The value of `BatchChanges.reindexed` when the index answered `_entries`."""
        self._crowded.begin(batch)
        self._groups = NONE
        """The groups to which the matches of `_fellows` refer."""
        self._apart = asked is not None or (
            len(batch) <= STEP_PAGES and not any_near(self._lookup_values(batch), self._policy.distance)
        )
        """Whether no page needs a comparison with the rest of the batch: none is near another one, as in most small
        batches, or `asked` is given."""

    def find_lone(self) -> NDArray[np.bool_]:
        """Return for each page of the batch (n,) whether it surely is a lone page.

        A lone page is near no entry of the index and near no other page of the batch. Some lone pages may be left
        out. Call it before `choose`.
        """
        batch = self._batch
        lone = np.zeros(len(batch), np.bool_)
        if not len(batch):
            return lone
        found = self._near(BatchPlace(0)).found
        lone[: found.done] = (np.diff(found.starts) == 0) & ~found.crowded
        if not self._apart:
            marks = np.zeros(len(batch), np.uint8)
            for column in np.ascontiguousarray(self._lookup_values(batch).T):
                mark_near(frozen(column, np.uint64), self._policy.distance, marks)
            lone &= marks == 0
        return lone

    def find_without_twin(self) -> NDArray[np.bool_]:
        """Return for each page (n,) whether surely no entry of the index has its key and bucket.

        It is true for each page that is not `asked` for. An asked page may get False although it has none. Call it
        before `find_twin`.
        """
        if self._asked is None or not self._asked.any():
            return np.ones(len(self._batch), np.bool_)
        found = self._near(BatchPlace(0)).found
        single = ~self._asked
        single[: found.done] |= ~found.crowded
        single[list(self._twins)] = False
        return single

    def find_twin(self, number: BatchPlace) -> EntryId:
        """Look up page `number`, and return an entry with a live page and exactly its key and bucket, or 0."""
        if self._near(number).is_crowded(number):
            near = self._near_crowd(number)
            if twin := self._crowded.twin(number, near):
                self._twins[number] = [twin]
        return self.twin(number)

    def twin(self, number: BatchPlace) -> EntryId:
        """Return an entry with a live page and exactly the key and bucket of page `number`, or 0. Call it after
        `choose`."""
        found = self._twins.get(number)
        return next((entry for entry in found if self._store.rows.earliest(entry)), NO_ENTRY) if found else NO_ENTRY

    def choose(self, page: ComparedPage, number: BatchPlace, same: Row) -> Chosen:
        """Return the best match of page `number`, and the clusters that it ties.

        `same` is the row of the earlier version that it matches, or 0; with an earlier version the best match does
        not matter. All pages of one entry match one another. So under `any` they share a cluster, and the earliest
        of them stands for all.
        """
        store = self._store
        if same and not self._any:
            return None, {store.clusters.of(same)}
        best, ties = self._found(number, same)
        heirs = self._heirs_near(page) if store.changes.promoted else []
        self._compared += len(heirs)
        # The rest of the batch is looked up again then, so as many comparisons must have come before.
        if len(heirs) > MAX_NEAR_HEIRS and self._compared > len(self._batch) - number:
            self._compared, heirs = 0, []
            store.changes.index_promoted()
            best, ties = self._found(number, same)
        for heir in heirs:
            best = self._with_heir(page, heir, best)
        if same:
            ties.add(store.clusters.of(same))
        elif best is not None and not self._any:
            ties = {store.clusters.of(best.row)}
        return best, ties

    def _found(self, number: BatchPlace, same: Row) -> Chosen:
        """Return the best match among the live entries of the index and the batch, and under `any` the clusters."""
        near = self._near(number)
        if near.is_crowded(number):
            return self._of_crowd(number)
        fellows, first, last = self._near_fellows(number)
        start, end = near.span(number)
        if (
            not self._any
            and last - first > MAX_SINGLE_MATCHES
            and not self._any_founded(fellows.found, first, last)
        ):
            last = first
        size = end - start + last - first
        if not size or (size == 1 and same and end > start and self._is_own(near.found, start, same)):
            return None, set()
        if size > MAX_SINGLE_MATCHES:
            return self._of_many(near.found, (start, end), fellows.found, (first, last))
        found = near.triples(start, end) if end > start else ()
        founded = self._founded(fellows.triples(first, last)) if last > first else ()
        return self._of_few((*found, *founded))

    def _of_crowd(self, number: BatchPlace) -> Chosen:
        """Do what `_found` does for a page with very many candidates."""
        found, ties, twin = self._crowded.choose(number, self._near_crowd(number))
        if twin:
            self._twins[number] = [twin]
        agreement, distance, row = found[AGREEMENT].item(), found[DISTANCE].item(), found[ROW].item()
        return BestMatch(row, distance, agreement) if agreement >= 0 else None, ties

    def _near_crowd(self, number: BatchPlace) -> CrowdedAnswer:
        """Return the crowds of a crowded page, and take the entries with its key from the matches beside them."""
        near = self._index.query_crowded(*self._batch.keys(slice(number, number + 1)))
        for known, _ in near.matches:
            self._twins.update(self._twins_of(ClosestMatches(number, known)))
        return near

    def _is_own(self, found: Matches, at: int, row: Row) -> bool:
        """Whether a match is only the page's earlier version, or its copies in the same cluster."""
        return self._store.rows.earliest(found.entry[at].item()) == row

    def _any_founded(self, found: Matches, first: int, last: int) -> bool:
        """Whether any of the matching groups has an entry; under `canonical` hardly any has."""
        return bool(self._batch.heads[self._groups[found.entry[first:last]]].any())

    def _of_few(self, matches: Iterable[Triple]) -> Chosen:
        store, best, ties = self._store, None, set()
        for entry, distance, agreement in matches:
            if row := store.rows.earliest(entry):
                found = BestMatch(row, distance, agreement)
                if best is None or self._is_closer(found, best):
                    best = found
                if self._any:
                    ties.add(store.clusters.of(row))
        return best, ties

    def _of_many(self, found: Matches, span: tuple[int, int], fellows: Matches, others: tuple[int, int]) -> Chosen:
        live, chosen = self._store.columns(), np.full(3, -1, np.int64)
        size = span[1] - span[0] + others[1] - others[0]
        seen, ties = np.zeros(SEEN_CLUSTERS, np.int64), np.empty(size, np.int64) if self._any else NONE
        count = choose(found.entry, found.distance, found.agreement, *span, live, chosen, seen, ties, 0)
        if others[1] > others[0]:
            founded = FoundedEntries(self._groups, self._batch.heads, self._batch.following, self._batch.rows)
            columns = fellows.entry, fellows.distance, fellows.agreement
            count = choose_founded(*columns, *others, founded, live, chosen, seen, ties, count)
        agreement, distance, row = chosen[AGREEMENT].item(), chosen[DISTANCE].item(), chosen[ROW].item()
        return BestMatch(row, distance, agreement) if agreement >= 0 else None, set(ties[:count].tolist())

    def _founded(self, matches: Iterable[Triple]) -> Iterator[Triple]:
        """Return the entries that the batch has founded in matching groups."""
        batch = self._batch
        for place, distance, agreement in matches:
            number = batch.heads[self._groups[place]].item()
            while number:
                yield batch.rows[number - 1].item(), distance, agreement
                number = batch.following[number - 1].item()

    def _heirs_near(self, page: ComparedPage) -> list[Row]:
        """Return the live pages of `BatchChanges.promoted` that are within the distance."""
        store, known = self._store, self._heirs.shape[1]
        promoted = store.changes.promoted
        if len(promoted) > known:
            fresh = store.lookup_values(promoted[known:], self._policy.lookups)
            self._heirs = np.concatenate([self._heirs, fresh.T], axis=1)
        own = lookup_values(page.fingerprint, page.sketch, self._policy.lookups)
        distances = np.bitwise_count(self._heirs ^ np.array(own, np.uint64)[:, np.newaxis]).min(axis=0)
        near = distances <= self._policy.distance
        return [promoted[i] for i in np.flatnonzero(near).tolist() if store.rows.is_live(promoted[i])]

    def _with_heir(self, page: ComparedPage, row: Row, best: BestMatch | None) -> BestMatch | None:
        """Return the best match so far, or the page of this row if it is a better match."""
        pair = compare(page, self._store.record(row), self._policy)
        if pair.fails is not None:
            return best
        found = BestMatch(row, pair.distance, pair.agreement)
        return found if best is None or self._is_closer(found, best) else best

    def _is_closer(self, one: BestMatch, other: BestMatch) -> bool:
        if one.agreement != other.agreement:
            return one.agreement > other.agreement
        if one.distance != other.distance:
            return one.distance < other.distance
        return self._store.ordinal_rank(one.row) < self._store.ordinal_rank(other.row)

    def _near(self, number: BatchPlace) -> ClosestMatches:
        """Return the index's answer that contains page `number`. Asks for as many pages at once as its limit
        allows."""
        outdated = self._reindexed != self._store.changes.reindexed
        if outdated:
            self._reindexed, self._heirs = self._store.changes.reindexed, self._no_heirs
        if outdated or number >= self._entries.end:
            self._entries = ClosestMatches(number, self._ask(number))
            self._twins = self._twins_of(self._entries)
        return self._entries

    def _ask(self, first: BatchPlace) -> Matches:
        """Return the index's answer for the pages from `first` on, or as many of them as its limit allows."""
        if self._asked is None:
            return self._index.query_apart(*self._batch.keys(slice(first, None)))
        asked = np.flatnonzero(self._asked[first:])
        found = self._index.query_equal(*self._batch.keys(first + asked))
        return spread(found, asked, np.zeros(len(self._batch) - first, np.bool_))

    def _twins_of(self, answer: ClosestMatches) -> dict[BatchPlace, list[EntryId]]:
        found, first = answer.found, answer.first
        twins = self._with_same_key(found, np.arange(first, answer.end))
        if self._may_miss_copies and self._asked is None:
            sketch_bits = 64 * (self._batch.sketches.shape[1] - self._policy.fingerprints + 1)
            alike = np.flatnonzero(found.agreement == sketch_bits)  # the same sketch, perhaps the same fingerprint
            numbers = np.unique(first + np.searchsorted(found.starts, alike, side="right") - 1)
            numbers = numbers[[number not in twins for number in numbers.tolist()]]
            if len(numbers):
                again = self._index.query_equal(*self._batch.keys(numbers))
                twins |= self._with_same_key(again, numbers)
        return twins

    def _with_same_key(self, found: Matches, numbers: NDArray[np.int64]) -> dict[BatchPlace, list[EntryId]]:
        """Return the found entries with exactly the key and bucket of their page; `numbers` (n,) are the pages."""
        batch, same = self._batch, np.flatnonzero(found.same)
        pages = numbers[np.searchsorted(found.starts, same, side="right") - 1]
        own = batch.short[pages] == found.short[same].astype(np.bool_)
        own &= batch.buckets[pages] == found.bucket[same]
        twins: dict[BatchPlace, list[EntryId]] = {}
        for number, entry in zip(pages[own].tolist(), found.entry[same[own]].tolist(), strict=True):
            twins.setdefault(number, []).append(entry)
        return twins

    def _near_fellows(self, number: BatchPlace) -> tuple[ClosestMatches, int, int]:
        """Return the keys of the batch near page `number` that can have an entry when it is judged.

        These have an entry when a step begins, or are keys of pages in the step.
        """
        batch = self._batch
        if self._apart:
            return self._fellows, 0, 0
        if number >= self._fellows.end or self._fellows.is_crowded(number):
            self._fellows = self._join(number, BatchPlace(min(number + STEP_PAGES, len(batch))))
        start, end = self._fellows.span(number)
        alone = end - start == 1 and not batch.entry_of(batch.groups[number])  # its own key is always among them
        return self._fellows, start, start if alone else end

    def _lookup_values(self, batch: PageBatch) -> U64:
        """Return the words (n, L) that the pages of a batch are looked up by; see `model.lookup_values`."""
        words = batch.fingerprints[:, np.newaxis], batch.sketches[:, : self._policy.lookups - 1]
        return frozen(np.hstack(words), np.uint64)

    def _join(self, start: BatchPlace, end: BatchPlace) -> ClosestMatches:
        batch = self._batch
        asked_for = batch.heads != 0
        asked_for[batch.group_column[start:end]] = True
        self._groups = np.flatnonzero(asked_for)
        keys = batch.keys(batch.firsts[self._groups])
        crowded = np.zeros(end - start, np.bool_)
        known = self._entries.found.crowded[start - self._entries.first : end - self._entries.first]
        crowded[: len(known)] = known
        others = np.flatnonzero(~crowded)
        asked = batch.keys(start + others)
        return ClosestMatches(start, spread(self._index.join(asked, keys, in_order=False), others, crowded))


def _no_matches() -> Matches:
    none, small = np.empty(0, np.int64), np.empty(0, np.uint8)
    return Matches(
        0, np.zeros(1, np.int64), none, small, np.empty(0, np.uint16), small, small, none, none.astype(np.bool_)
    )


NOTHING: Final = _no_matches()
