"""Tells which pages of a batch have the same key and bucket, by a hash table of the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64, uint64
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.hashing import place_pair
from simstream.kernels.jit import inlined, quick_kernel
from simstream.model import U64


def group_keys(keys: U64, secret: Secret) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the group (n,) of each key (n, w), and the first key of each group.

    Equal keys have one group, and groups are numbered from 0 in the order of their first keys. The secret keeps
    strangers from choosing keys that meet in the table. Cost: some 50 ns a key of six words, and 3 us.
    """
    n = len(keys)
    slots, groups, firsts = np.zeros(2 << n.bit_length(), np.uint32), np.empty(n, np.int64), np.empty(n, np.int64)
    return groups, firsts[: _group(keys, secret, slots, groups, firsts)]


@inlined
def _are_equal(keys, i, j):  # type: ignore[no-untyped-def]
    for word in range(keys.shape[1]):  # noqa: SIM110 - numba compiles no generator here
        if keys[i, word] != keys[j, word]:
            return False
    return True


@quick_kernel
def _group(
    keys: U64, secret: Secret, slots: NDArray[np.uint32], groups: NDArray[np.int64], firsts: NDArray[np.int64]
) -> int:
    """Write groups (n,) and firsts (n,), and return the number of groups.

    `slots` is all 0, and its size a power of two, at least 2 n. A slot holds a group's number + 1.
    """
    last, count = uint64(slots.size - 1), 0
    for i in range(keys.shape[0]):
        place = keys[i, 0]
        for word in range(1, keys.shape[1]):
            place = place_pair(place, keys[i, word], secret)
        at = place & last
        while slots[at] and not _are_equal(keys, i, firsts[int64(slots[at]) - 1]):
            at = (at + uint64(1)) & last
        if not slots[at]:
            firsts[count] = i
            count += 1
            slots[at] = count
        groups[i] = int64(slots[at]) - 1
    return count
