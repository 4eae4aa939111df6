"""Counts all pairs of pages within a distance, and samples some of them.

Every fingerprint is compared with every other (`kernels/index/hamming.scan`), about 0.1 ns a pair. So nothing can
be missed, and 48,000 pages take under a second. Each pair within the distance takes some 0.7 us more, so many equal
pages cost the square of their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.index.answers import HitBuffers
from simstream.kernels.index.hamming import scan
from simstream.model import U64
from simstream.processors import in_parts

_BATCH_QUERIES: Final = 256
_ROOM_HITS: Final = 1 << 16
MAX_PART_PAIRS: Final = 1 << 20
"""The most pairs that are compared in one part, up to 131,072 pages: so many are found if all pages are alike."""
MAX_SAMPLE_PAIRS: Final = 20_000
"""At most so many pairs of each kind get their J; a hash chooses them."""


class NearPlaces(NamedTuple):
    """Pairs of places, and the distance of each pair."""

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    distance: NDArray[np.int64]


class SampledPairs(NamedTuple):
    """The number of pairs of each kind, and the kept pairs with their kinds."""

    counts: NDArray[np.int64]  # (kinds,)
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    kind: NDArray[np.int64]


KindOf = Callable[[NearPlaces], NDArray[np.int64]]
"""Returns the kind (n,) of n pairs, from 0."""


def within(left: U64, right: U64 | None, distance: int, threads: int) -> Iterator[NearPlaces]:
    """Yield all pairs of a place of `left` (n, F) or (n,) and a place of `right` within the distance, in parts.

    The distance of two pages is that of the closest of their F fingerprints. If `right` is None, yields all pairs a
    < b of places of `left`. Parts come in the order of `a`.
    """
    asked = left.reshape(len(left), -1) if left.size else left.reshape(0, 1)
    known = asked if right is None else right.reshape(len(right), -1) if right.size else right.reshape(0, 1)
    columns = [np.ascontiguousarray(draw) for draw in known.T]

    def part(at: int) -> NearPlaces:
        first = at if right is None else 0
        queries, found = asked[at : at + queries_a_part], []
        for draw, column in enumerate(columns):
            a, b = _scan(np.ascontiguousarray(queries[:, draw]), column[first:], distance)
            later = b > a if right is None else np.ones(len(a), np.bool_)
            a, b = a[later] + at, b[later] + first
            apart = np.bitwise_count(asked[a] ^ known[b])
            new = (apart[:, :draw] > distance).all(axis=1)
            found.append(NearPlaces(a[new], b[new], apart[new].min(axis=1).astype(np.int64)))
        return found[0] if len(found) == 1 else NearPlaces(*map(np.concatenate, zip(*found, strict=True)))

    queries_a_part = min(_BATCH_QUERIES, max(8, MAX_PART_PAIRS // max(1, len(known))))
    yield from in_parts(part, range(0, len(left), queries_a_part), threads)


def sample(parts: Iterator[NearPlaces], kinds: int, kind_of: KindOf, most: int = MAX_SAMPLE_PAIRS) -> SampledPairs:
    """Count the pairs of each kind, and keep at most `most` of each, chosen by a hash of their places.

    So the choice depends only on the pairs, and memory only on `kinds` and `most`.
    """
    counts = np.zeros(kinds, np.int64)
    kept = [np.empty((4, 0), np.int64)]
    rows = 0
    for near in parts:
        kind = kind_of(near)
        counts += np.bincount(kind, minlength=kinds)
        kept.append(np.stack([near.a, near.b, kind, _hash(near.a, near.b)]))
        rows += len(kind)
        if rows > 4 * kinds * most:
            kept = [_least(np.concatenate(kept, axis=1), most)]
            rows = kept[0].shape[1]
    a, b, kind, _ = _least(np.concatenate(kept, axis=1), most)
    return SampledPairs(counts, a, b, kind)


def _scan(queries: U64, column: U64, distance: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of a query and a place of `column` within the distance, in the order of queries."""
    hits, a, b, first = HitBuffers(_ROOM_HITS), [], [], 0
    while first < len(queries):
        following, count = scan(queries, first, distance, column, hits.places, hits.tags)
        a.append((hits.tags[:count] >> np.uint64(8)).astype(np.int64))
        b.append(hits.places[:count].astype(np.int64))
        if following < len(queries):
            hits.fit(following - first)
        first = following
    return np.concatenate(a), np.concatenate(b)


def _hash(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a pseudo-random number (n,) for each pair (the finalizer of splitmix64)."""
    h = (a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((h ^ (h >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def _least(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the rows a, b, kind, hash (4, n) with the `most` least hashes of each kind."""
    order = np.lexsort((rows[3], rows[2]))
    kind = rows[2][order]
    first = np.searchsorted(kind, kind)
    return rows[:, np.sort(order[np.arange(len(kind)) - first < most])]
