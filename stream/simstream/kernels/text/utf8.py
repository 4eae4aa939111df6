"""Checks that bytes are UTF-8, so that a page need not be decoded to be sure of it; writes characters as UTF-8."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import lean_helper, lean_kernel
from simstream.kernels.memory import as_words
from simstream.kernels.text.fold import REPLACEMENT, sequence

_HIGHS: Final = np.uint64(0x8080808080808080)


def is_utf8(raw: bytes) -> bool:
    """Whether Python's strict decoder takes these bytes as UTF-8. Holds no GIL.

    Cost: 0.1 ns a byte of ASCII, 0.5 ns a byte of Chinese.
    """
    return bool(is_valid(*as_words(raw)))


@lean_kernel
def is_valid(utf8: NDArray[np.uint8], words: NDArray[np.uint64]) -> bool:
    """Do what `is_utf8` does for the arrays of `as_words`."""
    i, end = 0, utf8.size
    while i < end:
        byte = utf8[np.uint64(i)]
        if byte < 0x80:
            i += 1
            if i & 7 == 0:
                word = i >> 3
                while word < words.size and not words[np.uint64(word)] & _HIGHS:
                    word += 1
                i = word << 3
        elif 0xE1 <= byte <= 0xEC and i + 2 < end and utf8[i + 1] & 0xC0 == 0x80 and utf8[i + 2] & 0xC0 == 0x80:
            i += 3  # nearly all characters of a Chinese page
        else:
            point, length = sequence(utf8, i, end)
            if point == REPLACEMENT and (length < 3 or byte != 0xEF):  # U+FFFD itself begins with 0xEF
                return False
            i += length
    return True


@lean_helper
def write_point(text: NDArray[np.uint8], to: int, point: int) -> int:
    """Write a code point as UTF-8; return where writing goes on."""
    if point < 0x80:
        text[np.uint64(to)] = point
        return to + 1
    if point < 0x800:
        size, first = 2, 0xC0 | point >> 6
    elif point < 0x10000:
        size, first = 3, 0xE0 | point >> 12
    else:
        size, first = 4, 0xF0 | point >> 18
    text[np.uint64(to)] = first
    for i in range(1, size):
        text[np.uint64(to + i)] = 0x80 | point >> 6 * (size - 1 - i) & 0x3F
    return to + size
