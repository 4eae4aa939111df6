"""Permuted columns: rotation, the directory over a prefix, runs of equal fingerprints, and merging.

A table is the fingerprints rotated so that its prefix becomes the leading bits, and sorted. The sorting is
numpy's; here is all that is linear.
"""

from __future__ import annotations

import numpy as np
from numpy import int64, uint64
from numpy.typing import NDArray

from stream.kernels.hamming import rotate_left
from stream.kernels.jit import kernel
from stream.model import U64


@kernel
def rotate(column: U64, bits: int, out: U64) -> None:
    """`out[i]` = `column[i]` rotated left by `bits` (0 to 63)."""
    by = uint64(bits)
    for i in range(column.size):
        out[i] = rotate_left(column[i], by)


@kernel
def fill_directory(column: U64, bits: int, base: int, out: NDArray[np.uint32]) -> None:
    """Where each prefix begins: `out[v]` = `base` + the first place whose top `bits` bits are at least v.

    `column` is sorted, `out` has 2^bits + 1 places, `bits` is 1 to 32.
    """
    shift = uint64(64 - bits)
    place = 0
    for v in range(out.size - 1):
        while place < column.size and int64(column[place] >> shift) < v:
            place += 1
        out[v] = base + place
    out[out.size - 1] = base + column.size


@kernel
def cut_runs(column: U64, values: U64, starts: NDArray[np.uint32]) -> int:
    """The distinct values of a sorted column and where each begins; returns their number, d.

    Writes `values[:d]` and `starts[:d + 1]`; both have room for `column.size` (+ 1).
    """
    d = 0
    for i in range(column.size):
        if i == 0 or column[i] != column[i - 1]:
            values[d] = column[i]
            starts[d] = i
            d += 1
    starts[d] = column.size
    return d


@kernel
def merge_two(
    left: U64,
    left_entries: NDArray[np.int32],
    right: U64,
    right_entries: NDArray[np.int32],
    out: U64,
    out_entries: NDArray[np.int32],
) -> None:
    """Merge two sorted columns with their entries; `left` goes first where values are equal."""
    i = j = 0
    for at in range(out.size):
        if j == right.size or (i < left.size and left[i] <= right[j]):
            out[at] = left[i]
            out_entries[at] = left_entries[i]
            i += 1
        else:
            out[at] = right[j]
            out_entries[at] = right_entries[j]
            j += 1


@kernel
def keep_live(
    values: U64,
    starts: NDArray[np.uint32],
    entries: NDArray[np.int32],
    home: NDArray[np.int32],
    tag: int,
    out: U64,
    out_entries: NDArray[np.int32],
) -> int:
    """Spell the runs of a segment out, one value an entry, without its dead ones; returns how many are left.

    An entry is live here where `home` is `tag`; `~tag` means that it died here (see `kernels/intern`).
    """
    kept = 0
    for v in range(values.size):
        for i in range(starts[v], starts[v + 1]):
            if home[entries[i]] == tag:
                out[kept] = values[v]
                out_entries[kept] = entries[i]
                kept += 1
    return kept
