"""Answers a batch of queries: asks every part of the index, and sorts the matches by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.index import crowds
from simstream.index.keys import KeyColumns, MatchRule
from simstream.index.lookup_threads import LookupThreads
from simstream.index.matches import Matches
from simstream.index.packed import EqualValues, SegmentTables
from simstream.kernels.index.confirm import MatchQueries, confirm_rows
from simstream.kernels.index.gather import GatheredMatches, count, gather
from simstream.model import U64

FIRST_ROOM_HITS = 4096
MAX_ROOM_HITS = 1 << 18
"""The room for hits, unless one query alone has more."""
FEW_QUERIES = 4
BLOCK_QUERIES = 512
"""Queries that go through all sources together."""
UNLIMITED = 2**62
ONE_THREAD = LookupThreads()
"""Every query is answered by the thread that asks."""


class HitBuffers:
    """Buffers for a part's hits: places, one past the last place of each run, and tags query << 8 | distance."""

    def __init__(self, room: int = FIRST_ROOM_HITS, *, capped: bool = False) -> None:
        self.capped = capped
        """Whether the room stays as it is."""
        self.make(room)

    def make(self, room: int) -> None:
        """Make new buffers with room for so many hits."""
        self.places: U64 = np.empty(room, np.uint64)
        self.ends: U64 = np.empty(room, np.uint64)
        self.tags: U64 = np.empty(room, np.uint64)

    def fit(self, queries: int) -> None:
        """Grow the buffer fourfold if it overflowed before many queries were answered."""
        room = len(self.places)
        if queries == 0 or (queries < FEW_QUERIES and room < MAX_ROOM_HITS):
            self.make(4 * room)


NO_ORDER: NDArray[np.uint32] = np.empty(0, np.uint32)
"""The `order` of a part whose hits have the places of its entries."""
NO_ORDER.flags.writeable = False


class SearchPart(NamedTuple):
    """A part of the index: entries at places, found by one of their lookups.

    A hit is a run of places with one value of the draw. If `order` is not empty, these are places in `order`, which
    holds the places of rows and sketches. All arrays are read-only.
    """

    draw: int
    """The draw by which it finds entries; 0 is the fingerprint."""
    order: NDArray[np.uint32]
    """The places (n,) of rows and sketches in the order of this draw's values, or (0,)."""
    rows: NDArray[np.uint32]
    buckets: NDArray[np.int64]
    """The bucket of each row, or one for all."""
    sketches: U64
    tables: SegmentTables | EqualValues

    def for_equal(self) -> SearchPart:
        """Return the part as one whose hits all have the query's own value."""
        return self if isinstance(self.tables, EqualValues) else self._replace(tables=EqualValues(self.tables))


