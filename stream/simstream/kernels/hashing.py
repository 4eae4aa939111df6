"""Hashes inside kernels: MurmurHash3 x64 of words, and a mixer of 64 bits.

MurmurHash3 is Austin Appleby's (public domain). The hash of a word is the first half of its x64 128-bit form, the
same number as `mmh3.hash64(word, seed, x64arch=True, signed=False)[0]`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.jit import helper, inlined, lean_helper, lean_kernel

_C1: Final = np.uint64(0x87C37B91114253D5)
_C2: Final = np.uint64(0x4CF5AD432745937F)
_MIX1: Final = np.uint64(0xFF51AFD7ED558CCD)
_MIX2: Final = np.uint64(0xC4CEB9FE1A85EC53)
PAIR: Final = np.uint64(0x9E3779B97F4A7C15)
CASEFOLD: Final = np.uint32(0x1FFFFF)
_HAN_FIRST, _HAN_LAST = np.uint64(0x4E00), np.uint64(0x9FFF)  # three bytes each, and each its own casefold
_HAN_KIND, _ASCII_LETTER, _ASCII_DIGIT = 0b10000010, 0b10000100, 0b10001000  # kinds of words, see `hash_words`


@inlined
def mix(x: np.uint64) -> np.uint64:
    """Return a bijection of 64 bits in which every input bit flips about half of the output bits."""
    x ^= x >> np.uint64(33)
    x *= _MIX1
    x ^= x >> np.uint64(33)
    x *= _MIX2
    return x ^ (x >> np.uint64(33))


@inlined
def pair(first: np.uint64, second: np.uint64) -> np.uint64:
    """Return the hash of two words in this order, from their hashes."""
    return mix((first * PAIR) ^ second)


@inlined
def place(value: np.uint64, secret: Secret) -> np.uint64:
    """Return a hash's place in a table. Its low bits are evenly spread, whatever words a stranger chooses.

    It is a bijection of 64 bits, so equal places mean equal hashes. The secret odd factor comes before the mixer.
    Without it, known differences pass the mixer's two products and leave the low bits unchanged.
    """
    return mix((value ^ secret.first) * (secret.second | np.uint64(1)))


def unplace(places: NDArray[np.uint64], secret: Secret) -> NDArray[np.uint64]:
    """Return the values (n,) whose places these are: `place` is a bijection."""
    values = places
    for factor in (_MIX2, _MIX1, secret.second | np.uint64(1)):
        values = (values ^ (values >> np.uint64(33))) * np.uint64(pow(int(factor), -1, 1 << 64))
    return values ^ secret.first


@inlined
def place_pair(first: np.uint64, second: np.uint64, secret: Secret) -> np.uint64:
    """Return the place of 128 bits in a table, evenly spread even if strangers choose every bit."""
    return place(place(first, secret) ^ second, secret)


@helper
def place_bytes(data: NDArray[np.uint8], start: int, n: int, secret: Secret) -> np.uint64:
    """Return the place of `data[start:start + n]` in a table, evenly spread even if strangers choose every byte."""
    value = np.uint64(n)
    for at in range(0, n, 8):
        value = place(value ^ _load(data, start + at, min(8, n - at)), secret)
    return value


@inlined
def _rotate(x: np.uint64, by: int) -> np.uint64:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@inlined
def _load(data: NDArray[np.uint8], start: int, n: int) -> np.uint64:
    x = np.uint64(0)
    for i in range(n):
        x |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return x


@lean_helper
def murmur(data: NDArray[np.uint8], n: int, seed: np.uint64) -> np.uint64:
    """Return the first 64 bits of MurmurHash3 x64 128 of `data[:n]`; `seed` is below 2^32."""
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
    return _finish(h1, h2, n)


@inlined
def _utf8_of(point: np.uint32) -> tuple[np.uint64, int]:
    """Return the UTF-8 of a code point as a little-endian number, and how many bytes it has."""
    x = np.uint64(point)
    low, shift = np.uint64(0x3F), np.uint64(6)
    if point < 0x80:
        return x, 1
    if point < 0x800:
        return (x >> shift) | np.uint64(0xC0) | (((x & low) | np.uint64(0x80)) << np.uint64(8)), 2
    middle = ((x >> shift) & low) | np.uint64(0x80)
    last = (x & low) | np.uint64(0x80)
    if point < 0x10000:
        head = (x >> np.uint64(12)) | np.uint64(0xE0)
        return head | (middle << np.uint64(8)) | (last << np.uint64(16)), 3
    head = (x >> np.uint64(18)) | np.uint64(0xF0)
    second = ((x >> np.uint64(12)) & low) | np.uint64(0x80)
    return head | (second << np.uint64(8)) | (middle << np.uint64(16)) | (last << np.uint64(24)), 4


@inlined
def _finish(h1: np.uint64, h2: np.uint64, n: int) -> np.uint64:
    h1 ^= np.uint64(n)
    h2 ^= np.uint64(n)
    h1 += h2
    return mix(h1) + mix(h1 + h2)


@lean_helper
def _murmur_long(
    points: NDArray[np.uint32],
    start: int,
    end: int,
    traits: NDArray[np.uint32],
    seed: np.uint64,
    data: NDArray[np.uint8],
) -> np.uint64:
    """Do what `hash_word` does for words of any length, through their bytes."""
    n = 0
    for i in range(start, end):
        encoded, size = _utf8_of(traits[points[i]] & CASEFOLD)
        for _ in range(size):
            data[n] = np.uint8(encoded & np.uint64(0xFF))
            encoded >>= np.uint64(8)
            n += 1
    return murmur(data, n, seed)


@inlined
def _kind_of(trait: np.uint32) -> int:
    """Return the kind (see `hash_words`) of a word of this one character."""
    return int((1 << ((trait >> np.uint32(24)) & np.uint32(7))) | ((trait >> np.uint32(20)) & np.uint32(0x80)))


@inlined
def _pack(
    points: NDArray[np.uint32], start: int, end: int, traits: NDArray[np.uint32]
) -> tuple[np.uint64, np.uint64, int, int]:
    """Return the first 16 bytes of a word as two little-endian numbers, how many bytes it has, and its kind."""
    low, high, n, kind = np.uint64(0), np.uint64(0), 0, 0
    for i in range(start, end):
        trait = traits[points[np.uint64(i)]]
        kind |= _kind_of(trait)
        encoded, size = _utf8_of(trait & CASEFOLD)
        if n < 8:
            low |= encoded << np.uint64(8 * n)
            if n > 4:
                high |= encoded >> np.uint64(64 - 8 * n)
        elif n < 16:
            high |= encoded << np.uint64(8 * n - 64)
        n += size
    return low, high, n, kind & ~1


@inlined
def _lower_ascii(x: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return eight ASCII bytes in lower case, the top bit of each byte that is a letter, and of each digit."""
    # A sum reaches the top bit if the byte is not below the limit. No sum carries into the next byte.
    top = np.uint64(0x8080808080808080)
    upper = (x + np.uint64(0x3F3F3F3F3F3F3F3F)) & ~(x + np.uint64(0x2525252525252525)) & top  # A to Z
    x |= upper >> np.uint64(2)
    letters = (x + np.uint64(0x1F1F1F1F1F1F1F1F)) & ~(x + np.uint64(0x0505050505050505)) & top  # a to z
    digits = (x + np.uint64(0x5050505050505050)) & ~(x + np.uint64(0x4646464646464646)) & top  # 0 to 9
    return x, letters, digits


