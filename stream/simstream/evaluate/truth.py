"""Computes the truth that recipes are compared with: J of character 5-shingles.

A text is lower-cased and reduced to its word characters (letters, digits and marks of any script; no spaces,
punctuation or underscore: Python's `[^\\W_]`). Its shingles are all runs of five such characters; a text of fewer
is one shingle. J is the number of shingles that two texts share over that of all they have; a share is over that of
one text alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import process_secret
from simstream.kernels.text.jaccard import common, keep, shingle
from simstream.model import U64
from simstream.text.unicode_tables import POINTS

_BATCH_TEXTS: Final = 512
"""The number of texts that are shingled together."""
_BATCH_PAIRS: Final = 1 << 14
"""The number of pairs that one thread takes at once."""


class ShingleSets(NamedTuple):
    """The shingle sets of n texts: set i is `values[starts[i]:starts[i + 1]]`, ascending 64-bit hashes.

    Hashes belong to this process: sets of two processes cannot be compared.
    """

    values: U64
    starts: NDArray[np.int64]  # (n + 1,)

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of shingles of each text (n,)."""
        return np.diff(self.starts)


class PairSimilarity(NamedTuple):
    """The similarities of n pairs of texts."""

    jaccard: NDArray[np.float64]  # (n,)
    of_a: NDArray[np.float64]  # (n,) share of text a that is also in text b
    of_b: NDArray[np.float64]  # (n,)


def shingle_sets(texts: Sequence[str], threads: int = 1) -> ShingleSets:
    """Return the shingle sets of n texts. Cost: about 60 ns a character on a core, 8 bytes a distinct shingle."""
    batches = [texts[at : at + _BATCH_TEXTS] for at in range(0, len(texts), _BATCH_TEXTS)]
    with ThreadPoolExecutor(threads, thread_name_prefix="shingle") as pool:
        parts = list(pool.map(_shingled, batches))
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.concatenate([np.zeros(0, np.int64), *(part.sizes() for part in parts)]), out=starts[1:])
    return ShingleSets(np.concatenate([np.zeros(0, np.uint64), *(part.values for part in parts)]), starts)


def jaccard(
    sets: ShingleSets, a: NDArray[np.integer], b: NDArray[np.integer], threads: int = 1
) -> NDArray[np.float64]:
    """Return J (n,) of the pairs of texts a[i] and b[i]; 0 for two empty texts.

    About 2 us a pair of 1,000 shingles.
    """
    return similarity(sets, a, b, threads).jaccard


def similarity(
    sets: ShingleSets, a: NDArray[np.integer], b: NDArray[np.integer], threads: int = 1
) -> PairSimilarity:
    """Return J and containment of the pairs of texts a[i] and b[i]. Releases the GIL."""
    a, b = np.ascontiguousarray(a, np.int64), np.ascontiguousarray(b, np.int64)
    shared = np.empty(len(a), np.int64)

    def count(at: int) -> None:
        here = slice(at, at + _BATCH_PAIRS)
        common(sets.values, sets.starts, a[here], b[here], shared[here])

    with ThreadPoolExecutor(threads, thread_name_prefix="jaccard") as pool:
        list(pool.map(count, range(0, len(a), _BATCH_PAIRS)))
    sizes = sets.sizes()
    both = sizes[a] + sizes[b] - shared
    of_a, of_b = shared / np.maximum(sizes[a], 1), shared / np.maximum(sizes[b], 1)
    return PairSimilarity(shared / np.maximum(both, 1), of_a, of_b)


@cache
def _word_characters() -> NDArray[np.bool_]:
    """Return whether each code point counts (0x110000,), as the running Python's `re` says."""
    kept = np.zeros(POINTS, np.bool_)
    everything = "".join(map(chr, range(POINTS)))
    kept[[ord(character) for character in re.findall(r"[^\W_]", everything)]] = True
    return kept


def _shingled(texts: Sequence[str]) -> ShingleSets:
    encoded = [text.lower().encode("utf-32-le", "surrogatepass") for text in texts]
    points = np.frombuffer(bytearray().join(encoded), np.uint32)
    ends = np.cumsum([len(part) // 4 for part in encoded], dtype=np.int64)
    keep(points, ends, _word_characters())
    values, starts = np.empty(int(ends[-1]), np.uint64), np.empty(len(texts) + 1, np.int64)
    shingle(points, ends, values, starts, process_secret())
    return ShingleSets(values[: starts[-1]].copy(), starts)
