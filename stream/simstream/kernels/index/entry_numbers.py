"""Bitmaps of entry numbers (held, released), and the column of rows with the flag for short pages.

Both are bitmaps with 64 numbers a word. A row has the number in 31 bits, and in the top bit whether the page is
short.
"""

from __future__ import annotations

import numpy as np
from numpy import int64, uint32, uint64
from numpy.typing import NDArray

from simstream.kernels.jit import inlined, lean_kernel
from simstream.model import U64

NUMBER_MASK = (1 << 31) - 1
SHORT_BIT = 1 << 31


@inlined
def bit_of(bitmap, number):  # type: ignore[no-untyped-def]
    """Return the bit of a number (int64), 0 or 1, as uint64."""
    return (bitmap[number >> 6] >> uint64(number & 63)) & uint64(1)


@inlined
def number_of(row):  # type: ignore[no-untyped-def]
    """Return the number in a row, as int64."""
    return int64(row & uint32(NUMBER_MASK))


@lean_kernel
def hold(entries: NDArray[np.uint32], held: U64) -> int:
    """Set the bits of new numbers; all lie within the bitmap.

    Returns -1. If a number is already set or comes twice, returns the place of the first such number, and changes
    nothing.
    """
    for i in range(entries.size):
        number = int64(entries[i])
        if bit_of(held, number) != uint64(0):
            for j in range(i):
                other = int64(entries[j])
                held[other >> 6] &= ~(uint64(1) << uint64(other & 63))
            return i
        held[number >> 6] |= uint64(1) << uint64(number & 63)
    return -1


@lean_kernel
def release(entries: NDArray[np.uint32], held: U64, released: U64) -> int:
    """Set the `released` bits of numbers that are held and not released.

    Returns -1. If a number is not held, is released already or comes twice, returns the place of the first such
    number, and changes nothing.
    """
    for i in range(entries.size):
        number = int64(entries[i])
        known = number >> 6 < held.size and bit_of(held, number) != uint64(0)
        if not known or bit_of(released, number) != uint64(0):
            for j in range(i):
                other = int64(entries[j])
                released[other >> 6] &= ~(uint64(1) << uint64(other & 63))
            return i
        released[number >> 6] |= uint64(1) << uint64(number & 63)
    return -1


@lean_kernel
def forget(entries: NDArray[np.uint32], held: U64, released: U64) -> None:
    """Clear both bits of numbers."""
    for i in range(entries.size):
        number = int64(entries[i])
        keep = ~(uint64(1) << uint64(number & 63))
        held[number >> 6] &= keep
        released[number >> 6] &= keep


@lean_kernel
def count_released(rows: NDArray[np.uint32], released: U64) -> int:
    """Return how many of these rows are released. Cost: about 1 ns a row while the bitmap stays in the cache."""
    count = 0
    for i in range(rows.size):
        count += int64(bit_of(released, number_of(rows[i])))  # type: ignore[assignment]
    return count


@lean_kernel
def take_released(rows: NDArray[np.uint32], released: U64, out: NDArray[np.uint32]) -> int:
    """Write the numbers of the released rows to `out`, and return how many."""
    count = 0
    for i in range(rows.size):
        number = number_of(rows[i])
        if bit_of(released, number) != uint64(0):
            out[count] = number
            count += 1
    return count


@lean_kernel
def hold_rows(rows: NDArray[np.uint32], held: U64) -> int:
    """Set the bits of the rows' numbers. Return -1, or the place of the first number that is beyond the bitmap or
    already set."""
    for i in range(rows.size):
        number = number_of(rows[i])
        if number >> 6 >= held.size or bit_of(held, number) != uint64(0):
            return i
        held[number >> 6] |= uint64(1) << uint64(number & 63)
    return -1


@lean_kernel
def merge_live(
    left: U64,
    left_rows: NDArray[np.uint32],
    left_sketches: U64,
    right: U64,
    right_rows: NDArray[np.uint32],
    right_sketches: U64,
    released: U64,
    out: U64,
    out_rows: NDArray[np.uint32],
    out_sketches: U64,
) -> int:
    """Merge two sorted columns with their rows and sketches, without released entries, and return how many are
    left.

    On equal values `left` goes first. Either may be empty. Cost: linear, 2 to 5 ns an entry.
    """
    i = j = kept = 0
    words = out_sketches.shape[1]
    while i < left.size or j < right.size:
        if j == right.size or (i < left.size and left[i] <= right[j]):
            if bit_of(released, number_of(left_rows[i])) == uint64(0):
                out[kept] = left[i]
                out_rows[kept] = left_rows[i]
                for s in range(words):
                    out_sketches[kept, s] = left_sketches[i, s]
                kept += 1
            i += 1
        else:
            if bit_of(released, number_of(right_rows[j])) == uint64(0):
                out[kept] = right[j]
                out_rows[kept] = right_rows[j]
                for s in range(words):
                    out_sketches[kept, s] = right_sketches[j, s]
                kept += 1
            j += 1
    return kept


@lean_kernel
def keep_distinct(column: U64, out: U64) -> int:
    """Write the distinct values of a sorted column to `out`, and return their number."""
    kept = 0
    for i in range(column.size):
        if i == 0 or column[i] != column[i - 1]:
            out[kept] = column[i]
            kept += 1
    return kept
