"""Lookups: probes of permuted tables by prefix, from a value to its run of entries, and the sketch's word.

Three steps, each over many queries at once, so that each can ask for its next cache lines ahead: `probe`
finds the distinct fingerprints within the distance, `locate` their places in the segment, `confirm` their
live entries and compares the sketches. A hit is a value (or a place) and a tag, `query << 8 | distance`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy import int64, uint64
from numpy.typing import NDArray

from stream.kernels.hamming import BLOCK, count_within, popcount, prefetch, rotate_left
from stream.kernels.jit import kernel
from stream.model import U64

AHEAD = 8
"""Probes, or hits, whose cache lines are asked for in advance."""
PREFETCHED = 256
"""Values of one range that are asked for in advance, eight to a cache line."""
SHORT = 16
"""Up to so many values are compared one by one; more are counted in a vector loop first."""

ROTATION, BITS, DIRECTORY, MASKS, MASKS_END, FLIPS = range(6)
"""Columns of a layout: one row a table."""


@njit(inline="always")
def _found_before(difference, table, layout):  # type: ignore[no-untyped-def]
    """Whether a table before `table` finds a value too; `difference` is its xor with the query, unpermuted."""
    for t in range(table):
        prefix = rotate_left(difference, uint64(layout[t, ROTATION])) >> uint64(64 - layout[t, BITS])
        if int64(popcount(prefix)) <= layout[t, FLIPS]:
            return True
    return False


@njit(inline="always")
def _collect(tables, start, end, query, tag, within, table, layout, values, tags, hits):  # type: ignore[no-untyped-def]
    """Append the hits in `tables[start:end]`; returns their new number, or -1 where they did not fit."""
    back = (uint64(64) - uint64(layout[table, ROTATION])) & uint64(63)
    while start < end:
        stop = min(start + BLOCK, end)
        if stop - start <= SHORT or count_within(tables, start, stop, query, within) > uint64(0):
            for i in range(start, stop):
                difference = tables[i] ^ query
                d = popcount(difference)
                if d <= within and not _found_before(rotate_left(difference, back), table, layout):
                    if hits == values.size:
                        return -1
                    values[hits] = rotate_left(tables[i], back)
                    tags[hits] = tag | d
                    hits += 1
        start = stop
    return hits


@njit(inline="always")
def _prefetch_range(tables, directory, v):  # type: ignore[no-untyped-def]
    """Ask for the values under prefix `v`; a long range streams by itself once begun."""
    at, end = int64(directory[v]), int64(directory[v + 1])
    end = min(end, at + PREFETCHED)
    while at < end:
        prefetch(tables, at)
        at += 8


@kernel
def probe(
    queries: U64,
    first: int,
    distance: int,
    tables: U64,
    directory: NDArray[np.uint32],
    layout: NDArray[np.int64],
    masks: NDArray[np.int64],
    values: U64,
    tags: U64,
) -> tuple[int, int]:
    """All distinct values within `distance` of each query, by T tables and the flipped prefixes of each.

    `tables` holds the permuted, sorted columns one after another, `directory` per table the places where
    each prefix begins, `layout` (T, 6) says where what is, `masks` the flips of each table's prefix. A value
    that several tables find is taken from the first of them that can: no set, no sorting, and machines that
    share the tables would report it once.
    Writes values and tags of the hits of `queries[first:]`, queries ascending. Returns the next query and the
    number of hits; where the next query is not the last + 1, its hits did not fit.
    Cost: one or two cache misses a probe, hidden by asking AHEAD; 0.3 to 1.3 ns a value compared.
    """
    within = uint64(distance)
    hits = 0
    for q in range(first, queries.size):
        mark = hits
        tag = uint64(q) << uint64(8)
        for t in range(layout.shape[0]):
            query = rotate_left(queries[q], uint64(layout[t, ROTATION]))
            prefix = int64(query >> uint64(64 - layout[t, BITS]))
            here = layout[t, DIRECTORY]
            begin, end = layout[t, MASKS], layout[t, MASKS_END]
            for m in range(begin, min(begin + 2 * AHEAD, end)):
                prefetch(directory, here + (prefix ^ masks[m]))
            for m in range(begin, min(begin + AHEAD, end)):
                _prefetch_range(tables, directory, here + (prefix ^ masks[m]))
            for m in range(begin, end):
                if m + 2 * AHEAD < end:
                    prefetch(directory, here + (prefix ^ masks[m + 2 * AHEAD]))
                if m + AHEAD < end:
                    _prefetch_range(tables, directory, here + (prefix ^ masks[m + AHEAD]))
                v = here + (prefix ^ masks[m])
                start, stop = int64(directory[v]), int64(directory[v + 1])
                if start < stop:
                    hits = _collect(tables, start, stop, query, tag, within, t, layout, values, tags, hits)
                    if hits < 0:
                        return q, mark
    return queries.size, hits


@kernel
def locate(values: U64, column: U64, directory: NDArray[np.uint32], bits: int) -> None:
    """Replace each value by its place in a sorted `column` that holds it.

    `directory` is the column's own over its top `bits` bits, and bounds the binary search.
    """
    shift = uint64(64 - bits)
    for i in range(values.size):
        if i + 2 * AHEAD < values.size:
            prefetch(directory, int64(values[i + 2 * AHEAD] >> shift))
        if i + AHEAD < values.size:
            prefetch(column, int64(directory[int64(values[i + AHEAD] >> shift)]))
        value = values[i]
        v = int64(value >> shift)
        low, high = int64(directory[v]), int64(directory[v + 1]) - 1
        while low < high:
            middle = (low + high) >> 1
            if column[middle] < value:
                low = middle + 1
            else:
                high = middle
        values[i] = uint64(low)


class Wanted(NamedTuple):
    """Queries, and what makes a candidate a match.

    A pair with a short page keeps to the strict limits. Where there are none, these are the other ones, and
    `short` is empty.
    """

    sketches: U64  # (n, S)
    short: NDArray[np.uint8]  # (n,) 0 or 1, or (0,)
    agreement: int
    strict_distance: int
    strict_agreement: int


@njit(inline="always")
def _agreement(sketches, entry, wanted, query):  # type: ignore[no-untyped-def]
    """The number of equal bits of two sketches."""
    equal = 64 * sketches.shape[1]
    for s in range(sketches.shape[1]):
        equal = equal - int64(popcount(sketches[entry, s] ^ wanted[query, s]))
    return equal


@njit(inline="always")
def _prefetch_entries(places, i, starts, entries, home, sketches):  # type: ignore[no-untyped-def]
    """Ask for what the hits after i lead to: where runs start, then entries, then homes and sketches."""
    if i + 3 * AHEAD < places.size:
        prefetch(starts, int64(places[i + 3 * AHEAD]))
    if i + 2 * AHEAD < places.size:
        prefetch(entries, int64(starts[int64(places[i + 2 * AHEAD])]))
    if i + AHEAD < places.size:
        entry = int64(entries[int64(starts[int64(places[i + AHEAD])])])
        prefetch(home, entry)
        prefetch(sketches, entry * sketches.shape[1])


@kernel
def confirm(
    places: U64,
    tags: U64,
    starts: NDArray[np.uint32],
    entries: NDArray[np.int32],
    tag: int,
    home: NDArray[np.int32],
    sketches: U64,
    short: NDArray[np.uint8],
    wanted: Wanted,
    keys: U64,
    facts: NDArray[np.uint32],
    candidates: NDArray[np.int64],
) -> tuple[int, int]:
    """The live entries of each hit that match its query; their own sketches and `short` are by entry.

    The entries of place p are `entries[starts[p]:starts[p + 1]]`; one is live here where its `home` is `tag`,
    or p itself where `tag` is negative (the memtable, whose runs have length one).
    Writes per match `keys` = query << 32 | entry and `facts` = distance << 16 | agreement, and adds to
    `candidates` per query the live entries looked at. Stops before the first query whose matches don't all
    fit. Returns the hits and the matches of the queries before it.
    """
    own, own_short, least = wanted.sketches, wanted.short, wanted.agreement
    strict_distance, strict_agreement = wanted.strict_distance, wanted.strict_agreement
    count = count_mark = hit_mark = 0
    looked, query = 0, int64(-1)
    for i in range(places.size):
        _prefetch_entries(places, i, starts, entries, home, sketches)
        if int64(tags[i] >> uint64(8)) != query:
            if query >= 0:
                candidates[query] += looked
            query, looked = int64(tags[i] >> uint64(8)), 0
            count_mark, hit_mark = count, i
        place, distance = int64(places[i]), int64(tags[i] & uint64(255))
        alive = tag if tag >= 0 else place
        end = int64(starts[place + 1])
        for j in range(int64(starts[place]), end):
            if j + AHEAD < end:
                prefetch(home, int64(entries[j + AHEAD]))
                prefetch(sketches, int64(entries[j + AHEAD]) * sketches.shape[1])
            entry = int64(entries[j])
            if home[entry] != alive:
                continue
            looked += 1
            equal = _agreement(sketches, entry, own, query)
            if equal >= least:
                strictly = distance <= strict_distance and equal >= strict_agreement
                if not strictly and (own_short[query] != 0 or short[entry] != 0):
                    continue
                if count == keys.size:
                    return hit_mark, count_mark
                keys[count] = (uint64(query) << uint64(32)) | uint64(entry)
                facts[count] = (distance << 16) | equal
                count += 1
    if query >= 0:
        candidates[query] += looked
    return places.size, count
