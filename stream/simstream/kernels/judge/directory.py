"""The hash table of the directory: identities to rows, eight bytes a slot, ordered linear probing.

A slot is `hash << 31 | row + 1`, or 0 if it is empty. The hash has 33 bits of the identity mixed with a secret.
Strangers choose ids: without the secret they could give thousands of pages one hash, and each would be compared
with each.

A partition holds all slots whose hash begins with its prefix of `depth` bits. A slot stands at its home (the rest
of the hash, scaled to the number of homes), or as soon after it as there is room. Slots ascend. So a search ends at
the first greater slot, and one pass from left to right widens a partition or cuts it in two. Its content does not
depend on the order in which slots came. The last slot of a partition is always empty, so no loop has to check for
its end.

Each partition has its own memory at an address, because each grows by itself.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import int64, uint64
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.hashing import place_pair
from simstream.kernels.jit import helper, inlined, kernel
from simstream.model import U64

HASH_BITS: Final = 33
ROW_BITS: Final = 31
ADDRESS, HOMES, DEPTH, COUNT, LIMIT, SLOTS = range(6)
"""Columns of a partition: its address, its homes, the bits of its prefix, the slots in use, the number at which it
grows, all slots."""
AHEAD: Final = 12
_ROW: Final = uint64((1 << ROW_BITS) - 1)


def _load(_typing, address):  # type: ignore[no-untyped-def]
    """Return the uint64 at an address."""

    def emit(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return types.uint64(types.uint64), emit


def _store(_typing, address, value):  # type: ignore[no-untyped-def]
    """Write a uint64 to an address."""

    def emit(context, builder, _signature, args):  # type: ignore[no-untyped-def]
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), emit


def _ask_for(_typing, address):  # type: ignore[no-untyped-def]
    """Prefetch the cache line at an address, without a read."""

    def emit(context, builder, _signature, args):  # type: ignore[no-untyped-def]
        i32, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        function = builder.module.globals.get("llvm.prefetch.p0")
        if function is None:
            kind = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
            function = ir.Function(builder.module, kind, "llvm.prefetch.p0")
        where = builder.inttoptr(args[0], pointer)
        builder.call(function, [where, ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.void(types.uint64), emit


load: Any = intrinsic(_load)
store: Any = intrinsic(_store)
ask_for: Any = intrinsic(_ask_for)


@inlined
def hash_of(identities, i, secret):  # type: ignore[no-untyped-def]
    """Return 33 bits of an identity under a secret; both halves count."""
    return place_pair(identities[i, 0], identities[i, 1], secret) >> uint64(64 - HASH_BITS)


@inlined
def home_of(h, homes, depth):  # type: ignore[no-untyped-def]
    """Return the home of a hash in a partition with `homes` homes. It ascends with the hash."""
    rest = uint64(HASH_BITS - depth)
    return int64(((h & ((uint64(1) << rest) - uint64(1))) * uint64(homes)) >> rest)


@inlined
def _at(partitions, which, place):  # type: ignore[no-untyped-def]
    return uint64(partitions[which, ADDRESS]) + uint64(place << 3)


@inlined
def _which(h, spread):  # type: ignore[no-untyped-def]
    """Return the partition of a hash; `spread` has one for each value of the first bits."""
    return int64(spread[int64((h * uint64(spread.size)) >> uint64(HASH_BITS))])


@inlined
def _ahead(identities, i, spread, partitions, secret):  # type: ignore[no-untyped-def]
    if i < identities.shape[0]:
        h = hash_of(identities, i, secret)
        p = _which(h, spread)
        ask_for(_at(partitions, p, home_of(h, partitions[p, HOMES], partitions[p, DEPTH])))


@kernel
def find(
    identities: U64,
    first: int,
    spread: NDArray[np.int32],
    partitions: NDArray[np.int64],
    starts: NDArray[np.int64],
    rows: NDArray[np.uint32],
    secret: Secret,
) -> int:
    """Write the rows whose slots have the hashes of `identities[first:]`, ascending for each; `starts[first]` is
    set.

    Returns the next identity; it is before the end if `rows` has no room left.
    """
    for i in range(first, identities.shape[0]):
        _ahead(identities, i + AHEAD, spread, partitions, secret)
        h = hash_of(identities, i, secret)
        p = _which(h, spread)
        at = _at(partitions, p, home_of(h, partitions[p, HOMES], partitions[p, DEPTH]))
        least = h << uint64(ROW_BITS)
        slot = load(at)
        while slot != uint64(0) and slot < least:
            at += uint64(8)
            slot = load(at)
        found = starts[i]
        while slot >> uint64(ROW_BITS) == h and slot != uint64(0):
            if found == rows.size:
                return i
            rows[found] = np.uint32((slot & _ROW) - uint64(1))
            found += 1
            at += uint64(8)
            slot = load(at)
        starts[i + 1] = found
    return identities.shape[0]


@helper
def _put(key, spread, partitions):  # type: ignore[no-untyped-def]
    """Insert one slot. Return 1, or 0 if its partition has no room, or -1 if it exists already."""
    h = key >> uint64(ROW_BITS)
    p = _which(h, spread)
    if partitions[p, COUNT] >= partitions[p, LIMIT]:
        return 0
    at = _at(partitions, p, home_of(h, partitions[p, HOMES], partitions[p, DEPTH]))
    slot = load(at)
    while slot != uint64(0) and slot < key:
        at += uint64(8)
        slot = load(at)
    if slot == key:
        return -1
    free = at
    while load(free) != uint64(0):
        free += uint64(8)
    if free == _at(partitions, p, partitions[p, SLOTS] - 1):
        return 0
    while free != at:
        store(free, load(free - uint64(8)))
        free -= uint64(8)
    store(at, key)
    partitions[p, COUNT] += 1
    return 1


@helper
def _take(key, spread, partitions):  # type: ignore[no-untyped-def]
    """Remove one slot and move the later slots up. Return whether it existed."""
    h = key >> uint64(ROW_BITS)
    p = _which(h, spread)
    homes, depth = partitions[p, HOMES], partitions[p, DEPTH]
    at = _at(partitions, p, home_of(h, homes, depth))
    slot = load(at)
    while slot != uint64(0) and slot < key:
        at += uint64(8)
        slot = load(at)
    if slot != key:
        return False
    while True:
        following = load(at + uint64(8))
        if following == uint64(0):
            break
        if _at(partitions, p, home_of(following >> uint64(ROW_BITS), homes, depth)) > at:
            break
        store(at, following)
        at += uint64(8)
    store(at, uint64(0))
    partitions[p, COUNT] -= 1
    return True


@inlined
def _key(identities, rows, i, secret):  # type: ignore[no-untyped-def]
    return (hash_of(identities, i, secret) << uint64(ROW_BITS)) | (uint64(rows[i]) + uint64(1))


@kernel
def add(
    identities: U64,
    rows: NDArray[np.uint32],
    first: int,
    spread: NDArray[np.int32],
    partitions: NDArray[np.int64],
    secret: Secret,
) -> int:
    """Insert `identities[first:]` with their rows.

    Returns the next identity; it is before the end if its partition must grow first. If a pair exists already, it
    returns `~` of its place, and removes all pairs that this call inserted.
    """
    for i in range(first, identities.shape[0]):
        _ahead(identities, i + AHEAD, spread, partitions, secret)
        done = _put(_key(identities, rows, i, secret), spread, partitions)
        if done == 0:
            return i
        if done < 0:
            for j in range(first, i):
                _take(_key(identities, rows, j, secret), spread, partitions)
            return ~i
    return identities.shape[0]


@kernel
def remove(
    identities: U64,
    rows: NDArray[np.uint32],
    end: int,
    spread: NDArray[np.int32],
    partitions: NDArray[np.int64],
    secret: Secret,
) -> int:
    """Remove `identities[:end]` with their rows. Return -1, or the place of a missing one; then nothing is
    changed."""
    for i in range(end):
        _ahead(identities, i + AHEAD, spread, partitions, secret)
        if not _take(_key(identities, rows, i, secret), spread, partitions):
            for j in range(i):
                _put(_key(identities, rows, j, secret), spread, partitions)
            return i
    return -1


@kernel
def which(identities: U64, i: int, spread: NDArray[np.int32], secret: Secret) -> int:
    """Return the partition of one identity."""
    return _which(hash_of(identities, i, secret), spread)


@kernel
def lay_out(source: U64, prefix: int, depth: int, homes: int, target: U64) -> int:
    """Place the slots of `source` whose hashes have this prefix into `target`, all zero, with `homes` homes.

    Returns how many there are, or -1 if the last ones do not fit behind the last home.
    """
    at = count = 0
    rest = uint64(HASH_BITS - depth)
    for i in range(source.size):
        slot = source[i]
        h = slot >> uint64(ROW_BITS)
        if slot == uint64(0) or int64(h >> rest) != prefix:
            continue
        at = max(at, home_of(h, homes, depth))
        if at >= target.size - 1:
            return -1
        target[at] = slot
        at += 1
        count += 1
    return count


@kernel
def in_order(slots: U64, prefix: int, depth: int, homes: int) -> int:
    """Return how many slots a partition has, or `~` of the place of a misplaced slot."""
    count = 0
    free = before = uint64(0)
    rest = uint64(HASH_BITS - depth)
    for i in range(slots.size):
        slot = slots[i]
        if slot == uint64(0):
            free = uint64(i + 1)
            continue
        h = slot >> uint64(ROW_BITS)
        home = home_of(h, homes, depth)
        strange = int64(h >> rest) != prefix or slot & _ROW == uint64(0)
        if strange or slot <= before or home > i or uint64(home) < free or i == slots.size - 1:
            return ~i
        before = slot
        count += 1
    return count


@kernel
def clear_others(slots: U64, state: NDArray[np.uint8], wanted: int) -> int:
    """Empty the slots of rows whose state lacks the bit `wanted`, and return how many. Then lay the rest out
    again."""
    count = 0
    for i in range(slots.size):
        if slots[i] != uint64(0) and state[int64(slots[i] & _ROW) - 1] & np.uint8(wanted) == 0:
            slots[i] = uint64(0)
            count += 1
    return count
