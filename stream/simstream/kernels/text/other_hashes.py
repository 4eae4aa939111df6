"""Word hashes of other programs: FNV-1, Jenkins' one-at-a-time, and the cyclic hash of a window.

FNV-1: G. Fowler, L. C. Noll, K.-P. Vo. It runs over UTF-16 code units, each taken as a whole, as Java programs do
over a string's chars. One-at-a-time: B. Jenkins, "Hash functions", 1997. It runs over UTF-8 and has 32 bits; here
it runs twice. Cyclic polynomial: J. D. Cohen, "Recursive hashing functions for n-grams", 1997.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.hashing import _utf8_of
from simstream.kernels.jit import helper, inlined, kernel

MMH3, FNV1, JENKINS = 0, 1, 2
_FNV_BASIS: Final = np.uint64(14695981039346656037)
_FNV_PRIME: Final = np.uint64(1099511628211)
_CASEFOLD: Final = np.uint32(0x1FFFFF)
_M32: Final = np.uint64(0xFFFFFFFF)


@kernel
def fnv1(points: NDArray[np.uint32], start: int, end: int, traits: NDArray[np.uint32]) -> np.uint64:
    """Return FNV-1, 64 bits, of the casefolded word `points[start:end]` as UTF-16."""
    value = _FNV_BASIS
    for at in range(start, end):
        point = np.uint64(traits[points[at]] & _CASEFOLD)
        if point < np.uint64(0x10000):
            value = (value * _FNV_PRIME) ^ point
        else:
            point -= np.uint64(0x10000)
            value = (value * _FNV_PRIME) ^ (np.uint64(0xD800) | (point >> np.uint64(10)))
            value = (value * _FNV_PRIME) ^ (np.uint64(0xDC00) | (point & np.uint64(0x3FF)))
    return value


@helper
def _one_at_a_time(
    points: NDArray[np.uint32], start: int, end: int, traits: NDArray[np.uint32], seed: np.uint64
) -> np.uint64:
    """Return the 32 bits of one-at-a-time in the lower half; all arithmetic is modulo 2^32."""
    value = seed & _M32
    for at in range(start, end):
        encoded, size = _utf8_of(traits[points[at]] & _CASEFOLD)
        for _ in range(size):
            value = (value + (encoded & np.uint64(0xFF))) & _M32
            value = (value + (value << np.uint64(10))) & _M32
            value ^= value >> np.uint64(6)
            encoded >>= np.uint64(8)
    value = (value + (value << np.uint64(3))) & _M32
    value ^= value >> np.uint64(11)
    return (value + (value << np.uint64(15))) & _M32


@kernel
def jenkins(
    points: NDArray[np.uint32], start: int, end: int, traits: NDArray[np.uint32], seed: np.uint64
) -> np.uint64:
    """Return 64 bits of the casefolded word `points[start:end]` as UTF-8.

    The lower half is the hash that begins with `seed`; the upper half is the hash that begins with the lower half.
    """
    low = _one_at_a_time(points, start, end, traits, seed)
    return (_one_at_a_time(points, start, end, traits, low) << np.uint64(32)) | low


@inlined
def _rotate(value: np.uint64, by: int) -> np.uint64:
    return (value << np.uint64(by & 63)) | (value >> np.uint64(-by & 63))


@kernel
def cyclic(hashes: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """Return the hash of each window of `size` successive hashes, or of all hashes if there are fewer; at least
    one.

    Each word's hash is rotated by one bit for every later word in the window. Cost: linear, for any size.
    """
    m = len(hashes)
    windows = np.empty(max(m - size + 1, 1), np.uint64)
    value = np.uint64(0)
    for at in range(min(size, m)):
        value = _rotate(value, 1) ^ hashes[at]
    windows[0] = value
    for at in range(size, m):
        value = _rotate(value, 1) ^ _rotate(hashes[at - size], size) ^ hashes[at]
        windows[at - size + 1] = value
    return windows
