"""The sketch: one bit of the least hash in each of m bins, over a page's set of word bigrams.

One-permutation hashing: P. Li, A. Owen, C.-H. Zhang, 2012; one bit a bin: P. Li, A. König, "b-bit minwise
hashing", 2010; empty bins filled by hash: A. Shrivastava, "Optimal densification for fast and accurate minwise
hashing", 2017. Two sketches agree in a of m bits where their sets have Jaccard similarity J: E[a] = m (1 + J) / 2.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream.kernels.hashing import mix, pair

EMPTY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(inline="always")
def _bin(value: np.uint64, bins: int) -> np.int64:
    """Which of `bins` a hash falls into, by its upper half."""
    return np.int64(((value >> np.uint64(32)) * np.uint64(bins)) >> np.uint64(32))


@njit(nogil=True)
def sketch(hashes: NDArray[np.uint64], m: int, minima: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
    """Write the sketch of a page with m words, from the hashes of its words in the order of the text.

    `out` has as many bits as `minima` (scratch) has places, one a bin. A page with one word is sketched from
    that word; one without any gets zeros. Linear in m, plus at most some 10 us for filling bins.
    """
    bins = len(minima)
    out[:] = 0
    if m == 0:
        return
    minima[:] = EMPTY
    if m == 1:
        value = mix(hashes[0])
        minima[_bin(value, bins)] = value
    for i in range(m - 1):
        value = pair(hashes[i], hashes[i + 1])
        at = _bin(value, bins)
        minima[at] = min(minima[at], value)
    for place in range(bins):
        bit = mix(_filled(minima, place)) & np.uint64(1)
        out[place >> 6] |= bit << np.uint64(place & 63)


@njit(nogil=True)
def _filled(minima: NDArray[np.uint64], at: int) -> np.uint64:
    """The minimum of bin `at`, or where it is empty, of the first full bin in its own fixed random order."""
    bins, value, attempt = len(minima), minima[at], np.uint64(0)
    start = np.uint64(at) << np.uint64(32)
    while value == EMPTY:
        attempt += np.uint64(1)
        value = minima[_bin(mix(start | attempt), bins)]
    return value
