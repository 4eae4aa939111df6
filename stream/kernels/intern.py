"""Entry numbers: an open-addressed hash over keys, a queue of free numbers, and `home`.

A key is a fingerprint, a sketch, and whether the page is short; keys that differ in the last alone are rare, so
the hash leaves it out.

`home[e]` says where entry e lies: below FIRST_SEGMENT its place in the memtable, else the number of its
segment; `~home` while it is released, and GONE once no part of the index holds it. A released entry keeps
its number and its key until the number is given to another, the longest queued first; so the numbers depend
on the calls alone, never on when the memtable was sealed or segments were merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy import int64, uint64
from numpy.typing import NDArray

from stream.kernels.hamming import prefetch
from stream.kernels.jit import kernel
from stream.model import U64

FIRST_SEGMENT = 1 << 24
GONE = -(2**31)
"""Released, and neither the memtable nor a segment has it any more."""
EMPTY = -1
AHEAD = 8

USED, LIVE, HEAD, TAIL, MEMTABLE = range(5)
"""Places of the counters: numbers ever given, live entries, queue from HEAD to TAIL, filled memtable."""


class Keys(NamedTuple):
    """Keys in columns. `short` is empty where the index does not tell short pages from others."""

    fingerprints: U64  # (n,)
    sketches: U64  # (n, S)
    short: NDArray[np.uint8]  # (n,) 0 or 1, or (0,)


@njit(inline="always")
def _hash(fingerprint, sketches, row):  # type: ignore[no-untyped-def]
    """64 mixed bits of a key (the finalizer of splitmix64, once a word)."""
    h = fingerprint
    for s in range(sketches.shape[1] + 1):
        if s > 0:
            h ^= sketches[row, s - 1]
        h += uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> uint64(27))) * uint64(0x94D049BB133111EB)
        h ^= h >> uint64(31)
    return h


@njit(inline="always")
def _same(sketches, entry, wanted, row):  # type: ignore[no-untyped-def]
    different = uint64(0)
    for s in range(wanted.shape[1]):
        different |= sketches[entry, s] ^ wanted[row, s]
    return different == uint64(0)


@njit(inline="always")
def _free_slot(table, h):  # type: ignore[no-untyped-def]
    """The first empty place of a key's chain."""
    mask = table.size - 1
    at = int64(h & uint64(mask))
    while table[at] != EMPTY:
        at = (at + 1) & mask
    return at


@njit
def _forget(table, entry, fingerprints, sketches):  # type: ignore[no-untyped-def]
    """Take an entry's key out and close the gap, so that no marker is needed for the removed."""
    mask = table.size - 1
    gap = int64(_hash(fingerprints[entry], sketches, entry) & uint64(mask))
    while table[gap] != entry:
        gap = (gap + 1) & mask
    at = gap
    while True:
        at = (at + 1) & mask
        other = table[at]
        if other == EMPTY:
            break
        ideal = int64(_hash(fingerprints[other], sketches, other) & uint64(mask))
        if ((at - ideal) & mask) >= ((at - gap) & mask):
            table[gap] = other
            gap = at
    table[gap] = EMPTY


@njit
def _next_number(table, fingerprints, sketches, home, queued, queue, counters):  # type: ignore[no-untyped-def]
    """The number for a new entry: the longest queued one that is still released, else one never used."""
    while counters[HEAD] < counters[TAIL]:
        entry = int64(queue[counters[HEAD] % queue.size])
        counters[HEAD] += 1
        queued[entry] = 0
        if home[entry] < 0:
            _forget(table, entry, fingerprints, sketches)
            return entry
    counters[USED] += 1
    return counters[USED] - 1


@kernel
def rehash(table: NDArray[np.int32], used: int, known: Keys) -> None:
    """Fill an empty table (a power of two, at least twice `used`) with the keys of all numbers given."""
    fingerprints, sketches = known.fingerprints, known.sketches
    for entry in range(used):
        table[_free_slot(table, _hash(fingerprints[entry], sketches, entry))] = entry


@kernel
def intern(
    wanted: Keys,
    first: int,
    table: NDArray[np.int32],
    known: Keys,
    home: NDArray[np.int32],
    queued: NDArray[np.uint8],
    queue: NDArray[np.int32],
    counters: NDArray[np.int64],
    memtable: U64,
    memtable_entries: NDArray[np.int32],
    out: NDArray[np.int64],
) -> int:
    """Numbers of `wanted[first:]`; new keys and those gone come into the memtable.

    Returns the next row, which is before the end where the memtable is full. The columns have room for a
    new number a row, the table is at most half full after it. Cost: two or three cache misses a row.
    """
    fingerprints, sketches, short = known.fingerprints, known.sketches, known.short
    keys, own, own_short = wanted.fingerprints, wanted.sketches, wanted.short
    told_apart = short.size > 0
    mask = table.size - 1
    for i in range(first, keys.size):
        if counters[MEMTABLE] == memtable.size:
            return i
        if i + AHEAD < keys.size:
            ahead = _hash(keys[i + AHEAD], own, i + AHEAD)
            prefetch(table, int64(ahead & uint64(mask)))
        h = _hash(keys[i], own, i)
        at = int64(h & uint64(mask))
        entry = int64(table[at])
        while entry != EMPTY and not (
            fingerprints[entry] == keys[i]
            and _same(sketches, entry, own, i)
            and (not told_apart or short[entry] == own_short[i])
        ):
            at = (at + 1) & mask
            entry = int64(table[at])
        if entry == EMPTY:
            entry = _next_number(table, fingerprints, sketches, home, queued, queue, counters)
            fingerprints[entry] = keys[i]
            for s in range(sketches.shape[1]):
                sketches[entry, s] = own[i, s]
            if told_apart:
                short[entry] = own_short[i]
            table[_free_slot(table, h)] = entry
            home[entry] = GONE
        out[i] = entry
        if home[entry] >= 0:
            continue
        counters[LIVE] += 1
        if home[entry] != GONE:
            home[entry] = ~home[entry]
            continue
        place = counters[MEMTABLE]
        counters[MEMTABLE] += 1
        home[entry] = place
        memtable[place] = keys[i]
        memtable_entries[place] = entry
    return keys.size


@kernel
def release(
    entries: NDArray[np.int64],
    home: NDArray[np.int32],
    queued: NDArray[np.uint8],
    queue: NDArray[np.int32],
    counters: NDArray[np.int64],
) -> int:
    """Mark entries as released and queue their numbers.

    Returns -1, or the place of the first that is not a live entry (or comes twice): nothing is changed then.
    """
    for i in range(entries.size):
        entry = entries[i]
        if entry < 0 or entry >= counters[USED] or home[entry] < 0:
            for j in range(i):
                home[entries[j]] = ~home[entries[j]]
            return i
        home[entry] = ~home[entry]
    for i in range(entries.size):
        entry = entries[i]
        if queued[entry] == 0:
            queued[entry] = 1
            queue[counters[TAIL] % queue.size] = entry
            counters[TAIL] += 1
    counters[LIVE] -= entries.size
    return -1


@kernel
def move(entries: NDArray[np.int32], home: NDArray[np.int32], old: int, new: int) -> None:
    """Entries that lie at `old` (negative: in the memtable, each at its place) go to `new`; the dead are GONE."""
    for i in range(entries.size):
        here = old if old >= 0 else i
        if home[entries[i]] == here:
            home[entries[i]] = new
        elif home[entries[i]] == ~here:
            home[entries[i]] = GONE
