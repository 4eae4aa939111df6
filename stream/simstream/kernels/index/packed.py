"""Packed tables: 6 or 8 bytes behind each prefix, and the probes that read them.

A table is a sorted column of fingerprints, rotated so that its prefix leads. The directory gives the prefix of a
place, so only the suffix is kept, aligned to the left. One array has its high 32 bits, another the rest (16 bits if
the prefix has at least 16, else 32). All tables of a segment lie one after another.

A probe compares the high parts, thirty-two at once. About one in a thousand passes. Only then are low parts
fetched, after all high parts of a query, so that their cache lines are prefetched in the meantime.

A shard owns one range of leading bytes, and makes only the probes that lead into this range. The flips of a table
are grouped by their first bits, so these probes are one run of the masks.

Many similar pages crowd under a few prefixes. Then the probes of one query would compare more than a whole table.
Such a query scans table 0 from end to end instead, and meets each place once.
"""

from __future__ import annotations

import numpy as np
from numpy import int64, uint32, uint64
from numpy.typing import NDArray

from simstream.kernels.bits import lowest
from simstream.kernels.index.hamming import LANES, near, popcount, prefetch, rotate_left
from simstream.kernels.jit import inlined, lean_helper, lean_kernel
from simstream.model import U64

AHEAD = 8
"""Probes whose cache lines are prefetched."""
PREFETCHED = 512
"""High parts of one range that are prefetched, sixteen to a cache line."""
LINE = 16
"""High parts of one cache line."""
CROWDED = 4
"""A query that would compare more than this part of all places, one in so many, scans table 0 instead."""

ROTATION, BITS, DIRECTORY, FLIPS = range(4)
"""Columns of a layout, which has a row for each table."""


@inlined
def _low_shift(low):  # type: ignore[no-untyped-def]
    """Return the shift that aligns the low part to the left within 32 bits."""
    return uint64(32 - 8 * low.itemsize)


@inlined
def _suffix(high, low, place):  # type: ignore[no-untyped-def]
    """Return both parts of a place, aligned to the left in 64 bits."""
    return (uint64(high[place]) << uint64(32)) | (uint64(low[place]) << _low_shift(low))


@inlined
def _found_before(difference, query, table, layout, shard, shard_bits):  # type: ignore[no-untyped-def]
    """Whether a table before `table` also finds a value in this shard; `difference` is the value's xor with the
    query, unpermuted."""
    for t in range(table):
        rotation = uint64(layout[t, ROTATION])
        prefix = rotate_left(difference, rotation) >> uint64(64 - layout[t, BITS])
        if int64(popcount(prefix)) <= layout[t, FLIPS]:
            own = rotate_left(difference ^ query, rotation) >> uint64(32)
            if int64(own >> uint64(32 - shard_bits)) == shard:
                return True
    return False


@inlined
def _prefetch_range(high, directory, v):  # type: ignore[no-untyped-def]
    """Prefetch the high parts under prefix `v`. A long range streams by itself once begun."""
    at, end = int64(directory[v]), int64(directory[v + 1])
    end = min(end, at + PREFETCHED)
    while at < end:
        prefetch(high, at)
        at += LINE
    prefetch(high, end - 1)


@inlined
def _pass_high(high, low, start, end, query, most, mark, places, marks, hits):  # type: ignore[no-untyped-def]
    """Append the places in `start:end` whose high parts are near, and return the new number of hits, -1 without
    room."""
    at = start
    while at < end:
        if at + LANES <= high.size:
            found = near(high, at, query, most)
            if end - at < LANES:
                found &= (uint64(1) << uint64(end - at)) - uint64(1)
        else:
            found = uint64(0)
            for i in range(at, min(end, at + LANES)):
                passes = popcount(uint64(high[i] ^ query)) <= uint64(most)
                found |= uint64(passes) << uint64(i - at)
        while found != uint64(0):
            if hits == places.size:
                return -1
            place = at + lowest(found)
            found &= found - uint64(1)
            prefetch(low, place)
            places[hits] = uint64(place)
            marks[hits] = mark
            hits += 1
        at += LANES
    return hits


@lean_helper
def _pass_low(high, low, q, query, within, shard, shard_bits, layout, masks, values, ends, tags, first, last):  # type: ignore[no-untyped-def]
    """Keep the passed places of query q that are within the distance and not found before; return the end of the
    kept ones.

    On entry `values[first:last]` are places, and `tags` have table and mask. On return they are hits as in
    `probe_packed`.
    """
    kept = first
    for i in range(first, last):
        place = int64(values[i])
        t, m = int64(tags[i] >> uint64(32)), int64(tags[i] & uint64(0xFFFFFFFF))
        bits, rotation = uint64(layout[t, BITS]), uint64(layout[t, ROTATION])
        own = rotate_left(query, rotation)
        suffix = _suffix(high, low, place)
        difference = (uint64(masks[m]) << (uint64(64) - bits)) | ((suffix ^ (own << bits)) >> bits)
        d = popcount(difference)
        if d > within:
            continue
        if t == 0:
            values[kept], ends[kept] = uint64(place), uint64(place + 1)
        else:
            difference = rotate_left(difference, (uint64(64) - rotation) & uint64(63))
            if _found_before(difference, query, t, layout, shard, shard_bits):
                continue
            values[kept], ends[kept] = difference ^ query, uint64(0)
        tags[kept] = (uint64(q) << uint64(8)) | d
        kept += 1
    return kept


