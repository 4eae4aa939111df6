"""Finds all near pairs in a list of fingerprints, by permuted tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.index.answers import HitBuffers
from simstream.index.keys import frozen
from simstream.index.packed import SegmentTables, TableBuild, build
from simstream.index.plan import MAX_DISTANCE, SCAN, choose
from simstream.model import U64
from simstream.processors import cores, in_parts

BATCH_QUERIES: Final = 2048
"""The number of fingerprints that a thread looks up at a time."""
MAX_PAIRS: Final = 1 << 20
"""After so many pairs a thread passes them on, so that memory stays bounded even if all fingerprints are alike."""
_PLACE: Final = np.uint64(0xFFFFFFFF)
_BITS: Final = np.uint64(32)


class FingerprintPairs(NamedTuple):
    """The places (p,) of pairs in a sorted column: `left` < `right`, in order of both."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]


def distinct(fingerprints: U64) -> U64:
    """Return the distinct values, ascending: the column that pairs and clusters refer to."""
    return frozen(np.unique(fingerprints), np.uint64)


def tables_over(column: U64, distance: int) -> SegmentTables:
    """Return tables over a distinct ascending column (n,), complete for a distance from 0 to 64."""
    plan = choose(distance, len(column)) if distance <= MAX_DISTANCE else SCAN
    return build(column, TableBuild(plan, distance), lambda: None)


def near_pairs(
    column: U64, distance: int, heard: Callable[[int], None] = lambda done: None
) -> Iterator[FingerprintPairs]:
    """Yield all pairs within `distance` (0 to 64) of a distinct ascending column (n,), in order, in parts.

    `heard` hears how many fingerprints were looked up. Complete for every distance: up to 16 by permuted tables,
    above by comparing all with all. Uses all cores. Cost: about 1.5 us of a core a fingerprint, for 1M at
    distance 3. Memory: 6 to 8 bytes a fingerprint and table, and at most about 50 MB a core for pairs, unless a
    single fingerprint has more.
    """
    if len(column) < 2:
        return
    tables = tables_over(column, distance)
    batches = [(first, min(first + BATCH_QUERIES, len(column))) for first in range(0, len(column), BATCH_QUERIES)]

    def look_up(batch: tuple[int, int]) -> tuple[int, FingerprintPairs]:
        return _look_up(tables, column, *batch)

    for (_, stop), (following, pairs) in zip(batches, in_parts(look_up, batches, cores()), strict=True):
        yield pairs
        while following < stop:
            following, pairs = look_up((following, stop))
            yield pairs
        heard(stop)


def _look_up(tables: SegmentTables, column: U64, first: int, stop: int) -> tuple[int, FingerprintPairs]:
    """Return the pairs with the lesser fingerprint in `column[first:stop]`, as far as MAX_PAIRS allows.

    Returns also the first fingerprint that was not looked up.
    """
    hits, parts, found = HitBuffers(), [np.empty(0, np.uint64)], 0
    queries, at = frozen(column[first:stop], np.uint64), 0
    while at < len(queries) and found < MAX_PAIRS:
        following, count = tables.find(queries, at, hits)
        own = (hits.tags[:count] >> np.uint64(8)) + np.uint64(first)
        places = hits.places[:count]
        later = places > own
        parts.append((own[later] << _BITS) | places[later])
        found += len(parts[-1])
        if following < len(queries):
            hits.fit(following - at)
        at = following
    pairs = np.concatenate(parts)
    pairs.sort()
    return first + at, FingerprintPairs((pairs >> _BITS).astype(np.int64), (pairs & _PLACE).astype(np.int64))
