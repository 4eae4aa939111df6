"""Keeps the newest entries unsorted until they are sealed; every query scans them."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from simstream.index.answers import NO_ORDER, HitBuffers, SearchPart
from simstream.index.fresh_entries import FreshEntries
from simstream.index.keys import frozen
from simstream.kernels.index.hamming import scan
from simstream.model import U64


class Memtable:
    """At most `limit` entries in the order in which they came.

    `draw` is the draw by which `find` searches; `searches` makes views for the others.
    Memory: 20 + 8 S bytes for each of `limit`, filled or not.
    """

    draw = 0
    order = NO_ORDER

    def __init__(self, limit: int, sketch_words: int, distance: int) -> None:
        self.limit = limit
        self._distance = distance
        self._columns = FreshEntries(
            np.empty(limit, np.uint64),
            np.empty((limit, sketch_words), np.uint64),
            np.empty(limit, np.uint32),
            np.empty(limit, np.int64),
        )
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> NDArray[np.uint32]:
        """The rows (n,); read-only."""
        return frozen(self._columns.rows[: self._count], np.uint32)

    @property
    def buckets(self) -> NDArray[np.int64]:
        """The buckets (n,); read-only."""
        return frozen(self._columns.buckets[: self._count], np.int64)

    @property
    def sketches(self) -> U64:
        """The sketches (n, S); read-only."""
        return frozen(self._columns.sketches[: self._count], np.uint64)

    @property
    def entries(self) -> FreshEntries:
        """All columns, as views that last until the memtable changes."""
        return FreshEntries(*(column[: self._count] for column in self._columns.columns))

    def nbytes(self) -> int:
        """Return the bytes of the memtable, filled or not."""
        return sum(column.nbytes for column in self._columns.columns)

    def append(self, entries: FreshEntries) -> None:
        """Append entries. There must be room for them."""
        end = self._count + len(entries.rows)
        for column, more in zip(self._columns.columns, entries.columns, strict=True):
            column[self._count : end] = more
        self._count = end

    def find(self, queries: U64, first: int, hits: HitBuffers) -> tuple[int, int]:
        """See `SearchPart.find`; each of equal fingerprints is its own run."""
        values = self.entries.draw(self.draw)
        following, count = scan(queries, first, self._distance, values, hits.places, hits.tags)
        np.add(hits.places[:count], np.uint64(1), out=hits.ends[:count])
        return following, count

    def searches(self, further: int) -> list[SearchPart]:
        """Return a part of the index for each of 1 + `further` draws, until the memtable changes."""
        views: list[SearchPart] = [self]
        for draw in range(1, further + 1):
            view = copy(self)
            view.draw = draw
            views.append(view)
        return views

    def about(self, draw: int, fingerprint: int, distance: int, most: int) -> FreshEntries | None:
        """See `crowds.CrowdPart.about`."""
        near = self.entries.are_near(draw, fingerprint, distance)
        return self.entries.where(near) if np.count_nonzero(near) <= most else None

    def clear(self) -> None:
        """Empty it."""
        self._count = 0