@inlined
def _pass_all(high, low, directory, q, query, within, bits, values, ends, tags, hits):  # type: ignore[no-untyped-def]
    """Append all hits of query q by a scan of table 0, and return the new number of hits, -1 without room."""
    prefix, suffix = query >> (uint64(64) - bits), query << bits
    wanted = uint32(suffix >> uint64(32))
    for v in range(int64(1) << int64(bits)):
        start, end = int64(directory[v]), int64(directory[v + 1])
        flips = popcount(prefix ^ uint64(v))
        if start == end or flips > within:
            continue
        kept = hits
        hits = _pass_high(high, low, start, end, wanted, uint32(within - flips), flips, values, tags, hits)
        if hits < 0:
            return -1
        for i in range(kept, hits):
            place = int64(values[i])
            d = flips + popcount(_suffix(high, low, place) ^ suffix)
            if d <= within:
                values[kept], ends[kept] = uint64(place), uint64(place + 1)
                tags[kept] = (uint64(q) << uint64(8)) | d
                kept += 1
        hits = kept
    return hits


@lean_kernel
def probe_packed(
    queries: U64,
    first: int,
    distance: int,
    shard: int,
    shard_bits: int,
    high: NDArray[np.uint32],
    low: NDArray[np.uint16],
    directory: NDArray[np.uint32],
    layout: NDArray[np.int64],
    masks: NDArray[np.int64],
    groups: NDArray[np.int64],
    values: U64,
    ends: U64,
    tags: U64,
) -> tuple[int, int]:
    """Find all values within `distance` of each query, by T tables and the flipped prefixes of each.

    `directory` has per table where each prefix begins in `high` and `low`. `layout` (T, 4) describes the tables,
    and `masks` has the flips of each table's prefix. Only prefixes that begin with the `shard_bits` (0 to 8) bits
    `shard` are looked up; `shard_bits` 0 means all. `groups` (T, 2^shard_bits + 1) says where the masks begin that
    flip the first bits by 0, 1, 2 and so on. If several tables find a value, the first of them reports it: this
    needs no set and no sorting. In table 0 a value may stand several times, and each of its places is reported.

    Writes the hits of `queries[first:]`, in the order of queries. Each has a tag (query << 8 | distance). A hit
    from table 0 has its place, and in `ends` the place + 1. A hit from another table has its value, and in `ends`
    0. Returns the next query and the number of hits. If that query is not the last + 1, there was no room for its
    hits together with the places of one range that passed the high part. Cost: one or two cache misses a probe,
    hidden by prefetching AHEAD; 0.05 to 0.3 ns a compared value.
    """
    within = uint64(distance)
    bits0 = uint64(layout[0, BITS])
    crowd = int64(directory[int64(1) << int64(bits0)]) // CROWDED
    columns, rule = (high, low), (within, shard, shard_bits, layout, masks)
    hits = 0
    for q in range(first, queries.size):
        start_of_query = kept = hits
        compared = int64(0)
        for t in range(layout.shape[0]):
            query = rotate_left(queries[q], uint64(layout[t, ROTATION]))
            bits = uint64(layout[t, BITS])
            prefix = int64(query >> (uint64(64) - bits))
            wanted = uint32((query << bits) >> uint64(32))
            here = layout[t, DIRECTORY]
            group = shard ^ (prefix >> (layout[t, BITS] - shard_bits))
            begin, end = groups[t, group], groups[t, group + 1]
            for m in range(begin, min(begin + 2 * AHEAD, end)):
                prefetch(directory, here + (prefix ^ masks[m]))
            for m in range(begin, min(begin + AHEAD, end)):
                _prefetch_range(high, directory, here + (prefix ^ masks[m]))
            for m in range(begin, end):
                if m + 2 * AHEAD < end:
                    prefetch(directory, here + (prefix ^ masks[m + 2 * AHEAD]))
                if m + AHEAD < end:
                    _prefetch_range(high, directory, here + (prefix ^ masks[m + AHEAD]))
                v = here + (prefix ^ masks[m])
                start, stop = int64(directory[v]), int64(directory[v + 1])
                compared += stop - start
                if compared > crowd:
                    break
                most = uint32(within - popcount(uint64(masks[m])))
                mark = (uint64(t) << uint64(32)) | uint64(m)
                passed = _pass_high(high, low, start, stop, wanted, most, mark, values, tags, hits)
                if passed < 0 and hits > kept:  # those that have passed so far leave room: few are hits
                    hits = kept = _pass_low(*columns, q, queries[q], *rule, values, ends, tags, kept, hits)
                    passed = _pass_high(high, low, start, stop, wanted, most, mark, values, tags, hits)
                if passed < 0:
                    return q, start_of_query
                hits = passed
            if compared > crowd:
                break
        if compared > crowd:
            hits = _pass_all(high, low, directory, q, queries[q], within, bits0, values, ends, tags, start_of_query)
            if hits < 0:
                return q, start_of_query
        else:
            hits = _pass_low(*columns, q, queries[q], *rule, values, ends, tags, kept, hits)
    return queries.size, hits


