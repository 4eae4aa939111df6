"""Hashes inside kernels: MurmurHash3 x64 of words, and a mixer of 64 bits.

MurmurHash3 is Austin Appleby's (public domain); the words' hash is the first half of its x64 128-bit form, the
same number as `mmh3.hash64(word, seed, x64arch=True, signed=False)[0]`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

_C1: Final = np.uint64(0x87C37B91114253D5)
_C2: Final = np.uint64(0x4CF5AD432745937F)
_MIX1: Final = np.uint64(0xFF51AFD7ED558CCD)
_MIX2: Final = np.uint64(0xC4CEB9FE1A85EC53)
_PAIR: Final = np.uint64(0x9E3779B97F4A7C15)
_CASEFOLD: Final = np.uint32(0x1FFFFF)


@njit(nogil=True, cache=True, inline="always")
def mix(x: np.uint64) -> np.uint64:
    """A bijection of 64 bits in which every input bit moves about half of the output bits."""
    x ^= x >> np.uint64(33)
    x *= _MIX1
    x ^= x >> np.uint64(33)
    x *= _MIX2
    return x ^ (x >> np.uint64(33))


@njit(nogil=True, cache=True, inline="always")
def pair(first: np.uint64, second: np.uint64) -> np.uint64:
    """The hash of two words in this order, from their hashes."""
    return mix((first * _PAIR) ^ second)


@njit(nogil=True, cache=True, inline="always")
def _rotate(x: np.uint64, by: int) -> np.uint64:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@njit(nogil=True, cache=True, inline="always")
def _load(data: NDArray[np.uint8], start: int, n: int) -> np.uint64:
    x = np.uint64(0)
    for i in range(n):
        x |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return x


@njit(nogil=True, cache=True)
def murmur(data: NDArray[np.uint8], n: int, seed: np.uint64) -> np.uint64:
    """The first 64 bits of MurmurHash3 x64 128 of `data[:n]`; `seed` below 2^32."""
    h1 = h2 = seed
    blocks = n >> 4
    for block in range(blocks):
        k1 = _load(data, 16 * block, 8)
        k2 = _load(data, 16 * block + 8, 8)
        h1 ^= _rotate(k1 * _C1, 31) * _C2
        h1 = (_rotate(h1, 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
        h2 ^= _rotate(k2 * _C2, 33) * _C1
        h2 = (_rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
    tail, left = 16 * blocks, n & 15
    if left > 8:
        h2 ^= _rotate(_load(data, tail + 8, left - 8) * _C2, 33) * _C1
    if left > 0:
        h1 ^= _rotate(_load(data, tail, min(left, 8)) * _C1, 31) * _C2
    h1 ^= np.uint64(n)
    h2 ^= np.uint64(n)
    h1 += h2
    h2 += h1
    return mix(h1) + mix(h2)


@njit(nogil=True, cache=True)
def put_utf8(point: int, data: NDArray[np.uint8], n: int) -> int:
    """Write the UTF-8 of one code point at `data[n:]`; returns the place after it."""
    if point < 0x80:
        data[n] = point
        return n + 1
    if point < 0x800:
        data[n] = 0xC0 | (point >> 6)
    else:
        if point < 0x10000:
            data[n] = 0xE0 | (point >> 12)
        else:
            data[n] = 0xF0 | (point >> 18)
            data[n + 1] = 0x80 | ((point >> 12) & 0x3F)
            n += 1
        data[n + 1] = 0x80 | ((point >> 6) & 0x3F)
        n += 1
    data[n + 1] = 0x80 | (point & 0x3F)
    return n + 2


@njit(nogil=True, cache=True)
def hash_words(
    points: NDArray[np.uint32], ends: NDArray[np.int64], traits: NDArray[np.uint32], seed: np.uint64
) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Hash many words: word i is `points[ends[i-1]:ends[i]]`, folded. Returns hashes (n,) and kinds (n,).

    The words are casefolded first. A kind is the union of its characters' `1 << class`, with bit 7 where one
    of them is a letter or a number. For building tables; linear.
    """
    n, start = len(ends), 0
    hashes, kinds = np.empty(n, np.uint64), np.empty(n, np.uint8)
    longest = 0
    for i in range(n):
        longest = max(longest, ends[i] - start)
        start = ends[i]
    data, start = np.empty(4 * longest + 4, np.uint8), 0
    for i in range(n):
        hashes[i], kinds[i] = hash_word(points, start, ends[i], traits, seed, data)
        start = ends[i]
    return hashes, kinds


@njit(nogil=True, cache=True)
def hash_word(
    points: NDArray[np.uint32],
    start: int,
    end: int,
    traits: NDArray[np.uint32],
    seed: np.uint64,
    data: NDArray[np.uint8],
) -> tuple[np.uint64, int]:
    """Hash and kind (see `hash_words`) of the word `points[start:end]`; `data` has room for 4 bytes a point."""
    n, kind = 0, 0
    for i in range(start, end):
        trait = traits[points[i]]
        kind |= (1 << ((trait >> np.uint32(24)) & np.uint32(7))) | ((trait >> np.uint32(20)) & np.uint32(0x80))
        n = put_utf8(np.int64(trait & _CASEFOLD), data, n)
    if kind & 0x80 == 0:
        return np.uint64(0), kind
    return murmur(data, n, seed), kind
