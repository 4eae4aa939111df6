"""Checks and mends UTF-8, and counts and writes its characters, so that no page need become a Python string."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.bits import LANES, at_most_64, copy_64, lowest
from simstream.kernels.jit import inlined, lean_helper, lean_kernel, quick_kernel
from simstream.kernels.text.fold import REPLACEMENT, sequence


def is_utf8(raw: bytes) -> bool:
    """Whether Python's strict decoder takes these bytes as UTF-8.

    Cost: .02 ns a byte of ASCII, .3 ns any other.
    """
    return bool(is_valid_utf8(np.frombuffer(raw, np.uint8)))


@quick_kernel
def is_valid_utf8(utf8: NDArray[np.uint8]) -> bool:
    """Whether `utf8` (n,) is UTF-8: `is_utf8` for kernels."""
    i, end = 0, utf8.size
    while i < end:
        if utf8[np.uint64(i)] < 0x80:
            i += _ascii_run(utf8, i)
        elif _is_three(utf8, i, end):
            i += 3
        elif _is_two(utf8, i, end):
            i += 2
        else:
            size = _character(utf8, i)
            if size < 0:
                return False
            i += size
    return True


def count_beyond_ascii(raw: bytes) -> tuple[int, int]:
    """Return how many characters of `raw.decode("utf-8", "replace")` are U+FFFD, and how many others beyond ASCII.

    Cost: .05 ns a byte of ASCII, .5 ns any other, 3 ns a fault.
    """
    return _count_beyond_ascii(np.frombuffer(raw, np.uint8))


@lean_kernel
def _count_beyond_ascii(raw: NDArray[np.uint8]) -> tuple[int, int]:
    i, end, faults, others = 0, raw.size, 0, 0
    while i < end:
        if raw[np.uint64(i)] < 0x80:
            i += _ascii_run(raw, i)
        elif _is_three(raw, i, end):
            others += 1
            i += 3
        elif _is_two(raw, i, end):
            others += 1
            i += 2
        else:
            size = _character(raw, i)
            is_replacement = size == 3 and raw[i] == 0xEF and raw[i + 1] == 0xBF and raw[i + 2] == 0xBD
            faults += size < 0 or is_replacement
            others += size > 0 and not is_replacement
            i += abs(size)
    return faults, others


def mend_utf8(raw: bytes) -> bytes:
    """Return `raw.decode("utf-8", "replace").encode()`. Cost: .1 ns a byte of ASCII, .7 any other."""
    utf8 = np.empty(3 * len(raw) + LANES, np.uint8)
    return utf8[: _mend_utf8(np.frombuffer(raw, np.uint8), utf8)].tobytes()


@lean_kernel
def _mend_utf8(raw: NDArray[np.uint8], utf8: NDArray[np.uint8]) -> int:
    """Write `raw` with U+FFFD for each fault; return the bytes. `utf8` has room for 3 * raw.size + LANES."""
    i, to, end = 0, 0, raw.size
    while i < end:
        if raw[np.uint64(i)] < 0x80:
            size = copy_ascii(raw, i, utf8, to)
        else:
            size = 3 if _is_three(raw, i, end) else 2 if _is_two(raw, i, end) else _character(raw, i)
            if size < 0:
                to = write_point(utf8, to, REPLACEMENT)
                i -= size
                continue
            for k in range(size):
                utf8[np.uint64(to + k)] = raw[np.uint64(i + k)]
        i += size
        to += size
    return to


@inlined
def _is_three(utf8: NDArray[np.uint8], i: int, end: int) -> bool:
    """Whether three bytes from `i` on are a character without a special case, as nearly all of Chinese."""
    lead = utf8[np.uint64(i)]
    return 0xE1 <= lead <= 0xEC and i + 2 < end and utf8[i + 1] & 0xC0 == 0x80 and utf8[i + 2] & 0xC0 == 0x80


@inlined
def _is_two(utf8: NDArray[np.uint8], i: int, end: int) -> bool:
    """Whether two bytes from `i` on are one character."""
    return 0xC2 <= utf8[np.uint64(i)] <= 0xDF and i + 1 < end and utf8[i + 1] & 0xC0 == 0x80


@lean_helper
def _character(utf8: NDArray[np.uint8], i: int) -> int:
    """Return the size of the character at `i`, which is not ASCII; of a fault its size with a minus.

    A fault is what Python replaces by one U+FFFD: a lone surrogate is three faults.
    """
    byte = utf8[np.uint64(i)]
    point, length = sequence(utf8, i, utf8.size)
    if point != REPLACEMENT or (length == 3 and byte == 0xEF):  # U+FFFD itself begins with 0xEF
        return length
    return -1 if length == 3 and byte == 0xED else -length


@lean_helper
def _ascii_run(raw: NDArray[np.uint8], i: int) -> int:
    """Return how many bytes from `i` on are seen to be ASCII: at most LANES. `raw[i]` is."""
    if i + LANES > raw.size or raw[np.uint64(i + 1)] >= 0x80:
        return 1
    others = ~at_most_64(raw, i, 0x7F)
    return lowest(others) if others else LANES


@lean_helper
def copy_ascii(raw: NDArray[np.uint8], i: int, utf8: NDArray[np.uint8], to: int) -> int:
    """Copy the ASCII from `i` on, and return how many bytes it is: at most LANES. `raw[i]` is ASCII.

    Writes up to LANES bytes from `to` on. What lies beyond the returned number is to be overwritten.
    """
    if i + LANES > raw.size:
        utf8[np.uint64(to)] = raw[np.uint64(i)]
    else:
        copy_64(raw, i, utf8, to)
    return _ascii_run(raw, i)


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
