"""Sealed segments: distinct fingerprints in order, the run of entries of each, and the permuted tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.index.plan import Plan, choose
from stream.index.shard import Shards
from stream.kernels.hamming import scan
from stream.kernels.permute import cut_runs
from stream.model import U64


class Segment:
    """Immutable: the entries of a sorted column of fingerprints (n,), each with its entry number (n,).

    `plan` None takes the cheapest for the number of distinct fingerprints. `tag` names the segment in `home`.
    Memory: 4 n + 4 d bytes, and 8 d for each table (8 d without).
    """

    def __init__(
        self, tag: int, fingerprints: U64, entries: NDArray[np.int32], plan: Plan | None, distance: int
    ) -> None:
        self.tag = tag
        self.entries = entries
        values = np.empty(len(fingerprints), np.uint64)
        starts = np.empty(len(fingerprints) + 1, np.uint32)
        distinct = cut_runs(fingerprints, values, starts)
        self.starts = starts[: distinct + 1].copy()
        self.plan = plan if plan is not None else choose(distance, distinct)
        self._distance = distance
        self._shards = Shards(values[:distinct], self.plan, distance) if self.plan.tables else None
        self.values: U64 = self._shards.column if self._shards else values[:distinct].copy()

    def __len__(self) -> int:
        return len(self.entries)

    def nbytes(self) -> int:
        """Bytes of runs and tables."""
        own = self._shards.nbytes() if self._shards else self.values.nbytes
        return self.entries.nbytes + self.starts.nbytes + own

    def find(self, queries: U64, first: int, places: U64, tags: U64) -> tuple[int, int]:
        """Places in `values` within the distance of `queries[first:]`; returns (next query, hits).

        Each query's hits are complete and distinct; stops before the first query whose hits do not fit.
        """
        if self._shards is not None:
            return self._shards.find(queries, first, places, tags)
        following, hits = scan(queries, first, self._distance, self.values, places, tags)
        return following, hits
