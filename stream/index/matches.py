"""Matches of a batch of queries, and how one source (memtable or segment) is asked for its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream.kernels.intern import Keys
from stream.kernels.probe import Wanted, confirm
from stream.model import U64

FIRST_ROOM = 4096


@dataclass(frozen=True, slots=True)
class Matches:
    """All matches of the first `done` queries; those of query i are `starts[i]:starts[i + 1]`, by entry."""

    done: int
    starts: NDArray[np.int64]  # (done + 1,)
    entry: NDArray[np.int64]
    distance: NDArray[np.uint8]
    agreement: NDArray[np.uint16]  # equal bits of the sketches; 0 without sketch


class Source(Protocol):
    """A part of the index: distinct places, each with a run of entries."""

    @property
    def tag(self) -> int: ...

    @property
    def starts(self) -> NDArray[np.uint32]: ...

    @property
    def entries(self) -> NDArray[np.int32]: ...

    def find(self, queries: U64, first: int, places: U64, tags: U64) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A block of queries, what makes a candidate a match, and what is known of the entries, by number."""

    fingerprints: U64  # (n,)
    wanted: Wanted
    home: NDArray[np.int32]
    known: Keys


class Found:
    """Matches of one source, in growing buffers that never pass `limit` (one query's matches at least)."""

    def __init__(self, queries: int, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.keys: U64 = np.empty(min(FIRST_ROOM, limit), np.uint64)
        self.facts: NDArray[np.uint32] = np.empty(len(self.keys), np.uint32)
        self.candidates: NDArray[np.int64] = np.zeros(queries, np.int64)

    def take(self, source: Source, asked: Asked, places: U64, tags: U64) -> int | None:
        """Confirm hits; returns None, or the query whose matches would pass the limit."""
        at = 0
        while at < len(places):
            hits, matches = confirm(
                places[at:],
                tags[at:],
                source.starts,
                source.entries,
                source.tag,
                asked.home,
                asked.known.sketches,
                asked.known.short,
                asked.wanted,
                self.keys[self.count :],
                self.facts[self.count :],
                self.candidates,
            )
            at += hits
            self.count += matches
            if at < len(places):
                if len(self.keys) == self.limit:
                    return int(tags[at]) >> 8
                self._grow()
        return None

    def _grow(self) -> None:
        room = min(2 * len(self.keys), self.limit)
        keys, facts = np.empty(room, np.uint64), np.empty(room, np.uint32)
        keys[: self.count], facts[: self.count] = self.keys[: self.count], self.facts[: self.count]
        self.keys, self.facts = keys, facts


def ask(source: Source, asked: Asked, last: int, limit: int) -> tuple[int, Found]:
    """One source's matches of the queries before `last`, as far as `limit` allows.

    Returns the number of queries answered (of the others some matches may be there) and the matches, unsorted.
    """
    queries = asked.fingerprints[:last]
    found = Found(len(asked.fingerprints), limit)
    places, tags = np.empty(FIRST_ROOM, np.uint64), np.empty(FIRST_ROOM, np.uint64)
    first = 0
    while first < last:
        following, hits = source.find(queries, first, places, tags)
        full = found.take(source, asked, places[:hits], tags[:hits]) if hits else None
        if full is not None:
            return full, found
        if following == first:
            places, tags = np.empty(4 * len(places), np.uint64), np.empty(4 * len(tags), np.uint64)
        first = following
    return last, found