@inlined
def _pack_ascii(points: NDArray[np.uint32], start: int, end: int) -> tuple[np.uint64, np.uint64, int]:
    """Return the bytes of an ASCII word of at most 15 bytes as two little-endian numbers, and its kind; -1 for
    another word."""
    low, high, seen, middle = np.uint64(0), np.uint64(0), np.uint64(0), min(start + 8, end)
    for i in range(end - 1, middle - 1, -1):
        point = np.uint64(points[np.uint64(i)])
        seen, high = seen | point, (high << np.uint64(8)) | point
    for i in range(middle - 1, start - 1, -1):
        point = np.uint64(points[np.uint64(i)])
        seen, low = seen | point, (low << np.uint64(8)) | point
    low, letters, digits = _lower_ascii(low)
    high, more_letters, more_digits = _lower_ascii(high)
    kind = (_ASCII_LETTER if letters | more_letters else 0) | (_ASCII_DIGIT if digits | more_digits else 0)
    return low, high, kind if seen < 128 else -1


@inlined
def _pack_han(points: NDArray[np.uint32], start: int, end: int) -> tuple[np.uint64, np.uint64, int]:
    """Do what `_pack_ascii` does for up to five Han characters of the range in which each is its own casefold."""
    low, high, pure = np.uint64(0), np.uint64(0), True
    for i in range(end - 1, start - 1, -1):
        point = np.uint64(points[np.uint64(i)])
        pure &= bool(point >= _HAN_FIRST) & bool(point <= _HAN_LAST)
        last = (point & np.uint64(0x3F)) << np.uint64(16)
        middle = ((point >> np.uint64(6)) & np.uint64(0x3F)) << np.uint64(8)
        high = (high << np.uint64(24)) | (low >> np.uint64(40))
        low = (low << np.uint64(24)) | last | middle | (point >> np.uint64(12)) | np.uint64(0x8080E0)
    return low, high, _HAN_KIND if pure else -1


