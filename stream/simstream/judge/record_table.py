"""Keeps numbered records in numpy columns, and gives free numbers again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simstream import memory
from simstream.errors import StateDamaged, StateError
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import Fact, SnapshotPart
from simstream.judge.numbers import FULL_ADVICE

FIRST_ROOM_RECORDS = 1024
MAX_RECORDS = (1 << 31) - 2
"""The most records of a table: the directory and the index have 31 bits for a row."""
NONE = 0
"""No record: number 0 is never given."""


class RecordTable:
    """Records of a few integers under numbers from 1 on; free numbers are used again.

    Each column of `layout` (name to type) is an attribute: a memoryview over the numpy array that `column` returns.
    It reads and writes plain Python integers in some 30 ns. Growth replaces both, so do not keep them. A list of
    free records runs through the first column, which is uint32. Memory: the columns, which grow by half; unused
    records are not touched.
    """

    def __init__(self, name: str, layout: Mapping[str, type]) -> None:
        self.name = name
        self._layout = dict(layout)
        self._free_column = next(iter(layout))
        self._columns: dict[str, NDArray[Any]] = {}
        self.used = 1
        """One more than the greatest number ever given."""
        self._free = NONE
        self._free_count = 0
        self._room = 0
        self._grow(FIRST_ROOM_RECORDS)

    def __getattr__(self, name: str) -> Any:  # only for type checkers: columns are set by `_grow`
        raise AttributeError(name)

    def __len__(self) -> int:
        """Return the number of records in use."""
        return self.used - 1 - self._free_count

    def column(self, name: str) -> NDArray[Any]:
        """Return a column (room,) as an array; records from `used` on mean nothing."""
        return self._columns[name]

    def new(self) -> int:
        """Return a free record's number. Its columns have old values. Raises StateError if all are in use."""
        number = self._free
        if number != NONE:
            self._free = getattr(self, self._free_column)[number]
            self._free_count -= 1
            return number
        number = self.used
        if number == self._room:
            self._make_room(1)
        self.used += 1
        return number

    def take(self, count: int) -> NDArray[np.uint32]:
        """Return the numbers of `count` free records, as `new` does."""
        out = np.empty(count, np.uint32)
        again = min(count, self._free_count)
        threads = getattr(self, self._free_column)
        for i in range(again):
            out[i] = self._free
            self._free = threads[self._free]
        self._free_count -= again
        fresh = count - again
        self._make_room(fresh)
        out[again:] = np.arange(self.used, self.used + fresh, dtype=np.uint32)
        self.used += fresh
        return out

    def free(self, number: int) -> None:
        """Free a record."""
        getattr(self, self._free_column)[number] = self._free
        self._free = number
        self._free_count += 1

    def free_all(self, numbers: NDArray[np.uint32]) -> None:
        """Free records, each once. Cost: a few ns each."""
        if len(numbers):
            threads = self._columns[self._free_column]
            threads[numbers[:-1]] = numbers[1:]
            threads[numbers[-1]] = self._free
            self._free = int(numbers[0])
            self._free_count += len(numbers)

    def nbytes(self) -> int:
        """Return the bytes of the records ever used."""
        return sum(column.itemsize for column in self._columns.values()) * self.used

    def part(self) -> SnapshotPart:
        """Return the table as a part of a snapshot."""
        arrays = {name: column[: self.used] for name, column in self._columns.items()}
        facts: dict[str, Fact] = {"free": self._free, "free_count": self._free_count, "used": len(self)}
        return SnapshotPart(self.name, "table", facts, arrays, changes=True)

    def restore(self, part: SnapshotPart) -> None:
        """Take over what `part` returned. Raises StateDamaged if the columns do not fit together."""
        sizes = {array.shape for array in part.arrays.values()}
        kinds = {name: array.dtype for name, array in part.arrays.items()}
        free, count = part.facts.get("free"), part.facts.get("free_count")
        [shape] = sizes if len(sizes) == 1 else [(0,)]
        if (
            kinds != {name: np.dtype(kind) for name, kind in self._layout.items()}
            or len(shape) != 1
            or not isinstance(free, int)
            or not isinstance(count, int)
            or not (0 <= free < shape[0] and 0 <= count < shape[0])
        ):
            raise StateDamaged(f"the table {self.name} of the state does not fit together", START_OVER)
        self.used = 1
        self._grow(shape[0])
        for name, array in part.arrays.items():
            self._columns[name][: shape[0]] = array
        self.used, self._free, self._free_count = shape[0], free, count

    def free_numbers(self) -> NDArray[np.uint32]:
        """Return the free numbers, without an order. Raises StateDamaged. Cost: linear in them."""
        found, at = np.empty(self._free_count, np.uint32), self._free
        threads = getattr(self, self._free_column)
        for i in range(self._free_count):
            if not 0 < at < self.used:
                raise StateDamaged(f"the list of free records of the table {self.name} is broken", START_OVER)
            found[i] = at
            at = threads[at]
        if at != NONE:
            raise StateDamaged(f"the table {self.name} has more free records than it counts", START_OVER)
        return found

    def _make_room(self, count: int) -> None:
        """Make room for `count` records that were never used. Raises StateError if there are not so many."""
        if self.used + count > MAX_RECORDS + 1:
            raise StateError(f"all {MAX_RECORDS:,} numbers of {self.name} are in use", FULL_ADVICE)
        if self.used + count > self._room:
            self._grow(self.used + count)

    def _grow(self, least: int) -> None:
        room = max(least, FIRST_ROOM_RECORDS, min(self._room + self._room // 2, MAX_RECORDS + 1))
        for name, kind in self._layout.items():
            column = memory.zeros(room, kind)
            if self.used > 1:
                column[: self.used] = self._columns[name][: self.used]
            self._columns[name] = column
            setattr(self, name, memoryview(column.data))
        self._room = room
