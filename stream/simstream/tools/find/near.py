"""Finds the queries that have a match in a corpus of any length, with tables over the queries.

Source: Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling (2007), section 4, batch queries: the
queries' tables fit into memory, the corpus does not have to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.index.answers import HitBuffers
from simstream.index.keys import frozen
from simstream.index.packed import SegmentTables
from simstream.model import U64
from simstream.processors import cores, in_parts
from simstream.tools.find.pairs import distinct, tables_over

CHUNK_FINGERPRINTS: Final = 1 << 14
"""The number of fingerprints of the corpus that a thread looks up at a time."""
NO_MATCH: Final = 255
"""Stands for a distance: there is no match."""


class NearestDistances(NamedTuple):
    """The least distance (n,) of each query to the corpus, or NO_MATCH, and the least fingerprint with it."""

    distance: NDArray[np.uint8]
    fingerprint: U64
    compared: int
    """The number of fingerprints in the corpus."""


class _NearestHits(NamedTuple):
    """The places (h,) of queries, each once, and the nearest of the compared fingerprints."""

    place: NDArray[np.int64]
    distance: NDArray[np.uint8]
    fingerprint: U64


_NO_HITS: Final = _NearestHits(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint64))


def nearest(
    queries: U64, corpus: Iterable[U64], distance: int, heard: Callable[[int], None] = lambda done: None
) -> NearestDistances:
    """Return the nearest match within `distance` (0 to 64) of each of the distinct ascending queries (n,).

    `corpus` comes in parts of any order; memory holds a few of them. A query that is also in the corpus matches
    itself. `heard` hears how many fingerprints of the corpus were compared. Uses all cores.
    Memory: 9 bytes a query, and 6 to 8 bytes for each of its tables. Cost: a query of the index for each
    fingerprint of the corpus; many similar queries cost each match.
    """
    best = NearestDistances(np.full(len(queries), NO_MATCH, np.uint8), np.zeros(len(queries), np.uint64), 0)
    tables, done = tables_over(queries, distance) if len(queries) else None, 0

    def look_up(chunk: tuple[int, U64]) -> tuple[int, _NearestHits]:
        size, values = chunk
        return size, _NO_HITS if tables is None else _look_up(tables, values)

    # Without queries, read the corpus nevertheless: a line that is not a number is an error.
    for size, hits in in_parts(look_up, _chunks(corpus), cores()):
        _take(best, hits)
        done += size
        heard(done)
    return best._replace(compared=done)


def _chunks(corpus: Iterable[U64]) -> Iterator[tuple[int, U64]]:
    for part in corpus:
        values = distinct(part)
        for first in range(0, len(values), CHUNK_FINGERPRINTS):
            chunk = values[first : first + CHUNK_FINGERPRINTS]
            # Copies within a part are compared once, and count with its last chunk.
            yield len(chunk) + (len(part) - len(values) if first + CHUNK_FINGERPRINTS >= len(values) else 0), chunk


def _take(best: NearestDistances, hits: _NearestHits) -> None:
    """Keep the matches that are nearer than earlier ones."""
    place, distance, fingerprint = hits
    before = best.distance[place]
    nearer = (distance < before) | ((distance == before) & (fingerprint < best.fingerprint[place]))
    best.distance[place[nearer]] = distance[nearer]
    best.fingerprint[place[nearer]] = fingerprint[nearer]


def _look_up(tables: SegmentTables, values: U64) -> _NearestHits:
    hits, at = HitBuffers(), 0
    best = _NO_HITS
    asked = frozen(values, np.uint64)
    while at < len(asked):
        following, count = tables.find(asked, at, hits)
        tags = hits.tags[:count]
        parts = _NearestHits(
            np.concatenate([best.place, hits.places[:count].astype(np.int64)]),
            np.concatenate([best.distance, (tags & np.uint64(255)).astype(np.uint8)]),
            np.concatenate([best.fingerprint, asked[(tags >> np.uint64(8)).astype(np.int64)]]),
        )
        best = _nearest(parts)
        if following < len(asked):
            hits.fit(following - at)
        at = following
    return best


def _nearest(hits: _NearestHits) -> _NearestHits:
    """Return each place once, with its nearest match; of equally near matches the least fingerprint."""
    order = np.lexsort((hits.fingerprint, hits.distance, hits.place))
    place = hits.place[order]
    first = order[np.diff(place, prepend=-1) != 0]
    return _NearestHits(hits.place[first], hits.distance[first], hits.fingerprint[first])
