"""What a stranger would send to make tables slow: words and numbers whose published hashes crowd in one place."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import Secret, make_secret
from simstream.kernels.hashing import hash_words
from simstream.model import U64
from simstream.text import unicode_tables as tables

SECRETS: list[Secret] = [make_secret(bytes([seed, *range(seed, seed + 15)])) for seed in (0, 7, 101, 240)]
SECRET = make_secret(bytes(range(16)))
LETTERS = 26
M64 = 2**64 - 1
C1, C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
A1, A2 = 0x52DCE729, 0x38495AB5


def low_bits_agree(count: int, seed: int, bits: int = 17) -> list[str]:
    """`count` words of five letters whose hashes agree in six of their lowest `bits` bits, the highest of them."""
    words: list[str] = []
    for points, hashes in _words_of_five(seed):
        crowd = hashes & np.uint64((1 << bits) - 1) < np.uint64(1 << (bits - 6))
        words += ["".join(map(chr, word)) for word in points[crowd].tolist()]
        if len(words) >= count:
            return words[:count]
    raise ValueError(f"there are only {len(words)} such words")


def any_words(count: int, seed: int = 1) -> list[str]:
    """`count` words of five random letters."""
    random = np.random.default_rng(seed)
    return ["".join(map(chr, word)) for word in (97 + random.integers(0, LETTERS, (count, 5))).tolist()]


def same_hash(count: int) -> list[bytes]:
    """`count` words of 32 bytes, no text, with one MurmurHash3 under seed 0: the second block undoes the first."""
    random = np.random.default_rng(3)
    return [_completed(*map(int, random.integers(0, 2**64, 2, dtype=np.uint64))) for _ in range(count)]


def _completed(k1: int, k2: int) -> bytes:
    """A block of 16 bytes, and the one after which MurmurHash3's state is (1, 2)."""
    h1 = _turn(k1 * C1 & M64, 31) * C2 & M64
    h1 = _turn(h1, 27) * 5 + A1 & M64
    h2 = _turn(k2 * C2 & M64, 33) * C1 & M64
    h2 = (_turn(h2, 31) + h1) * 5 + A2 & M64
    wanted1 = _turn(((1 - A1) * _inverse(5) - h2) & M64, -27)
    wanted2 = _turn(((2 - A2) * _inverse(5) - 1) & M64, -31)
    k3 = _turn((h1 ^ wanted1) * _inverse(C2) & M64, -31) * _inverse(C1) & M64
    k4 = _turn((h2 ^ wanted2) * _inverse(C1) & M64, -33) * _inverse(C2) & M64
    return struct.pack("<4Q", k1, k2, k3, k4)


def _turn(value: int, by: int) -> int:
    return (value << by % 64 | value >> -by % 64) & M64


def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 64)


def placed(value: int) -> int:
    """`place` under SECRET, over plain integers: who knows the secret can still make collisions."""
    value = (value ^ int(SECRET.first)) * (int(SECRET.second) | 1) & M64
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & M64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & M64
    return value ^ value >> 33


def crowding(taken: NDArray[np.bool_]) -> float:
    """The mean length of the run of taken places that an entry of a table stands in.

    Linear probing passes over at most one run, so a small number proves a fast table, whatever placed the entries.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], taken.astype(np.int8), [0]])))
    lengths = edges[1::2] - edges[::2]
    return float((lengths**2).sum() / max(1, lengths.sum()))


def patterns(count: int) -> dict[str, U64]:
    """Sets of `count` hashes that fool a placing which is too simple: a mask, a factor, a flip before a mixer."""
    i = np.arange(count, dtype=np.uint64)
    u = np.uint64
    flips = (u(1 << 63) | u(1 << 30)) * (i & u(1))  # passes the mixer's first half whole
    return {
        "low bits agree": i << u(24),
        "high bits agree": i | u(0xABCDEF << 40),
        "only the highest differ": (i << u(64 - count.bit_length())) | u(0x1234567),
        "a step": i * u(0x9E3779B97F4A7C15),
        "a step that the mixer's first product undoes": i * u(_inverse(0xFF51AFD7ED558CCD)),
        "a step that the mixer's second product undoes": i * u(_inverse(0xC4CEB9FE1A85EC53)),
        "pairs that pass the mixer": (i << u(24)) ^ flips,
    }


def _words_of_five(seed: int) -> Iterator[tuple[NDArray[np.uint32], U64]]:
    """Code points (n, 5) and hashes (n,) of all words of five letters, by their first letter."""
    rest = np.indices((LETTERS,) * 4).reshape(4, -1).T.astype(np.uint32) + np.uint32(97)
    ends = np.arange(5, 5 * len(rest) + 1, 5)
    for first in range(LETTERS):
        points = np.column_stack([np.full(len(rest), 97 + first, np.uint32), rest])
        yield points, hash_words(points.ravel(), ends, tables.unicode_table().traits, np.uint64(seed))[0]
