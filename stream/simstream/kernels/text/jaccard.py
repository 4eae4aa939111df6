"""The true J of two texts: character shingles as sorted sets of hashes, and their intersection.

A shingle is five successive word characters of the folded text. The sets lie one after another: set i is
`values[starts[i]:starts[i + 1]]`, ascending and without repetitions.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.hashing import mix, place
from simstream.kernels.jit import inlined, kernel
from simstream.model import U64

SHINGLE: Final = 5
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)


@inlined
def _hash(points: NDArray[np.uint32], at: int, length: int) -> np.uint64:
    """Return 64 bits of a shingle. Five code points do not fit into 64 bits, so two shingles may share a hash by
    chance."""
    value = np.uint64(length)
    for i in range(length):
        value = mix((value + np.uint64(points[at + i])) * _STEP)
    return value


@kernel
def keep(points: NDArray[np.uint32], ends: NDArray[np.int64], kept: NDArray[np.bool_]) -> None:
    """Remove all other characters than word characters from n texts, in place: text i is
    `points[ends[i-1]:ends[i]]`.

    `ends` moves to the new ends. `kept` has 0x110000 places. Cost: linear.
    """
    n, start = 0, np.int64(0)
    for text in range(len(ends)):
        end = ends[text]
        for i in range(start, end):
            if kept[points[i]]:
                points[n] = points[i]
                n += 1
        start, ends[text] = end, n


@kernel
def shingle(
    points: NDArray[np.uint32], ends: NDArray[np.int64], values: U64, starts: NDArray[np.int64], secret: Secret
) -> None:
    """Write the set of shingles of each of n texts to `values`, and where each set begins to `starts` (n + 1,).

    A text of one to four characters is one shingle; an empty text has none. `values` has room for as many as there
    are points. Only sets with the same `secret` can be compared. The secret hides the order in which a text's
    shingles come: numba's sort takes quadratic time in orders that a stranger can choose. Cost: about 40 ns a
    character, mostly for sorting.
    """
    n, start = 0, np.int64(0)
    starts[0] = 0
    for text in range(len(ends)):
        length = ends[text] - start
        count = max(length - SHINGLE + 1, 1 if length > 0 else 0)
        first = n
        for i in range(count):
            values[first + i] = place(_hash(points, int(start) + i, min(length, SHINGLE)), secret)
        values[first : first + count].sort()
        for i in range(first, first + count):
            if i == first or values[i] != values[n - 1]:
                values[n] = values[i]
                n += 1
        start, starts[text + 1] = ends[text], n


@kernel
def common(
    values: U64,
    starts: NDArray[np.int64],
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Write how many values the sets a[i] and b[i] share to `out` (n,). Cost: linear in the sizes, about 1 ns a
    value."""
    for pair in range(len(a)):
        i, i_end = starts[a[pair]], starts[a[pair] + 1]
        j, j_end = starts[b[pair]], starts[b[pair] + 1]
        shared = 0
        while i < i_end and j < j_end:
            left, right = values[i], values[j]
            shared += left == right
            i += left <= right
            j += right <= left
        out[pair] = shared
