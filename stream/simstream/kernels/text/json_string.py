"""Turns a JSON string into the UTF-8 that it stands for, without a Python string in between.

A page's HTML is a string with an escape each twenty bytes or so. Python's string of it would be written as UTF-8 at
once for the next kernel, and holds the GIL meanwhile.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.bits import LANES, at_most_64, copy_64, equal_64, lowest
from simstream.kernels.jit import lean_helper, lean_kernel
from simstream.kernels.text.utf8 import is_valid_utf8, write_point

_BACKSLASH: Final = np.uint8(0x5C)
_QUOTE: Final = np.uint8(0x22)
_LAST_CONTROL: Final = np.uint8(0x1F)
_LETTER_U: Final = 0x75
_ESCAPES: Final = np.zeros(256, np.uint8)
"""By the byte after a backslash the byte that is meant; 0: there is no such escape, or it is `u`."""
for _letter, _meant in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_letter] = _meant


def string_in_utf8(string: bytes | memoryview, whole: bytes = b"") -> bytes | None:
    """Return what a JSON string, given with its quotes, stands for.

    Returns None if that is no JSON string, or has a lone surrogate. `whole` is the JSON value around the string; if
    it is not UTF-8, the answer is None, too. Without it the caller has checked the string. Holds no GIL. Cost:
    .1 ns a byte, and an escape 5 to 15 ns, 35 for two that are one character; and that of `is_utf8` for `whole`.
    """
    raw = np.frombuffer(string, np.uint8)
    if raw.size < 2 or raw[0] != ord('"') or raw[-1] != ord('"'):
        return None
    utf8 = np.empty(raw.size + LANES, np.uint8)
    size = _unescape_if_utf8(np.frombuffer(whole, np.uint8), raw[1:-1], _ESCAPES, utf8)
    return None if size < 0 else utf8[:size].tobytes()


@lean_kernel
def _unescape_if_utf8(
    whole: NDArray[np.uint8],
    raw: NDArray[np.uint8],
    escapes: NDArray[np.uint8],
    utf8: NDArray[np.uint8],
) -> int:
    """Return what `_unescape` does, or -1 if `whole` is not UTF-8. One call waits for the GIL once."""
    return _unescape(raw, escapes, utf8) if is_valid_utf8(whole) else -1


@lean_helper
def _unescape(raw: NDArray[np.uint8], escapes: NDArray[np.uint8], utf8: NDArray[np.uint8]) -> int:
    """Write what `raw` stands for; return the number of bytes, or -1. `utf8` has room for as many, and LANES."""
    i, to, end = 0, 0, raw.size
    while i < end:
        if i + LANES <= end:
            stops = equal_64(raw, i, _BACKSLASH) | equal_64(raw, i, _QUOTE) | at_most_64(raw, i, _LAST_CONTROL)
            copy_64(raw, i, utf8, to)
            run = lowest(stops) if stops else LANES
            i += run
            to += run
            if not stops:
                continue
        byte = raw[i]
        if byte <= _LAST_CONTROL or byte == _QUOTE:
            return -1
        if byte != _BACKSLASH:
            utf8[to] = byte
            i += 1
            to += 1
            continue
        if i + 1 >= end:
            return -1
        letter = raw[i + 1]
        i += 2
        if letter != _LETTER_U:
            if escapes[letter] == 0:
                return -1
            utf8[to] = escapes[letter]
            to += 1
            continue
        point = _four_digits(raw, i, end)
        i += 4
        if 0xD800 <= point < 0xDC00 and i + 1 < end and raw[i] == _BACKSLASH and raw[i + 1] == _LETTER_U:
            low = _four_digits(raw, i + 2, end)
            if 0xDC00 <= low < 0xE000:
                point = 0x10000 + ((point - 0xD800) << 10) + low - 0xDC00
                i += 6
        if point < 0 or 0xD800 <= point < 0xE000:
            return -1
        to = write_point(utf8, to, point)
    return to


@lean_helper
def _four_digits(raw: NDArray[np.uint8], at: int, end: int) -> int:
    """Return the number of four hexadecimal digits from `at` on; -1 if one is no hexadecimal digit."""
    if at + 4 > end:
        return -1
    number = 0
    for i in range(at, at + 4):
        digit = int(raw[i])
        if 0x30 <= digit <= 0x39:
            digit -= 0x30
        elif 0x41 <= digit & 0xDF <= 0x46:
            digit = (digit & 0xDF) - 0x37
        else:
            return -1
        number = number << 4 | digit
    return number
