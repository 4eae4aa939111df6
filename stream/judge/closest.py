"""The closest: which live page is the best match of each page of a batch, and which clusters its matches tie.

The index answers for many pages at once, in columns. What an answer means is looked up when its page is judged, by
a kernel over the judge's columns: an entry may have lost its pages since, or have got others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.index.index import Index
from stream.index.keys import Keys
from stream.index.matches import Matches
from stream.judge.batch import Batch
from stream.judge.candidates import Compared, compare
from stream.judge.clusters import Cluster
from stream.judge.store import Store
from stream.kernels.choose import AGREEMENT, DISTANCE, ROW, SEEN, Founded, choose, choose_founded
from stream.text.policy import Policy

STEP: Final = 256
"""Pages of a batch that are compared at once with one another and those before them: with all of these under `any`,
but under `canonical` only with canonical ones, so that pages alike cost the same however many they are."""
FEW = 8
"""Up to so many matches of a page are looked at one by one."""
NO_TIES: Final = np.empty(0, np.int64)


class Best(NamedTuple):
    """The closest match: greatest agreement, then smallest distance, then least ordinal."""

    row: int
    distance: int
    agreement: int


class Span(NamedTuple):
    """The matches of one page among those of others."""

    found: Matches
    start: int
    end: int


class Near(NamedTuple):
    """What one page of a batch is near to."""

    number: int
    """The page's place in the batch."""
    matches: Span
    """Entries of the index."""
    twins: list[int]
    """Those of its own fingerprint, sketch, length and bucket."""
    fellows: Span | None
    """Keys of the batch's own pages: places in `groups`."""
    groups: NDArray[np.uint32]


