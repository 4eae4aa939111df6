"""Tells which pages have the same key and bucket: exactly in a batch, and by a Bloom filter among all that came."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64, uint64
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.hashing import place_pair
from simstream.kernels.jit import inlined, quick_kernel
from simstream.model import U64


def place_keys(keys: U64, secret: Secret) -> U64:
    """Return for each key (n, w) its place in a table (n,).

    The secret keeps strangers from choosing keys that meet. Cost: some 30 ns a key of six words.
    """
    places = np.empty(len(keys), np.uint64)
    _place(keys, secret, places)
    return places


def group_keys(keys: U64, places: U64) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the group (n,) of each key (n, w), and the first key of each group. `places` are those of the keys.

    Equal keys have one group, and groups are numbered from 0 in the order of their first keys. Cost: some 20 ns a
    key, and 3 us.
    """
    n = len(keys)
    slots, groups, firsts = np.zeros(2 << n.bit_length(), np.uint32), np.empty(n, np.int64), np.empty(n, np.int64)
    return groups, firsts[: _group(keys, places, slots, groups, firsts)]


def note_places(places: U64, bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Note places (n,) in a Bloom filter, and return for each (n,) whether it may have been noted before.

    The filter is 2^m bytes, m at most 29. Cost: two cache misses each, which overlap.
    """
    known = np.empty(len(places), np.bool_)
    _note(places, bits, known)
    return known


@inlined
def _are_equal(keys, i, j):  # type: ignore[no-untyped-def]
    for word in range(keys.shape[1]):  # noqa: SIM110 - numba compiles no generator here
        if keys[i, word] != keys[j, word]:
            return False
    return True


@quick_kernel
def _place(keys: U64, secret: Secret, places: U64) -> None:
    """Write places (n,) of keys (n, w)."""
    for i in range(keys.shape[0]):
        place = keys[i, 0]
        for word in range(1, keys.shape[1]):
            place = place_pair(place, keys[i, word], secret)
        places[i] = place


@quick_kernel
def _group(
    keys: U64, places: U64, slots: NDArray[np.uint32], groups: NDArray[np.int64], firsts: NDArray[np.int64]
) -> int:
    """Write groups (n,) and firsts (n,), and return the number of groups.

    `slots` is all 0, and its size a power of two, at least 2 n. A slot holds a group's number + 1.
    """
    last, count = uint64(slots.size - 1), 0
    for i in range(keys.shape[0]):
        at = places[i] & last
        while slots[at] and not _are_equal(keys, i, firsts[int64(slots[at]) - 1]):
            at = (at + uint64(1)) & last
        if not slots[at]:
            firsts[count] = i
            count += 1
            slots[at] = count
        groups[i] = int64(slots[at]) - 1
    return count


@quick_kernel
def _note(places: U64, bits: NDArray[np.uint8], known: NDArray[np.bool_]) -> None:
    """Set two bits for each place (n,), from its low and from its high half, and write whether both were set."""
    last = uint64(8 * bits.size - 1)
    for i in range(places.size):
        first, second = places[i] & last, (places[i] >> uint64(32)) & last
        one, other = np.uint8(1 << (first & uint64(7))), np.uint8(1 << (second & uint64(7)))
        known[i] = (bits[first >> uint64(3)] & one) != 0 and (bits[second >> uint64(3)] & other) != 0
        bits[first >> uint64(3)] |= one
        bits[second >> uint64(3)] |= other
