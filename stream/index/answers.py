"""How queries are answered: block by block, each of the sources asked in turn, and all of it put in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream.index.keys import Keys, Rule
from stream.index.matches import Matches
from stream.kernels.confirm import Wanted, confirm_rows
from stream.model import U64

FIRST_ROOM = 4096
BLOCK = 512
"""Queries that go through all sources together."""
UNLIMITED = 2**62


class Hits:
    """Room for what a source finds: places, one past the last place of each run, and tags query << 8 | distance."""

    def __init__(self, room: int = FIRST_ROOM) -> None:
        self.places: U64 = np.empty(room, np.uint64)
        self.ends: U64 = np.empty(room, np.uint64)
        self.tags: U64 = np.empty(room, np.uint64)

    def larger(self) -> Hits:
        """Four times the room, empty."""
        return Hits(4 * len(self.places))


class Source(Protocol):
    """A part of the index: entries at places, of which those of one fingerprint lie side by side."""

    @property
    def rows(self) -> NDArray[np.uint32]: ...

    @property
    def buckets(self) -> NDArray[np.int64]:
        """Of each row, or one for all; read-only."""

    @property
    def sketches(self) -> U64: ...

    def find(self, queries: U64, first: int, hits: Hits) -> tuple[int, int]:
        """Runs within the distance of `queries[first:]`, each once; returns (next query, runs written).

        Stops before the first query whose runs do not fit.
        """


class Found:
    """Matches of one source, in growing buffers that never pass `limit` (one query's matches at least)."""

    def __init__(self, queries: int, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.keys: U64 = np.empty(min(FIRST_ROOM, limit), np.uint64)
        self.facts: NDArray[np.uint32] = np.empty(len(self.keys), np.uint32)
        self.buckets: NDArray[np.int64] = np.empty(len(self.keys), np.int64)
        self.candidates: NDArray[np.int64] = np.zeros(queries, np.int64)

    def take(self, source: Source, released: U64, wanted: Wanted, hits: Hits, count: int) -> int | None:
        """Confirm hits; returns None, or the query whose matches would pass the limit."""
        at = 0
        while at < count:
            looked, matches = confirm_rows(
                hits.places[at:count],
                hits.ends[at:count],
                hits.tags[at:count],
                source.rows,
                source.buckets,
                source.sketches,
                released,
                wanted,
                self.keys[self.count :],
                self.facts[self.count :],
                self.buckets[self.count :],
                self.candidates,
            )
            at += looked
            self.count += matches
            if at < count:
                if len(self.keys) == self.limit:
                    return int(hits.tags[at]) >> 8
                self._grow()
        return None

    def _grow(self) -> None:
        room = min(max(2 * len(self.keys), FIRST_ROOM), self.limit)
        self.keys = np.concatenate([self.keys[: self.count], np.empty(room - self.count, np.uint64)])
        self.facts = np.concatenate([self.facts[: self.count], np.empty(room - self.count, np.uint32)])
        self.buckets = np.concatenate([self.buckets[: self.count], np.empty(room - self.count, np.int64)])


class Answer(NamedTuple):
    """Of the first `answered` queries of a block, the matches in order, and how many candidates there were."""

    answered: int
    keys: U64
    facts: NDArray[np.uint32]
    buckets: NDArray[np.int64]
    candidates: int


def ask(source: Source, released: U64, queries: U64, wanted: Wanted, last: int, limit: int) -> tuple[int, Found]:
    """One source's matches of the queries before `last`, as far as `limit` allows.

    Returns the number of queries answered (of the others some matches may be there) and the matches, unsorted.
    """
    found, hits = Found(len(queries), limit), Hits()
    first = 0
    while first < last:
        following, count = source.find(queries[:last], first, hits)
        full = found.take(source, released, wanted, hits, count) if count else None
        if full is not None:
            return full, found
        if following == first:
            hits = hits.larger()
        first = following
    return last, found


def answer_block(
    sources: Sequence[Source], released: U64, rule: Rule, queries: Keys, block: slice, room: int
) -> Answer:
    """As many queries of a block as fit into `room` matches."""
    fingerprints, wanted = queries.fingerprints[block], rule.wanted(queries, block)
    last = len(fingerprints)
    parts: list[Found] = []
    for source in sources:
        last, found = ask(source, released, fingerprints, wanted, last, room)
        parts.append(found)
    keys = np.concatenate([f.keys[: f.count] for f in parts])
    facts = np.concatenate([f.facts[: f.count] for f in parts])
    buckets = np.concatenate([f.buckets[: f.count] for f in parts])
    order = np.argsort(keys)
    keys = keys[order]
    ends = np.searchsorted(keys, np.arange(1, last + 1, dtype=np.uint64) << np.uint64(32))
    answered = int(np.searchsorted(ends, room, side="right"))
    kept = int(ends[answered - 1]) if answered else 0
    candidates = sum(int(f.candidates[:answered].sum()) for f in parts)
    return Answer(answered, keys[:kept], facts[order[:kept]], buckets[order[:kept]], candidates)


def answer(sources: Sequence[Source], released: U64, rule: Rule, queries: Keys, limit: int) -> tuple[Matches, int]:
    """The matches of the first queries that bring at most `limit`, but of one at least; and their candidates.

    Memory: at most about 40 bytes x `limit` for each source.
    """
    counts = np.zeros(len(queries.fingerprints), np.int64)
    parts: list[Answer] = []
    done, room, candidates = 0, max(limit, 0), 0
    while done < len(counts):
        end = min(done + BLOCK, len(counts))
        part = answer_block(sources, released, rule, queries, slice(done, end), room)
        if part.answered == 0 and done == 0:
            end = 1
            part = answer_block(sources, released, rule, queries, slice(1), UNLIMITED)
        per_query = np.bincount((part.keys >> np.uint64(32)).astype(np.int64), minlength=part.answered)
        counts[done : done + part.answered] = per_query
        parts.append(part)
        done += part.answered
        room -= len(part.keys)
        candidates += part.candidates
        if done < end or room < 0:
            break
    return _matches(done, counts, parts), candidates


def _matches(done: int, counts: NDArray[np.int64], parts: Sequence[Answer]) -> Matches:
    keys = np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)])
    facts = np.concatenate([np.empty(0, np.uint32), *(part.facts for part in parts)])
    starts = np.zeros(done + 1, np.int64)
    np.cumsum(counts[:done], out=starts[1:])
    return Matches(
        done,
        starts,
        (keys & np.uint64(0xFFFFFFFF)).astype(np.int64),
        (facts >> np.uint32(16)).astype(np.uint8),
        (facts & np.uint32(0xFFFF)).astype(np.uint16),
        (facts >> np.uint32(31)).astype(np.uint8),
        np.concatenate([np.empty(0, np.int64), *(part.buckets for part in parts)]),
    )
