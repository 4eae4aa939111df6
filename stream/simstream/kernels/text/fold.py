"""Decodes UTF-8 into folded code points."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import lean_helper, lean_kernel

REPLACEMENT: Final = 0xFFFD


@lean_helper
def sequence(utf8: NDArray[np.uint8], start: int, end: int) -> tuple[np.int64, int]:
    """Return the code point that begins with the byte at `start`, and how many bytes it takes. The byte is not
    ASCII.

    Malformed bytes give U+FFFD for each longest beginning of a well-formed sequence, as Python's `errors="replace"`
    does. A lone surrogate in its three-byte form gives one U+FFFD.
    """
    lead = utf8[start]
    if lead < 0xC2 or lead > 0xF4:
        return np.int64(REPLACEMENT), 1
    length = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    point = np.uint32(lead & (0xFF >> (length + 1)))
    low, high = np.uint8(0x80), np.uint8(0xBF)  # the range of the second byte
    if lead == 0xE0:
        low = np.uint8(0xA0)
    elif lead == 0xED:
        if start + 2 < end and utf8[start + 1] & 0xE0 == 0xA0 and utf8[start + 2] & 0xC0 == 0x80:
            return np.int64(REPLACEMENT), 3
        high = np.uint8(0x9F)
    elif lead == 0xF0:
        low = np.uint8(0x90)
    elif lead == 0xF4:
        high = np.uint8(0x8F)
    for i in range(1, length):
        if start + i >= end or utf8[start + i] < low or utf8[start + i] > high:
            return np.int64(REPLACEMENT), i
        point = (point << np.uint32(6)) | np.uint32(utf8[start + i] & 0x3F)
        low, high = np.uint8(0x80), np.uint8(0xBF)
    return np.int64(point), length


@lean_kernel
def fold_utf8(
    utf8: NDArray[np.uint8], start: int, end: int, fold: NDArray[np.uint32], points: NDArray[np.uint32]
) -> int:
    """Decode `utf8[start:end]`, fold each code point, write them to `points`, and return how many.

    `fold` has 0x110000 entries, `points` has room for `end - start`. Cost: linear, without allocation.
    """
    n, i = 0, start
    while i < end:
        byte = utf8[i]
        if byte < 0x80:
            points[n] = fold[byte]
            i += 1
        elif 0xE1 <= byte <= 0xEC and i + 2 < end and utf8[i + 1] & 0xC0 == 0x80 and utf8[i + 2] & 0xC0 == 0x80:
            # Nearly all characters of a Chinese page: three bytes without a special case.
            point = (
                ((np.uint32(byte) & np.uint32(0xF)) << np.uint32(12))
                | ((np.uint32(utf8[i + 1]) & np.uint32(0x3F)) << np.uint32(6))
                | (np.uint32(utf8[i + 2]) & np.uint32(0x3F))
            )
            points[n] = fold[point]
            i += 3
        else:
            value, length = sequence(utf8, i, end)
            points[n] = fold[value]
            i += length
        n += 1
    return n
