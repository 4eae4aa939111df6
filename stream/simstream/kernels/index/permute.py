"""Permutes a column for a table: rotates fingerprints so that the prefix comes first."""

from __future__ import annotations

from numpy import uint64

from simstream.kernels.index.hamming import rotate_left
from simstream.kernels.jit import kernel
from simstream.model import U64


@kernel
def rotate(column: U64, bits: int, out: U64) -> None:
    """Write to `out[i]` the value `column[i]` rotated left by `bits` (0 to 63)."""
    by = uint64(bits)
    for i in range(column.size):
        out[i] = rotate_left(column[i], by)
