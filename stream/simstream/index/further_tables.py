"""Finds a segment's entries by their further draws: further fingerprints, and words of the sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simstream.errors import StateDamaged
from simstream.files.failures import START_OVER
from simstream.index import packed
from simstream.index.keys import frozen
from simstream.index.packed import Arrays, Pause, SegmentTables, TableBuild, TableSize
from simstream.index.plan import Plan
from simstream.index.shard import WHOLE, Shard
from simstream.model import U64

FURTHER_TABLES: Final = ("second", "third", "fourth")
"""The names, in place of a table's number, of all tables of a further draw."""


@dataclass(frozen=True, slots=True, eq=False)
class FurtherTables:
    """Tables of one further draw, and the `order` (n,) of the segment's places by it.

    Memory: 4 bytes an entry, and its tables.
    """

    draw: int
    """Its number, from 1 on: it is this column of the sketches, counted from 1."""
    tables: SegmentTables
    order: NDArray[np.uint32]

    @classmethod
    def build(cls, draw: int, sketches: U64, how: TableBuild, pause: Pause) -> FurtherTables:
        """Build from a segment's column `sketch` (n, S). Cost: a stable sort, and 24 bytes an entry meanwhile."""
        pause()
        column = sketches[:, draw - 1]
        order = how.room.copied(np.argsort(column, kind="stable"), np.uint32)
        return cls(draw, packed.build(column[order], how, pause), frozen(order, np.uint32))

    def about(self, fingerprint: int, distance: int, most: int) -> NDArray[np.int64] | None:
        """Return the segment's places (m,), ascending; see `ScannedColumn.about`."""
        found = self.tables.about(fingerprint, distance, most)
        return None if found is None else np.sort(self.order[found].astype(np.int64))

    def size(self) -> TableSize:
        """Return the size of all its tables together, and the bytes of the order."""
        sizes = self.tables.by_table().values()
        return TableSize(sum(size.entries for size in sizes), self.order.nbytes + sum(size.bytes for size in sizes))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the tables and the order: `order_2` and so on for draw 1."""
        own = {"order": self.order, **self.tables.arrays()}
        return {f"{name}_{self.draw + 1}": array for name, array in own.items()}

    @classmethod
    def of_arrays(
        cls, draw: int, found: Arrays, plan: Plan, distance: int, count: int, shard: Shard
    ) -> FurtherTables | None:
        """Return the tables whose arrays are among these; None if they do not fit `count` entries."""
        end = f"_{draw + 1}"
        arrays = {name.removesuffix(end): array for name, array in found.items() if name.endswith(end)}
        order = arrays.get("order")
        if order is None or not packed.is_like(order, np.uint32, (count,)) or (order >= count).any():
            return None
        if not packed.fits(arrays, plan, distance, count):
            return None
        return cls(draw, packed.tables_of(arrays, plan, distance, shard), frozen(order, np.uint32))

    def check(self, sketches: U64, plan: Plan, distance: int, name: str, shard: Shard = WHOLE) -> None:
        """Check that each entry comes once, in the order of the draw; checks the tables.

        Raises StateDamaged, which names the segment.
        """
        once = np.bincount(self.order, minlength=len(sketches)) == 1
        if not once.all() or not np.array_equal(sketches[self.order, self.draw - 1], self.tables.column()):
            raise StateDamaged(f"`order_{self.draw + 1}` of {name} does not sort its draw", START_OVER)
        packed.check(self.tables, plan, distance, f"draw {self.draw} of {name}", shard)
