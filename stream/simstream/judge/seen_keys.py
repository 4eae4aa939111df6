"""Remembers in a few bits a page which keys have come before, for a shard that takes pages in without answers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simstream.index.keys import KeyColumns
from simstream.judge.batch import PageBatch
from simstream.model import U64

BITS_A_PAGE: Final = 16
"""The fewest bits for each expected page, up to 16 million pages: at most one new key in 70 is taken for an earlier
one."""
MIN_LOG2_BITS: Final = 16
MAX_LOG2_BITS: Final = 28
"""The logarithms of the fewest and of the most bits; the most are 32 MiB."""


class SeenKeys:
    """A Bloom filter of keys: it has every key that came, and by mistake some others.

    A key is fingerprint, sketch, length and bucket, as in `PageBatch.groups`. Memory: 2 to 4 bytes for each
    expected page, 32 MiB at most. If more pages come, more new keys are taken for earlier ones: one in eight at 60
    million pages, two in three at 300 million.
    """

    def __init__(self, pages: int) -> None:
        bits = max(MIN_LOG2_BITS, min(MAX_LOG2_BITS, (BITS_A_PAGE * pages - 1).bit_length()))
        self._bits = np.zeros(1 << (bits - 3), np.uint8)
        self._shift = np.uint64(64 - bits + 3)
        self._factors: U64 = np.empty(0, np.uint64)

    def add(self, keys: KeyColumns, buckets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Add n keys, and return for each (n,) whether it may have come before.

        Cost: some 100 ns each.
        """
        hashes = self._hashes((keys.fingerprints, keys.short, buckets.view(np.uint64), *keys.sketches.T))
        known = np.ones(len(hashes), np.bool_)
        for hashed in (hashes, hashes * self._factors[0]):
            place, bit = hashed >> self._shift, np.uint8(1) << (hashed & np.uint64(7)).astype(np.uint8)
            known &= (self._bits[place] & bit) != 0
            np.bitwise_or.at(self._bits, place, bit)
        return known

    def add_and_find_seen(self, batch: PageBatch) -> NDArray[np.bool_]:
        """Add the keys of n pages, and return for each (n,) whether its key may have come before this batch."""
        firsts = batch.firsts
        known = self.add(batch.keys(firsts), batch.buckets[firsts])
        found: NDArray[np.bool_] = known[np.array(batch.groups, np.int64)]
        return found

    def _hashes(self, columns: tuple[NDArray[Any], ...]) -> U64:
        """Return for each row of the columns (n,) a hash of 64 bits.

        Each column has two factors. With one, a change of the highest bits would pass it unchanged, and a known
        change of the next column would undo it.
        """
        if not len(self._factors):
            rng = np.random.default_rng()  # seeded by the system, so that strangers cannot choose equal hashes
            self._factors = rng.integers(0, 2**64, 2 * len(columns), np.uint64) | np.uint64(1)
        hashes: U64 = np.zeros(len(columns[0]), np.uint64)
        for column, first, second in zip(columns, self._factors[::2], self._factors[1::2], strict=True):
            mixed = column.astype(np.uint64) * first
            mixed ^= mixed >> np.uint64(32)
            hashes += mixed * second
        hashes ^= hashes >> np.uint64(32)
        hashes *= self._factors[1]
        hashes ^= hashes >> np.uint64(29)
        return hashes
