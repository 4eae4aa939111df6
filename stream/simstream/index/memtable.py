"""Keeps the newest entries unsorted until they are sealed; every query scans them."""

from __future__ import annotations

import numpy as np

from simstream.index.answers import NO_ORDER, SearchPart
from simstream.index.fresh_entries import FreshEntries
from simstream.index.keys import frozen
from simstream.index.packed import ScannedColumn


class Memtable:
    """At most `limit` entries in the order in which they came.

    Memory: 20 + 8 S bytes for each of `limit`, filled or not.
    """

    def __init__(self, limit: int, sketch_words: int, distance: int) -> None:
        self.limit = limit
        self._distance = distance
        self._columns = FreshEntries(
            np.empty(limit, np.uint64),
            np.empty((limit, sketch_words), np.uint64),
            np.empty(limit, np.uint32),
            np.empty(limit, np.int64),
        )
        self._read_only = FreshEntries(*(frozen(column, column.dtype) for column in self._columns.columns))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def entries(self) -> FreshEntries:
        """All columns, as read-only views that last until the memtable changes."""
        return FreshEntries(*(column[: self._count] for column in self._read_only.columns))

    def nbytes(self) -> int:
        """Return the bytes of the memtable, filled or not."""
        return sum(column.nbytes for column in self._columns.columns)

    def append(self, entries: FreshEntries) -> None:
        """Append entries. There must be room for them."""
        end = self._count + len(entries.rows)
        for column, more in zip(self._columns.columns, entries.columns, strict=True):
            column[self._count : end] = more
        self._count = end

    def search(self, draw: int) -> SearchPart:
        """Return it as a part of the index that is searched by this draw, until the memtable changes."""
        entries = self.entries
        column = ScannedColumn(entries.draw(draw), self._distance)
        return SearchPart(draw, NO_ORDER, entries.rows, entries.buckets, entries.sketches, column)

    def about(self, draw: int, fingerprint: int, distance: int, most: int) -> FreshEntries | None:
        """See `crowds.CrowdPart.about`."""
        near = self.entries.are_near(draw, fingerprint, distance)
        return self.entries.where(near) if np.count_nonzero(near) <= most else None

    def clear(self) -> None:
        """Empty it."""
        self._count = 0