@inlined
def hash_word(
    points: NDArray[np.uint32],
    start: int,
    end: int,
    traits: NDArray[np.uint32],
    seed: np.uint64,
    data: NDArray[np.uint8],
) -> tuple[np.uint64, int]:
    """Return hash and kind (see `hash_words`) of the word `points[start:end]`; hash 0 without a letter or number.

    `data` has room for 4 bytes a code point. Nearly all words have up to 15 bytes; these never leave the registers.
    """
    low, high, n, kind, length = np.uint64(0), np.uint64(0), 0, -1, end - start
    if points[np.uint64(start)] < 128:
        if length <= 15:
            low, high, kind = _pack_ascii(points, start, end)
            n = length
    elif length <= 5:
        low, high, kind = _pack_han(points, start, end)
        n = 3 * length
    if kind < 0:
        low, high, n, kind = _pack(points, start, end, traits)
    if kind & 0x80 == 0:
        return np.uint64(0), kind
    if n > 15:
        return _murmur_long(points, start, end, traits, seed, data), kind
    h1, h2 = seed, seed
    if n > 8:
        h2 ^= _rotate(high * _C2, 33) * _C1
    h1 ^= _rotate(low * _C1, 31) * _C2
    return _finish(h1, h2, n), kind


def hash_words(
    points: NDArray[np.uint32], ends: NDArray[np.int64], traits: NDArray[np.uint32], seed: np.uint64
) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Hash many words: word i is `points[ends[i-1]:ends[i]]`, folded. Returns hashes (n,) and kinds (n,).

    It casefolds the words first. A kind is the union of its characters' `1 << class`, without bit 0. Bit 7 says
    that one of them is a letter or a number. For building tables. Cost: linear.
    """
    hashes, kinds = np.empty(len(ends), np.uint64), np.empty(len(ends), np.uint8)
    longest = int(np.diff(ends, prepend=0).max(initial=0))
    _hash_words(points, ends, traits, seed, np.empty(4 * longest + 4, np.uint8), hashes, kinds)
    return hashes, kinds


@lean_kernel
def _hash_words(
    points: NDArray[np.uint32],
    ends: NDArray[np.int64],
    traits: NDArray[np.uint32],
    seed: np.uint64,
    data: NDArray[np.uint8],
    hashes: NDArray[np.uint64],
    kinds: NDArray[np.uint8],
) -> None:
    start = 0
    for i in range(len(ends)):
        hashes[i], kinds[i] = hash_word(points, start, ends[i], traits, seed, data)
        start = ends[i]
