"""The permuted tables of one segment, and the shards that they consist of.

A shard is what a table holds under one leading byte; sorted, the 256 shards of a table lie one after another,
and a directory over the prefix says where each begins. Every flipped prefix is looked up in the shard that
owns its leading byte. A value that several tables find is reported by the first of them alone, which depends
on the two fingerprints only: threads or machines that each own a range of leading bytes give answers without
overlap, and need no more than to leave out the rows and prefixes of the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.index.plan import Plan
from stream.kernels.permute import fill_directory, rotate
from stream.kernels.probe import BITS, ROTATION, locate, probe
from stream.model import U64


class Shards:
    """All tables of a sorted column of d distinct fingerprints; immutable.

    Building costs a sort a table (numpy's, without the GIL); memory is 8 T d bytes and the directories.
    """

    def __init__(self, column: U64, plan: Plan, distance: int) -> None:
        self.layout, self.masks = plan.layout(distance)
        self.distance = distance
        self.size = len(column)
        tables = len(self.layout)
        self.tables = np.empty(tables * self.size, np.uint64)
        directories = []
        for t in range(tables):
            part = self.tables[t * self.size : (t + 1) * self.size]
            rotate(column, int(self.layout[t, ROTATION]), part)
            if self.layout[t, ROTATION]:
                part.sort()
            directory = np.empty(2 ** int(self.layout[t, BITS]) + 1, np.uint32)
            fill_directory(part, int(self.layout[t, BITS]), t * self.size, directory)
            directories.append(directory)
        self.directory: NDArray[np.uint32] = np.concatenate(directories)

    @property
    def column(self) -> U64:
        """The fingerprints themselves, sorted: table 0 is not rotated."""
        return self.tables[: self.size]

    def nbytes(self) -> int:
        """Bytes of tables and directories."""
        return self.tables.nbytes + self.directory.nbytes

    def find(self, queries: U64, first: int, places: U64, tags: U64) -> tuple[int, int]:
        """Places in `column` within the distance of `queries[first:]`; returns (next query, hits).

        Stops before the first query whose hits do not fit into `places` and `tags`.
        """
        following, hits = probe(
            queries,
            first,
            self.distance,
            self.tables,
            self.directory,
            self.layout,
            self.masks,
            places,
            tags,
        )
        if hits:
            own = self.directory[: 2 ** int(self.layout[0, BITS]) + 1]
            locate(places[:hits], self.column, own, int(self.layout[0, BITS]))
        return following, hits
