"""The sketch: one bit of the least hash in each of m bins, over word pairs or runs of characters.

One-permutation hashing: P. Li, A. Owen, C.-H. Zhang, 2012. One bit a bin: P. Li, A. König, "b-bit minwise hashing",
2010. Empty bins filled by hash: A. Shrivastava, "Optimal densification for fast and accurate minwise hashing",
2017. If two sets have Jaccard similarity J, their sketches agree in a of m bits with E[a] = m (1 + J) / 2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.hashing import CASEFOLD, PAIR, mix, pair
from simstream.kernels.jit import inlined, lean_helper
from simstream.kernels.text.words import LETTER_OR_NUMBER

EMPTY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_ATTEMPTS: Final = 32


def _first_attempts() -> NDArray[np.uint8]:
    """Return the bins that an empty bin tries first, (sizes, bins, attempts): `_bin` of `mix(at << 32 |
    attempt)`."""
    mixed: Any = mix.py_func  # the same operations, over an array
    attempts = np.arange(1, _ATTEMPTS + 1, dtype=np.uint64)
    values = mixed((np.arange(256, dtype=np.uint64)[:, None] << np.uint64(32)) | attempts) >> np.uint64(32)
    return np.stack([(values * np.uint64(bins) >> np.uint64(32)).astype(np.uint8) for bins in (64, 128, 192, 256)])


_ORDER: Final = _first_attempts()


@inlined
def _bin(value: np.uint64, bins: int) -> np.int64:
    """Return the bin of a hash, one of `bins`, by its upper half."""
    return np.int64(((value >> np.uint64(32)) * np.uint64(bins)) >> np.uint64(32))


@lean_helper
def sketch(
    hashes: NDArray[np.uint64], m: int, mixed: bool, scratch: NDArray[np.uint64], out: NDArray[np.uint64]
) -> None:
    """Write the sketch of a page with m words, from the hashes of its words in the order of the text.

    `out` has one bit a bin; `scratch` has room for two numbers a bit of `out`. `mixed`: see `_write_bits`. A
    page with one word is sketched from that word; a page without words gets zeros. Cost: linear in m, plus at most
    some 5 us to fill bins.
    """
    bins = 64 * len(out)
    if m == 0:
        out[:] = 0
        return
    minima = scratch[:bins]
    minima[:] = EMPTY
    if m == 1:
        value = mix(hashes[0])
        minima[_bin(value, bins)] = value
    for i in range(m - 1):
        value = pair(hashes[i], hashes[i + 1])
        at = _bin(value, bins)
        minima[at] = min(minima[at], value)
    _write_bits(mixed, scratch, out)


@lean_helper
def sketch_runs(
    points: NDArray[np.uint32],
    n: int,
    traits: NDArray[np.uint32],
    rules: tuple[int, np.uint64, bool],
    scratch: NDArray[np.uint64],
    out: NDArray[np.uint64],
) -> None:
    """Do what `sketch` does over the runs of successive letters and digits, casefolded, of `points[:n]`.

    `rules` are the characters of a run, the seed and `mixed`. It ignores all other characters. A page with fewer
    letters and digits than a run is one run; a page without any gets zeros. A run's hash is a rolling polynomial
    (R. Karp, M. Rabin, 1987), then mixed. It overwrites `points` with the letters and digits. Cost: linear in n.
    """
    bins, run = 64 * len(out), rules[0]
    salt, top = mix(rules[1] ^ PAIR), np.uint64(1)
    out[:] = 0
    minima = scratch[:bins]
    minima[:] = EMPTY
    for _ in range(run):
        top *= PAIR
    letters = _keep_letters(points, n, traits)
    value = np.uint64(0)
    for i in range(min(run - 1, letters)):
        value = value * PAIR + np.uint64(points[i])
    for i in range(run - 1, letters):
        value = value * PAIR + np.uint64(points[i])
        if i >= run:
            value -= np.uint64(points[i - run]) * top
        hashed = mix(value ^ salt)
        at = _bin(hashed, bins)
        minima[at] = min(minima[at], hashed)
    if 0 < letters < run:
        hashed = mix(value ^ salt)
        minima[_bin(hashed, bins)] = hashed
    if letters > 0:
        _write_bits(rules[2], scratch, out)


@lean_helper
def _keep_letters(points: NDArray[np.uint32], n: int, traits: NDArray[np.uint32]) -> int:
    """Casefold the letters and digits of `points[:n]`, move them to its beginning, and return how many."""
    kept = 0
    for i in range(n):
        trait = traits[points[i]]
        points[kept] = trait & CASEFOLD
        kept += (trait & LETTER_OR_NUMBER) != 0
    return kept


@lean_helper
def _write_bits(mixed: bool, scratch: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
    """Write one bit for each bin: of its minimum, or of that of the first full bin in its order.

    If `mixed`, the bit is mixed with the bin's number, so bins that share a minimum have different bits. Copied
    bits would make short pages alike by chance, since few of their bins are full. At least one bin has a minimum.
    """
    bins = 64 * len(out)
    minima, empty = scratch[:bins], scratch[bins:]
    n = 0
    for place in range(bins):
        empty[n] = place
        n += minima[place] == EMPTY
    if n == bins:  # a stranger may look for a page whose only hash this is; it falls into the last bin
        n = bins - 1
        minima[n] = EMPTY - np.uint64(1)
    for word in range(len(out)):
        bits = np.uint64(0)
        for place in range(64):
            at = 64 * word + place
            bits |= _bit(minima[at], at, mixed) << np.uint64(place)
        out[word] = bits
    for i in range(n):
        hole = int(empty[i])
        word, shift = hole >> 6, np.uint64(hole & 63)
        bit = _bit(_first_full(minima, hole, bins), hole, mixed)
        out[word] = (out[word] & ~(np.uint64(1) << shift)) | bit << shift


@inlined
def _bit(minimum: np.uint64, at: int, mixed: bool) -> np.uint64:
    """Return the bit of bin `at` from this minimum."""
    return mix(minimum ^ np.uint64(at if mixed else 0)) & np.uint64(1)


@lean_helper
def _first_full(minima: NDArray[np.uint64], at: int, bins: int) -> np.uint64:
    """Return the minimum of the first bin that is not empty, in the fixed random order of bin `at`."""
    order = _ORDER[(bins >> 6) - 1, at]
    for attempt in range(0, _ATTEMPTS, 4):
        found = minima[order[attempt + 3]]
        for earlier in (attempt + 2, attempt + 1, attempt):
            other = minima[order[earlier]]
            found = other if other != EMPTY else found
        if found != EMPTY:
            return found
    start, tried, found = np.uint64(at) << np.uint64(32), np.uint64(_ATTEMPTS), EMPTY
    while found == EMPTY:
        tried += np.uint64(1)
        found = minima[_bin(mix(start | tried), bins)]
    return found
