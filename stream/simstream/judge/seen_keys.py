"""Remembers in a few bits a page which keys have come before, for a shard that takes pages in without answers."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.judge.batch import PageBatch
from simstream.kernels.judge.key_groups import note_places
from simstream.model import U64

BITS_A_PAGE: Final = 16
"""The fewest bits for each expected page, up to 16 million pages: at most one new key in 70 is taken for an earlier
one."""
MIN_LOG2_BITS: Final = 16
MAX_LOG2_BITS: Final = 28
"""The logarithms of the fewest and of the most bits; the most are 32 MiB."""


class SeenKeys:
    """A Bloom filter of keys: it has every key that came, and by mistake some others.

    A key is fingerprint, sketch, length and bucket, as in `PageBatch.groups`, and comes as its place. Memory: 2 to
    4 bytes for each expected page, 32 MiB at most. If more pages come, more new keys are taken for earlier ones:
    one in eight at 60 million pages, four in five at 300 million.
    """

    def __init__(self, pages: int) -> None:
        bits = max(MIN_LOG2_BITS, min(MAX_LOG2_BITS, (BITS_A_PAGE * pages - 1).bit_length()))
        self._bits = np.zeros(1 << (bits - 3), np.uint8)

    def add(self, places: U64) -> NDArray[np.bool_]:
        """Add keys by their places (n,), and return for each (n,) whether it may have come before."""
        return note_places(places, self._bits)

    def add_and_find_seen(self, batch: PageBatch) -> NDArray[np.bool_]:
        """Add the keys of n pages, and return for each (n,) whether its key may have come before this batch."""
        known = self.add(batch.places[batch.firsts])
        found: NDArray[np.bool_] = known[batch.group_column]
        return found