class Closest:
    """Finds and chooses for the batches of one store under one policy."""

    def __init__(self, policy: Policy, store: Store) -> None:
        self._policy = policy
        self._store = store
        self._index: Index = store.index
        self._any = policy.link == "any"

    def nearby(self, batch: Batch) -> Iterator[Near]:
        """What each page of a batch is near to; ask for a page only after those before it were judged.

        Memory: one answer of the index and one of a step, each at most a million matches, or those of one page.
        """
        entries, fellows = self._entries(batch), self._fellows(batch)
        for number in range(len(batch)):
            matches, twins = next(entries)
            yield Near(number, matches, twins, *next(fellows))

    def choose(self, page: Compared, near: Near, batch: Batch, same: int) -> tuple[Best | None, set[Cluster]]:
        """The best match, and the clusters that the page ties together; `same` is the row of the earlier version
        that it matches, 0 for none.

        All pages of one entry match one another, so under `any` they share a cluster, and the earliest of them
        stands for all.
        """
        store = self._store
        if same and not self._any:
            return None, {store.clusters.of(same)}
        best, ties = self._found(near, batch)
        for heir in store.promoted:
            if store.rows.is_live(heir):
                best = self._with_heir(page, heir, best)
        if same:
            ties.add(store.clusters.of(same))
        elif best is not None and not self._any:
            ties = {store.clusters.of(best.row)}
        return best, ties

    def _found(self, near: Near, batch: Batch) -> tuple[Best | None, set[Cluster]]:
        """The best of what is live now of the index's entries and the batch's, and under `any` the clusters."""
        (_, start, end), fellows = near.matches, near.fellows
        size = end - start + (fellows.end - fellows.start if fellows else 0)
        if not size:
            return None, set()
        return self._of_few(near, batch) if size <= FEW else self._of_many(near, batch, size)

    def _of_few(self, near: Near, batch: Batch) -> tuple[Best | None, set[Cluster]]:
        """One after another: calling the kernel costs as much as some matches."""
        store, best, ties = self._store, None, set()
        for entry, distance, agreement in _one_by_one(near, batch):
            if row := store.earliest(entry):
                found = Best(row, distance, agreement)
                if best is None or self._is_closer(found, best):
                    best = found
                if self._any:
                    ties.add(store.clusters.of(row))
        return best, ties

    def _of_many(self, near: Near, batch: Batch, size: int) -> tuple[Best | None, set[Cluster]]:
        """At most `size` matches in a kernel."""
        (found, start, end), fellows = near.matches, near.fellows
        live, chosen = self._store.columns(), np.full(3, -1, np.int64)
        seen, ties = np.zeros(SEEN, np.int64), np.empty(size, np.int64) if self._any else NO_TIES
        count = choose(found.entry, found.distance, found.agreement, start, end, live, chosen, seen, ties, 0)
        if fellows:
            own, start, end = fellows
            founded = Founded(near.groups, batch.heads, batch.following, batch.rows)
            count = choose_founded(
                own.entry, own.distance, own.agreement, start, end, founded, live, chosen, seen, ties, count
            )
        agreement, distance, row = chosen[AGREEMENT].item(), chosen[DISTANCE].item(), chosen[ROW].item()
        return Best(row, distance, agreement) if agreement >= 0 else None, set(ties[:count].tolist())

    def _with_heir(self, page: Compared, row: int, best: Best | None) -> Best | None:
        """The best so far, or the page of this row where it is a better match."""
        pair = compare(page, self._store.record(row), self._policy)
        if pair.fails is not None:
            return best
        found = Best(row, pair.distance, pair.agreement)
        return found if best is None or self._is_closer(found, best) else best

    def _is_closer(self, one: Best, other: Best) -> bool:
        if one.agreement != other.agreement:
            return one.agreement > other.agreement
        if one.distance != other.distance:
            return one.distance < other.distance
        return self._store.ordinal_rank(one.row) < self._store.ordinal_rank(other.row)

    def _entries(self, batch: Batch) -> Iterator[tuple[Span, list[int]]]:
        """Per page the index's matches, and the twins among them; asked for as many at once as its limit allows."""
        at = 0
        while at < len(batch):
            found = self._index.query(
                batch.fingerprints[at:], batch.sketches[at:], batch.short[at:], in_order=False
            )
            twins = self._twins(batch, at, found)
            starts = found.starts.tolist()
            for i in range(found.done):
                yield Span(found, starts[i], starts[i + 1]), twins.get(i, [])
            at += found.done

    def _twins(self, batch: Batch, at: int, found: Matches) -> dict[int, list[int]]:
        """The entries of the very key and bucket of each page from `at` on that has any."""
        same = np.flatnonzero((found.distance == 0) & (found.agreement == self._policy.sketch_bits))
        numbers = np.searchsorted(found.starts, same, side="right") - 1
        own = batch.short[at + numbers] == found.short[same].astype(np.bool_)
        own &= batch.buckets[at + numbers] == found.bucket[same]
        twins: dict[int, list[int]] = {}
        for number, entry in zip(numbers[own].tolist(), found.entry[same[own]].tolist(), strict=True):
            twins.setdefault(number, []).append(entry)
        return twins

    def _fellows(self, batch: Batch) -> Iterator[tuple[Span | None, NDArray[np.uint32]]]:
        """Per page the keys of the batch that it is near to, of those that can have an entry when it is judged:
        that have one when its step begins, or are the keys of pages of the step."""
        if len(batch) == 1:
            yield None, batch.heads
            return
        firsts, short = np.array(batch.firsts, np.int64), batch.short.view(np.uint8)
        for first in range(0, len(batch), STEP):
            at, end = first, min(first + STEP, len(batch))
            having = np.flatnonzero(batch.heads).astype(np.uint32)
            groups = np.union1d(having, np.array(batch.groups[at:end], np.uint32))
            pages = firsts[groups]
            keys = Keys(batch.fingerprints[pages], batch.sketches[pages], short[pages])
            while at < end:
                asked = Keys(batch.fingerprints[at:end], batch.sketches[at:end], short[at:end])
                found = self._index.join(asked, keys, in_order=False)
                starts = found.starts.tolist()
                for i in range(found.done):
                    start, stop = starts[i], starts[i + 1]
                    alone = stop - start == 1 and not batch.entry_of(batch.groups[at + i])  # its own key
                    yield None if alone else Span(found, start, stop), groups
                at += found.done


def _one_by_one(near: Near, batch: Batch) -> Iterator[tuple[int, int, int]]:
    """(entry, distance, agreement) of the index's entries and the batch's."""
    if near.matches.end > near.matches.start:
        yield from _triples(near.matches)
    if near.fellows:
        for place, distance, agreement in _triples(near.fellows):
            number = batch.heads[near.groups[place]].item()
            while number:
                yield batch.rows[number - 1].item(), distance, agreement
                number = batch.following[number - 1].item()


def _triples(span: Span) -> Iterator[tuple[int, int, int]]:
    (found, start, end) = span
    columns = found.entry[start:end], found.distance[start:end], found.agreement[start:end]
    return zip(*(column.tolist() for column in columns), strict=True)
