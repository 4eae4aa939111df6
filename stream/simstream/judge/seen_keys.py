"""Remembers in a few bits a page which keys have come before, for a shard that takes pages in without answers."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.judge.batch import PageBatch
from simstream.model import U64

BITS_A_PAGE: Final = 16
"""Bits of memory for each expected page: then at most one new key in 70 is taken for an earlier one."""
MIN_BITS: Final = 16
MAX_BITS: Final = 30
"""The logarithms of the fewest and of the most bits; the most are 128 MB."""


class SeenKeys:
    """A set of keys in which nothing is missing, but which also has some keys that have not come.

    A key is fingerprint, sketch, length and bucket, as in `PageBatch.groups`. Memory: two bytes for each of the
    expected pages, 128 MB at most; if more come, more new keys are taken for earlier ones.
    """

    def __init__(self, pages: int) -> None:
        bits = max(MIN_BITS, min(MAX_BITS, (BITS_A_PAGE * pages - 1).bit_length()))
        self._bits = np.zeros(1 << (bits - 3), np.uint8)
        self._shift = np.uint64(64 - bits + 3)
        self._rng = np.random.default_rng()  # seeded by the system, so that strangers cannot choose equal hashes
        self._factors: U64 = np.empty(0, np.uint64)

    def may_have(self, batch: PageBatch) -> NDArray[np.bool_]:
        """Return for each page (n,) whether its key may have come before this batch, and take in all keys of it.

        Cost: some 100 ns a page.
        """
        keys = batch.firsts
        hashes, known = self._hashes(batch, keys), np.ones(len(keys), np.bool_)
        for hashed in (hashes, hashes * self._factors[1]):
            place, bit = hashed >> self._shift, np.uint8(1) << (hashed & np.uint64(7)).astype(np.uint8)
            known &= (self._bits[place] & bit) != 0
            np.bitwise_or.at(self._bits, place, bit)
        found: NDArray[np.bool_] = known[np.array(batch.groups, np.int64)]
        return found

    def _hashes(self, batch: PageBatch, pages: NDArray[np.int64]) -> U64:
        """Return a hash of 64 bits for the key of each of these pages."""
        columns = batch.fingerprints, batch.short, batch.buckets.view(np.uint64), *batch.sketches.T
        if len(self._factors) != len(columns):
            self._factors = self._rng.integers(0, 2**64, len(columns), np.uint64) | np.uint64(1)
        hashes: U64 = np.zeros(len(pages), np.uint64)
        for column, factor in zip(columns, self._factors, strict=True):
            hashes ^= column[pages].astype(np.uint64)
            hashes *= factor
            hashes ^= hashes >> np.uint64(32)
        hashes ^= hashes >> np.uint64(29)
        return hashes