class MatchBuffers:
    """Matches of one part, in growing buffers of at most `limit` matches (but at least one query's)."""

    def __init__(self, queries: int, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.keys: U64 = np.empty(min(FIRST_ROOM_HITS, limit), np.uint64)
        self.facts: NDArray[np.uint32] = np.empty(len(self.keys), np.uint32)
        self.buckets: NDArray[np.int64] = np.empty(len(self.keys), np.int64)
        self.candidates: NDArray[np.int64] = np.zeros(queries, np.int64)

    def take(
        self,
        source: SearchPart,
        released: U64,
        wanted: MatchQueries,
        hits: HitBuffers,
        count: int,
        crowded: NDArray[np.bool_],
    ) -> int | None:
        """Confirm hits. Return None, or the query whose matches would pass the limit.

        If the hits are `capped`, a query with more than MAX_UNCROWDED_MATCHES becomes crowded.
        """
        most = crowds.MAX_UNCROWDED_MATCHES if hits.capped else UNLIMITED
        at = 0
        while at < count:
            looked, matches = confirm_rows(
                hits.places[at:count],
                hits.ends[at:count],
                hits.tags[at:count],
                source.draw,
                source.order,
                source.rows,
                source.buckets,
                source.sketches,
                released,
                wanted,
                self.keys[self.count :],
                self.facts[self.count :],
                self.buckets[self.count :],
                self.candidates,
                most,
                crowded,
            )
            at += looked
            self.count += matches
            if at < count:
                if len(self.keys) == self.limit:
                    return int(hits.tags[at]) >> 8
                self._grow()
        return None

    def without(self, crowded: NDArray[np.bool_]) -> None:
        """Drop the matches of crowded queries."""
        keep = ~crowded[(self.keys[: self.count] >> np.uint64(32)).astype(np.int64)]
        self.keys, self.facts = self.keys[: self.count][keep], self.facts[: self.count][keep]
        self.buckets = self.buckets[: self.count][keep]
        self.count = len(self.keys)
        self.candidates[crowded] = 0

    def _grow(self) -> None:
        room = min(max(4 * len(self.keys), FIRST_ROOM_HITS), self.limit)
        self.keys = np.concatenate([self.keys[: self.count], np.empty(room - self.count, np.uint64)])
        self.facts = np.concatenate([self.facts[: self.count], np.empty(room - self.count, np.uint32)])
        self.buckets = np.concatenate([self.buckets[: self.count], np.empty(room - self.count, np.int64)])


class BlockAnswer(NamedTuple):
    """The answer to the first a queries of a block: the number of matches (a,) of each, the matches, and the
    candidates."""

    counts: NDArray[np.int64]
    matches: GatheredMatches
    candidates: int
    crowded: NDArray[np.bool_]  # (a,)


def ask(
    source: SearchPart,
    released: U64,
    queries: U64,
    wanted: MatchQueries,
    last: int,
    limit: int,
    hits: HitBuffers,
    crowded: NDArray[np.bool_],
) -> tuple[int, MatchBuffers | None]:
    """Find one part's matches of the queries before `last`, as far as `limit` allows.

    Returns the number of answered queries and the matches, None without any; some matches of other queries may be
    among them. If `hits` is `capped`, a query that alone does not fit, or has too many matches, becomes crowded;
    some of its matches may be among them, too.
    """
    found: MatchBuffers | None = None
    first = 0
    while first < last:
        following, count = source.tables.find(queries[:last], first, hits)
        if count:
            found = found or MatchBuffers(len(queries), limit)
            full = found.take(source, released, wanted, hits, count, crowded)
            if full is not None:
                return full, found
        if hits.capped and following == first:
            crowded[first] = True
            following += 1
        elif following < last and not hits.capped:
            hits.fit(following - first)
        first = following
    return last, found


def answer_block(
    sources: Sequence[SearchPart],
    released: U64,
    rule: MatchRule,
    queries: KeyColumns,
    block: slice,
    room: int,
    hits: HitBuffers,
) -> BlockAnswer:
    """Answer as many queries of a block as fit into `room` matches."""
    by_all = len({source.draw for source in sources}) > rule.further_draws
    wanted, some = rule.wanted(queries, block, by_all), queries.at(block)
    fingerprints = [some.draw(number) for number in range(rule.further_draws + 1)]
    last = len(some.fingerprints)
    parts: list[MatchBuffers] = []
    crowded = np.zeros(last, np.bool_)
    for source in sources:
        last, found = ask(source, released, fingerprints[source.draw], wanted, last, room, hits, crowded)
        if found is not None:
            parts.append(found)
    if crowded.any():
        for part in parts:
            part.without(crowded)
    counts = np.zeros(last, np.int64)
    for part in parts:
        count(part.keys[: part.count], counts)
    ends = np.cumsum(counts)
    answered = int(np.searchsorted(ends, room, side="right"))
    candidates = sum(int(part.candidates[:answered].sum()) for part in parts)
    counts, total = counts[:answered], int(ends[answered - 1]) if answered else 0
    matches, begins = _room(total), ends[:answered] - counts
    for part in parts:
        if total:
            gather(part.keys[: part.count], part.facts, part.buckets, begins, matches)
    return BlockAnswer(counts, matches, candidates, crowded[:answered])


def answer(
    sources: Sequence[SearchPart],
    released: U64,
    rule: MatchRule,
    queries: KeyColumns,
    limit: int,
    in_order: bool,
    uncrowded: bool = False,
    threads: LookupThreads = ONE_THREAD,
) -> tuple[Matches, int]:
    """Return the matches of the first queries with at most `limit` matches together, at least one query, and their
    candidates.

    If only the `uncrowded` queries are to be answered, others have no matches here. With `in_order` each query's
    matches are ordered by entry. A match that two fingerprints find counts twice towards `limit`. The first part
    should be the largest: it decides how many queries the others get. Many queries of a large index are divided
    among the `threads`, and so is the limit. Memory: at most about 40 bytes x `limit` for each part.
    """
    spans = threads.divide(len(queries.fingerprints), len(sources[0].rows) if sources else 0)
    room = max(limit, 0) // len(spans)
    found = threads.run(
        lambda span: _answer_span(sources, released, rule, queries, span, room, uncrowded=uncrowded), spans
    )
    parts: list[BlockAnswer] = []
    for span, blocks in zip(spans, found, strict=True):
        if parts and sum(len(block.matches.entry) for block in (*parts, *blocks)) > limit:
            break  # the first query alone had more than its thread's part
        parts += blocks
        if sum(len(block.counts) for block in blocks) < span.stop - span.start:
            break  # the answers end before the first query that lacks one
    return _matches(parts, in_order, rule.further_draws > 0), sum(part.candidates for part in parts)


def _answer_span(
    sources: Sequence[SearchPart],
    released: U64,
    rule: MatchRule,
    queries: KeyColumns,
    span: slice,
    room: int,
    *,
    uncrowded: bool,
) -> list[BlockAnswer]:
    """Answer queries of a span, block by block, as far as `room` for matches allows; at least the first of all."""
    hits = HitBuffers(crowds.MAX_UNCROWDED_CANDIDATES, capped=True) if uncrowded else HitBuffers()
    parts: list[BlockAnswer] = []
    done = span.start
    while done < span.stop:
        end = min(done + BLOCK_QUERIES, span.stop)
        part = answer_block(sources, released, rule, queries, slice(done, end), room, hits)
        if done == len(part.counts) == 0:
            end = 1
            part = answer_block(sources, released, rule, queries, slice(1), UNLIMITED, hits)
        parts.append(part)
        done += len(part.counts)
        room -= len(part.matches.entry)
        if done < end or room < 0:
            break
    return parts


def _room(matches: int) -> GatheredMatches:
    return GatheredMatches(
        np.empty(matches, np.int64),
        np.empty(matches, np.uint8),
        np.empty(matches, np.uint16),
        np.empty(matches, np.uint8),
        np.empty(matches, np.uint8),
        np.empty(matches, np.int64),
    )


def _matches(parts: Sequence[BlockAnswer], in_order: bool, repeated: bool) -> Matches:
    """Join the answers. If matches may be `repeated`, because several draws find them, keep the closest."""
    counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)])
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    crowded = np.concatenate([np.empty(0, np.bool_), *(part.crowded for part in parts)])
    if len(parts) == 1:
        [(_, found, _, _)] = parts
    else:
        columns = (_room(0), *(part.matches for part in parts))
        found = GatheredMatches._make(np.concatenate(same) for same in zip(*columns, strict=True))
    if len(found.entry) and (in_order or repeated):
        queries = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((found.distance, found.entry, queries))
        if repeated:
            order = _first_of_each(order, queries, found.entry)
            np.cumsum(np.bincount(queries[order], minlength=len(counts)), out=starts[1:])
        found = GatheredMatches._make(column[order] for column in found)
    return Matches(len(counts), starts, *found, crowded)


def _first_of_each(
    order: NDArray[np.int64], queries: NDArray[np.int64], entries: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the first place of each pair of query and entry in an order that keeps equal pairs together."""
    query, entry = queries[order], entries[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (query[1:] != query[:-1]) | (entry[1:] != entry[:-1])
    return order[first]


def spread(found: Matches, asked: NDArray[np.int64], crowded: NDArray[np.bool_]) -> Matches:
    """Return the matches of some queries (m,) as matches of all (n,). Others
    have none; `crowded` (n,) says whether they are crowded."""
    if len(asked) == len(crowded):
        return found
    done = len(crowded) if found.done == len(asked) else int(asked[found.done])
    counts = np.zeros(done, np.int64)
    counts[asked[: found.done]] = np.diff(found.starts)
    all_crowded = crowded[:done].copy()
    all_crowded[asked[: found.done]] = found.crowded
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return replace(found, done=done, starts=starts, crowded=all_crowded)
