"""The memtable: the newest entries, unsorted, scanned by every query until they are sealed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.kernels.hamming import scan
from stream.kernels.intern import MEMTABLE
from stream.model import U64


class Memtable:
    """At most `limit` entries in the order they came; `counters` is that of `Entries` and says how many.

    An entry that was released and whose number went to another key may lie in it twice; only the place that
    `home` names counts.
    """

    tag = -1
    """As the `tag` of `confirm`: an entry's home is its own place."""

    def __init__(self, limit: int, distance: int, counters: NDArray[np.int64]) -> None:
        self.values: U64 = np.empty(limit, np.uint64)
        self.entries: NDArray[np.int32] = np.empty(limit, np.int32)
        self.starts: NDArray[np.uint32] = np.arange(limit + 1, dtype=np.uint32)
        self._distance = distance
        self._counters = counters

    def __len__(self) -> int:
        return int(self._counters[MEMTABLE])

    def nbytes(self) -> int:
        """Bytes, whether filled or not."""
        return self.values.nbytes + self.entries.nbytes + self.starts.nbytes

    def find(self, queries: U64, first: int, places: U64, tags: U64) -> tuple[int, int]:
        """Places within the distance of `queries[first:]`; returns (next query, hits)."""
        following, hits = scan(queries, first, self._distance, self.values[: len(self)], places, tags)
        return following, hits

    def clear(self) -> None:
        """Empty it."""
        self._counters[MEMTABLE] = 0
