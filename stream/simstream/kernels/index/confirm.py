"""Confirms candidates: distance and sketch agreement of queries and live entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64, uint32, uint64
from numpy.typing import NDArray

from simstream.kernels.index.entry_numbers import SHORT_BIT, bit_of, number_of
from simstream.kernels.index.hamming import popcount, prefetch
from simstream.kernels.jit import inlined, lean_kernel
from simstream.model import U64

AHEAD = 8
"""Hits whose cache lines are prefetched."""


class MatchQueries(NamedTuple):
    """Queries, and the limits of a match. The first `further_draws` columns of the sketches count for the distance.

    The first `further_fingerprints` columns are no part of the sketch. A candidate that a later draw finds is not
    counted here. The strict limits hold for a pair with a short page. Without strict limits, they equal the other
    ones, and `short` is empty.
    """

    sketches: U64  # (n, S)
    further_draws: int
    further_fingerprints: int
    short: NDArray[np.uint8]  # (n,) 0 or 1, or (0,)
    distance: int
    agreement: int
    strict_distance: int
    strict_agreement: int


@inlined
def _agreement(sketches, place, wanted, query, sketch_at):  # type: ignore[no-untyped-def]
    """Return the number of equal bits of two sketches."""
    equal = 64 * (sketches.shape[1] - sketch_at)
    for s in range(sketch_at, sketches.shape[1]):
        equal = equal - int64(popcount(sketches[place, s] ^ wanted[query, s]))
    return equal


@inlined
def _least_from(sketches, place, wanted, query, first, further):  # type: ignore[no-untyped-def]
    """Return the least distance of two keys by their columns from `first` to before `further`; 64 without any."""
    least = int64(64)
    for s in range(first, further):
        least = min(least, int64(popcount(sketches[place, s] ^ wanted[query, s])))
    return least


@inlined
def _equal_further(sketches, place, wanted, query, further):  # type: ignore[no-untyped-def]
    """Return whether all further draws of two keys are equal."""
    same = True
    for s in range(further):
        same = same and sketches[place, s] == wanted[query, s]
    return same


@inlined
def _place_of(order, place):  # type: ignore[no-untyped-def]
    return int64(order[place]) if order.size else place


@inlined
def _prefetch_entries(places, i, order, rows, released, sketches):  # type: ignore[no-untyped-def]
    """Prefetch for the hits after i: rows and sketches, then the bits of the rows' numbers."""
    if order.size and i + 3 * AHEAD < places.size:
        prefetch(order, int64(places[i + 3 * AHEAD]))
    if i + 2 * AHEAD < places.size:
        place = _place_of(order, int64(places[i + 2 * AHEAD]))
        prefetch(rows, place)
        prefetch(sketches, place * sketches.shape[1])
    if i + AHEAD < places.size:
        prefetch(released, number_of(rows[_place_of(order, int64(places[i + AHEAD]))]) >> 6)


@lean_kernel
def confirm_rows(
    places: U64,
    ends: U64,
    tags: U64,
    draw: int,
    order: NDArray[np.uint32],
    rows: NDArray[np.uint32],
    buckets: NDArray[np.int64],
    sketches: U64,
    released: U64,
    wanted: MatchQueries,
    keys: U64,
    facts: NDArray[np.uint32],
    found_in: NDArray[np.int64],
    candidates: NDArray[np.int64],
    most: int,
    crowded: NDArray[np.bool_],
) -> tuple[int, int]:
    """Write the live entries of each hit that match its query.

    The entries of hit i are `rows[places[i]:ends[i]]` with their sketches; `tags` are query << 8 | distance. The
    hits are those of draw number `draw`, 0 for the fingerprint. If `order` is not empty, places count in it, and
    it has the places of rows and sketches. `buckets` has one bucket for each row, or one for all. For each match it
    writes `keys` = query << 32 | entry, `facts` = short << 31 | same << 30 | distance << 16 | agreement, and the
    bucket into `found_in`; `same` says, for draw 0, that fingerprints and sketches are equal. Each draw writes the
    matches that it finds, with the least distance by this and the later ones. It adds the number of live entries of
    each query to `candidates`, without those that a later draw finds. A query with more than `most` matches becomes
    `crowded` (q,), and the rest of its entries is not looked at; a query that is crowded already is passed over. It
    stops before the first query whose matches do not all fit, and returns the numbers of hits and matches of the
    queries before it.
    """
    own, own_short, least = wanted.sketches, wanted.short, wanted.agreement
    further, sketch_at = wanted.further_draws, wanted.further_fingerprints
    bits = 64 * (sketches.shape[1] - sketch_at)
    strict_distance, strict_agreement = wanted.strict_distance, wanted.strict_agreement
    told_apart = own_short.size > 0
    count = count_mark = hit_mark = 0
    looked, query = 0, int64(-1)
    for i in range(places.size):
        _prefetch_entries(places, i, order, rows, released, sketches)
        if int64(tags[i] >> uint64(8)) != query:
            if query >= 0:
                candidates[query] += looked
            query, looked = int64(tags[i] >> uint64(8)), 0
            count_mark, hit_mark = count, i
        if crowded[query]:
            continue
        end = int64(ends[i])
        for place in range(int64(places[i]), end):
            if place + AHEAD < end:
                prefetch(released, number_of(rows[_place_of(order, place + AHEAD)]) >> 6)
            j = _place_of(order, place)
            entry = number_of(rows[j])
            if bit_of(released, entry) != uint64(0):
                continue
            later = _least_from(sketches, j, own, query, draw, further)
            looked += later > wanted.distance
            equal = _agreement(sketches, j, own, query, sketch_at)
            if equal >= least:
                distance = min(int64(tags[i] & uint64(255)), later)
                strictly = distance <= strict_distance and equal >= strict_agreement
                both_long = not told_apart or (own_short[query] == 0 and rows[j] & uint32(SHORT_BIT) == 0)
                if not strictly and not both_long:
                    continue
                if count - count_mark == most:
                    crowded[query] = True
                    break
                if count == keys.size:
                    return hit_mark, count_mark
                keys[count] = (uint64(query) << uint64(32)) | uint64(entry)
                same = draw == 0 and distance == 0 and equal == bits
                if same and further > 0:
                    same = tags[i] & uint64(255) == uint64(0) and _equal_further(sketches, j, own, query, further)
                facts[count] = (rows[j] & uint32(SHORT_BIT)) | uint32(
                    (int64(same) << 30) | (distance << 16) | equal
                )
                found_in[count] = buckets[j if buckets.size == rows.size else 0]
                count += 1
    if query >= 0:
        candidates[query] += looked
    return places.size, count
