"""Removes many live pages at once from chains, clusters and sizes.

The next judged page sees only the state after all these pages have left. So each cluster shrinks once, not page by
page, and under `canonical` it gets its heir at the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simstream.judge.batch_changes import BatchChanges
from simstream.judge.cluster_sizes import ClusterSizes
from simstream.judge.clusters import Clusters
from simstream.judge.numbers import ClusterId, is_lone, lone_cluster
from simstream.judge.row_table import INDEXED, RowTable


class PageDepartures:
    """Removes live pages from clusters, rows and index; `BatchChanges.settle` does the rest.

    Cost: some .3 us a page. Memory: 4 bytes for each cluster that waits for its heir.
    """

    def __init__(
        self, rows: RowTable, clusters: Clusters, sizes: ClusterSizes, changes: BatchChanges, canonical_only: bool
    ) -> None:
        self._rows = rows
        self._clusters = clusters
        self._sizes = sizes
        self._changes = changes
        self._canonical_only = canonical_only
        self._waiting: list[NDArray[np.uint32]] = []
        """Clusters whose canonical page has left."""

    def leave(self, rows: NDArray[np.uint32], colds: NDArray[np.uint32]) -> None:
        """Let the live pages of these rows and records (n,) leave. Call `promote` before any comparison."""
        indexed = (self._rows.table.column("state")[rows] & INDEXED) != 0
        alone: list[ClusterId] = []
        if self._sizes.notices_every_page:
            alone = [
                self._clusters.id(lone_cluster(row)) for row in rows.tolist() if is_lone(self._clusters.of(row))
            ]
        shrunk = self._clusters.leave_many(rows)
        self._sizes.note_left_many(shrunk, alone)
        if self._canonical_only:
            self._waiting.append(np.intersect1d(shrunk.heads[shrunk.after != 0], shrunk.by_row[indexed]))
        self._changes.leave_many(rows, colds)

    def promote(self) -> None:
        """Under `canonical` let the oldest remaining page of each cluster take the canonical page's place."""
        if self._waiting:
            heirs = self._clusters.heirs(np.concatenate(self._waiting))
            self._waiting.clear()
            self._changes.promote_many(heirs[(self._rows.table.column("state")[heirs] & INDEXED) == 0])
