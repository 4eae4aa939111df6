"""Page to fingerprint and sketch as a competent user would write it: a fast segmenter, mmh3, Counter and numpy.

It does the same job with the same weights: given the same words it gives the same bits. It leaves out what the
project does beyond that (folding, regrouping, other scripts' weights), so it has less to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import mmh3
import numpy as np
from numpy.typing import NDArray

from simstream.model import U64
from simstream.text.recipe import Recipe

Tokenize = Callable[[str], Sequence[str]]
ONE = 65536
ATTEMPTS = 2048
"""An empty bin tries this many other bins, in its own fixed order."""
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


def has_letter(word: str) -> bool:
    return word.isalnum() or any(map(str.isalnum, word))


def mix(x: U64) -> U64:
    x = (x ^ x >> np.uint64(33)) * np.uint64(0xFF51AFD7ED558CCD)
    x = (x ^ x >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ x >> np.uint64(33)


class PeerFingerprinter:
    """`table` maps words to weights in 1/65536, `other` is the weight of a word that it does not have."""

    def __init__(self, recipe: Recipe, table: Mapping[str, int], other: int) -> None:
        self.bins = recipe.sketch_bits
        self.power = recipe.tf_power
        self.table = table
        self.other = other
        attempts = np.arange(1, ATTEMPTS, dtype=np.uint64)
        self._fill = [self._bin(mix(np.uint64(at << 32) | attempts)) for at in range(self.bins)]

    def page(self, tokens: Sequence[str]) -> tuple[int, U64]:
        """Fingerprint, and sketch (bins / 64,), of one page's tokens."""
        words = list(filter(has_letter, tokens))
        counts = Counter(words)
        hashed = {word: mmh3.hash64(word, 0, True, signed=False)[0] for word in counts}
        hashes = np.fromiter(hashed.values(), np.uint64, len(hashed))
        times = np.round(ONE * np.fromiter(counts.values(), np.float64, len(counts)) ** self.power)
        get, other = self.table.get, self.other
        weights = np.array([get(word, other) for word in counts], np.int64)
        fingerprint = self._simhash(hashes, times.astype(np.int64) * weights >> 16)
        return fingerprint, self._sketch(np.array([hashed[word] for word in words], np.uint64))

    def _simhash(self, hashes: U64, weights: NDArray[np.int64]) -> int:
        bits = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        heavier = 2 * (weights @ bits) > weights.sum()
        return int(np.packbits(heavier, bitorder="little").view(np.uint64)[0])

    def _sketch(self, hashes: U64) -> U64:
        values = mix(hashes[:-1] * np.uint64(0x9E3779B97F4A7C15) ^ hashes[1:])
        minima = np.full(self.bins, EMPTY)
        np.minimum.at(minima, self._bin(values), values)
        filled = minima.copy()
        for at in np.flatnonzero(minima == EMPTY).tolist():
            found = minima[self._fill[at]]
            filled[at] = found[np.argmax(found != EMPTY)]
        return np.packbits((mix(filled) & np.uint64(1)).astype(bool), bitorder="little").view(np.uint64)

    def _bin(self, values: U64) -> NDArray[np.int64]:
        return ((values >> np.uint64(32)) * np.uint64(self.bins) >> np.uint64(32)).astype(np.int64)