@lean_kernel
def pass_all(
    query: int,
    distance: int,
    high: NDArray[np.uint32],
    low: NDArray[np.uint16],
    directory: NDArray[np.uint32],
    bits: int,
    places: U64,
    ends: U64,
    tags: U64,
) -> int:
    """Write all places of table 0 within any distance of one query, ascending; return how many, or -1 without room.

    `directory` is table 0's own. Writes places, ends and tags as `probe_packed` does. Cost: 0.05 to 0.3 ns a place.
    """
    return _pass_all(high, low, directory, 0, query, uint64(distance), uint64(bits), places, ends, tags, 0)


@inlined
def _search(high, low, start, end, suffix, after):  # type: ignore[no-untyped-def]
    """Return the first place in the sorted `start:end` with at least `suffix`; with `after`, with more."""
    while start < end:
        middle = (start + end) >> 1
        here = _suffix(high, low, middle)
        if here < suffix or (after and here == suffix):
            start = middle + 1
        else:
            end = middle
    return start


@lean_kernel
def locate_packed(
    values: U64,
    high: NDArray[np.uint32],
    low: NDArray[np.uint16],
    directory: NDArray[np.uint32],
    bits: int,
    ends: U64,
) -> None:
    """Replace each value with end 0 by the first of its places in table 0, and its end by one past the last.

    A value that table 0 does not have gets some place, and this place as its end. `directory` is table 0's own over
    its `bits` bits, and bounds both binary searches.
    """
    by = uint64(bits)
    shift = uint64(64) - by
    for i in range(values.size):
        if i + 2 * AHEAD < values.size and ends[i + 2 * AHEAD] == uint64(0):
            prefetch(directory, int64(values[i + 2 * AHEAD] >> shift))
        if i + AHEAD < values.size and ends[i + AHEAD] == uint64(0):
            prefetch(high, int64(directory[int64(values[i + AHEAD] >> shift)]))
        if ends[i] != uint64(0):
            continue
        v = int64(values[i] >> shift)
        suffix = values[i] << by
        start = _search(high, low, int64(directory[v]), int64(directory[v + 1]), suffix, False)
        end = start
        limit = int64(directory[v + 1])
        step = 1
        while end < limit and _suffix(high, low, end) == suffix:
            if end + step < limit and _suffix(high, low, end + step) == suffix:
                end += step
                step *= 2
            else:
                end = _search(high, low, end, min(end + step, limit), suffix, True)
        values[i] = uint64(start)
        ends[i] = uint64(end)


@lean_kernel
def pack(
    column: U64, bits: int, base: int, high: NDArray[np.uint32], low: NDArray[np.uint16], out: NDArray[np.uint32]
) -> None:
    """Cut the sorted column of one table into the parts of its suffixes and the directory of its prefixes.

    `out[v]` = `base` + the first place whose top `bits` bits (8 to 24) are at least v; it has 2^bits + 1 places.
    `high` and `low` are as long as the column. If `low` has 16 bits, the prefix has at least 16.
    """
    by = uint64(bits)
    shift, low_shift = uint64(64) - by, _low_shift(low)
    v = 0
    for i in range(column.size):
        prefix = int64(column[i] >> shift)
        while v <= prefix:
            out[v] = base + i
            v += 1
        suffix = column[i] << by
        high[i] = suffix >> uint64(32)
        low[i] = (suffix & uint64(0xFFFFFFFF)) >> low_shift
    while v < out.size:
        out[v] = base + column.size
        v += 1


@lean_kernel
def unpack(
    high: NDArray[np.uint32], low: NDArray[np.uint16], directory: NDArray[np.uint32], bits: int, out: U64
) -> None:
    """Restore the sorted column of one table; `directory` is its own, and `out` begins at its first place."""
    by = uint64(bits)
    shift = uint64(64) - by
    base = int64(directory[0])
    for v in range(directory.size - 1):
        for place in range(int64(directory[v]), int64(directory[v + 1])):
            out[place - base] = (uint64(v) << shift) | (_suffix(high, low, place) >> by)
