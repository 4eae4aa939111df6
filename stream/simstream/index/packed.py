"""Finds fingerprints in the tables of one segment: packed behind their prefixes, or a plain column to scan.

A directory over the prefix says where the entries under each prefix begin. If several tables find a value, the
first of them alone reports it. In a shard (`index/shard`) the first table has all entries of the shard, since the
other tables find rows and sketches through it. The other tables have the entries with a leading byte in the shard's
range. Only prefixes in this range are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.errors import SettingsError, StateDamaged
from simstream.files.failures import START_OVER
from simstream.index.keys import frozen
from simstream.index.plan import NARROW_BITS, Plan
from simstream.index.shard import WHOLE, Shard
from simstream.kernels.index.entry_numbers import keep_distinct
from simstream.kernels.index.hamming import scan
from simstream.kernels.index.packed import BITS, ROTATION, locate_packed, pack, pass_all, probe_packed, unpack
from simstream.kernels.index.permute import rotate
from simstream.memory import IN_MEMORY, ArrayRoom
from simstream.model import U64

if TYPE_CHECKING:
    from simstream.index.answers import HitBuffers  # which imports this module

MAX_PLACES = (1 << 32) - 1
"""The most entries of all tables of a segment together: a directory has 32 bits for the place of each."""
SCANNED = "scanned"
"""The name in place of a table's number: fingerprints that are scanned."""
Arrays = Mapping[str, NDArray[Any]]
Pause = Callable[[], None]
"""Called between the steps of long work. It may do other work, or raise to end this work."""


class TableBuild(NamedTuple):
    """How tables are built: by which plan, for which distance and shard, and where their arrays lie."""

    plan: Plan
    distance: int
    shard: Shard = WHOLE
    room: ArrayRoom = IN_MEMORY


class TableSize(NamedTuple):
    """The size of one table; `bytes` includes its directory."""

    entries: int
    bytes: int


class ScannedColumn:
    """Scans the plain fingerprints, 8 bytes each."""

    def __init__(self, fingerprints: U64, distance: int) -> None:
        self._values: U64 = frozen(fingerprints, np.uint64)
        self._distance = distance

    def find(self, queries: U64, first: int, hits: HitBuffers) -> tuple[int, int]:
        """Write the runs within the distance of `queries[first:]`, each once, and return (next query, number of
        runs). Each of equal fingerprints is its own run.

        It stops before the first query whose runs do not fit, with room for what is compared.
        """
        return self._scan(queries, first, self._distance, hits)

    def find_equal(self, queries: U64, first: int, hits: HitBuffers) -> tuple[int, int]:
        """Do what `find` does for distance 0."""
        return self._scan(queries, first, 0, hits)

    def _scan(self, queries: U64, first: int, distance: int, hits: HitBuffers) -> tuple[int, int]:
        following, count = scan(queries, first, distance, self._values, hits.places, hits.tags)
        np.add(hits.places[:count], np.uint64(1), out=hits.ends[:count])
        return following, count

    def about(self, fingerprint: int, distance: int, most: int) -> NDArray[np.int64] | None:
        """Return the places (m,) of all fingerprints within `distance`, which may be any; None if more than
        `most`."""
        places = np.flatnonzero(np.bitwise_count(self._values ^ np.uint64(fingerprint)) <= distance)
        return places if len(places) <= most else None

    def values(self, places: NDArray[np.int64]) -> U64:
        """Return the fingerprints at these places."""
        return self._values[places]

    def column(self, room: ArrayRoom = IN_MEMORY) -> U64:
        """Return the fingerprints, in order, without a copy."""
        return self._values

    def arrays(self) -> Arrays:
        """Return the array `fingerprints`."""
        return {"fingerprints": self._values}

    def by_table(self) -> dict[str, TableSize]:
        """Return the size of the column, under SCANNED."""
        return {SCANNED: TableSize(len(self._values), self._values.nbytes)}


class PackedTables:
    """T permuted tables: the first of all n fingerprints, the others of the distinct ones that the shard owns.

    Memory: 6 bytes an entry and table (8 if a prefix has fewer than 16 bits), and the directories.
    """

    def __init__(self, arrays: Arrays, plan: Plan, distance: int, shard: Shard) -> None:
        self.layout, self._masks, self._groups = plan.layout(distance, shard.bits)
        self._distance, self._shard = distance, shard
        self._high: NDArray[np.uint32] = frozen(arrays["high"], np.uint32)
        self._low: NDArray[np.uint16] = frozen(arrays["low"], low_type(self.layout))
        self._directory: NDArray[np.uint32] = frozen(arrays["directory"], np.uint32)
        self._first = self._directory[: 2 ** int(self.layout[0, BITS]) + 1]

    @classmethod
    def build(cls, column: U64, how: TableBuild, pause: Pause) -> PackedTables:
        """Build from a sorted column (n,). Cost: numpy's sort for each table, without the GIL, and 16 more bytes a
        fingerprint. Raises SettingsError if they are too many for the directories."""
        plan, distance, shard, room = how
        if not have_room(plan, len(column)):
            raise SettingsError(
                f"{len(column):,} fingerprints do not fit {plan.tables} tables",
                f"divide them: {MAX_PLACES // plan.tables:,} do",
            )
        layout = plan.layout(distance).tables
        distinct: U64 = room.zeros(len(column), np.uint64)
        count = keep_distinct(column, distinct)
        distinct = column if count == len(column) else frozen(distinct[:count], np.uint64)
        rotations = layout[:, ROTATION].tolist()
        owned = [int(np.count_nonzero(shard.owns(distinct, [rotation]))) for rotation in rotations[1:]]
        places = len(column) + sum(owned)
        high, low = room.zeros(places, np.uint32), room.zeros(places, low_type(layout))
        directory = room.zeros(directory_size(layout), np.uint32)
        at = where = 0
        for rotation, bits in layout[:, [ROTATION, BITS]].tolist():
            pause()
            table = column if where == 0 else _sorted(distinct, rotation, shard, room)
            end, after = at + len(table), where + 2**bits + 1
            pack(table, bits, at, high[at:end], low[at:end], directory[where:after])
            at, where = end, after
        return cls({"high": high, "low": low, "directory": directory}, plan, distance, shard)

    def find(self, queries: U64, first: int, hits: HitBuffers) -> tuple[int, int]:
        """See `ScannedColumn.find`; equal fingerprints are one run."""
        following, count = probe_packed(
            queries,
            first,
            self._distance,
            self._shard.number,
            self._shard.bits,
            self._high,
            self._low,
            self._directory,
            self.layout,
            self._masks,
            self._groups,
            hits.places,
            hits.ends,
            hits.tags,
        )
        if count:
            self._locate(hits, count)
        return following, count

    def find_equal(self, queries: U64, first: int, hits: HitBuffers) -> tuple[int, int]:
        """Do what `find` does for distance 0. Looks in table 0 alone, which has all fingerprints."""
        following = min(len(queries), first + len(hits.places))
        count = following - first
        hits.places[:count], hits.ends[:count] = queries[first:following], 0
        self._locate(hits, count)
        found = np.flatnonzero(hits.ends[:count] > hits.places[:count])
        hits.tags[: len(found)] = (first + found) << 8
        for column in (hits.places, hits.ends):
            column[: len(found)] = column[found]
        return following, len(found)

    def _locate(self, hits: HitBuffers, count: int) -> None:
        bits = int(self.layout[0, BITS])
        locate_packed(hits.places[:count], self._high, self._low, self._first, bits, hits.ends)

    def about(self, fingerprint: int, distance: int, most: int) -> NDArray[np.int64] | None:
        """See `ScannedColumn.about`. Goes over table 0."""
        bits = int(self.layout[0, BITS])
        found, ends, tags = (np.empty(most, np.uint64) for _ in range(3))
        tables = self._high, self._low, self._first, bits
        count = int(pass_all(np.uint64(fingerprint), distance, *tables, found, ends, tags))
        if count < 0:
            return None
        return found[:count].astype(np.int64)

    def values(self, places: NDArray[np.int64]) -> U64:
        """See `ScannedColumn.values`."""
        bits = int(self.layout[0, BITS])
        prefixes = np.searchsorted(self._first, places, side="right") - 1
        shift = np.uint64(32 - 8 * self._low.itemsize)
        suffixes = self._high[places].astype(np.uint64) << np.uint64(32)
        suffixes |= self._low[places].astype(np.uint64) << shift
        found: U64 = (prefixes.astype(np.uint64) << np.uint64(64 - bits)) | (suffixes >> np.uint64(bits))
        return found

    def column(self, room: ArrayRoom = IN_MEMORY) -> U64:
        """Return table 0 as fingerprints, in order; a copy of them lies in `room`. Cost: linear."""
        column: U64 = room.zeros(int(self._first[-1]), np.uint64)
        unpack(self._high, self._low, self._first, int(self.layout[0, BITS]), column)
        return frozen(column, np.uint64)

    def arrays(self) -> Arrays:
        """Return `high`, `low` and `directory`, of all tables one after another."""
        return {"high": self._high, "low": self._low, "directory": self._directory}

    def by_table(self) -> dict[str, TableSize]:
        """Return the size of each table, by its number."""
        sizes = 2 ** self.layout[:, BITS] + 1
        entries = self._directory[np.cumsum(sizes) - 1] - self._directory[np.cumsum(sizes) - sizes]
        each = self._high.itemsize + self._low.itemsize
        return {
            str(table): TableSize(number, number * each + size * self._directory.itemsize)
            for table, (number, size) in enumerate(zip(entries.tolist(), sizes.tolist(), strict=True))
        }


SegmentTables = ScannedColumn | PackedTables
"""Finds the places of a segment's sorted fingerprints (n,); immutable."""


class EqualValues:
    """Finds only values that equal a query, in tables that find near ones, too."""

    def __init__(self, tables: SegmentTables) -> None:
        self.find = tables.find_equal


def have_room(plan: Plan, entries: int) -> bool:
    """Whether the tables of a plan can have so many entries each."""
    return plan.tables * entries <= MAX_PLACES


def build(column: U64, how: TableBuild, pause: Pause) -> SegmentTables:
    """Build tables of a sorted column (n,), which must not change any more."""
    column = frozen(column, np.uint64)
    if how.plan.tables:
        return PackedTables.build(column, how, pause)
    return ScannedColumn(column, how.distance)


def check(tables: SegmentTables, plan: Plan, distance: int, name: str, shard: Shard = WHOLE) -> None:
    """Check that fingerprints are in order, and that tables and directories agree with table 0; builds them again.

    Raises StateDamaged, which names the segment.
    """
    column = tables.column()
    if not bool((column[1:] >= column[:-1]).all()):
        raise StateDamaged(f"the fingerprints of {name} are not in order", START_OVER)
    again = build(column, TableBuild(plan, distance, shard), lambda: None).arrays()
    for part, array in tables.arrays().items():
        if not np.array_equal(array, again[part]):
            raise StateDamaged(f"the tables of {name} differ from its table 0 (in `{part}`)", START_OVER)


def fits(arrays: Arrays, plan: Plan, distance: int, count: int) -> bool:
    """Whether arrays have the shapes and directories of tables of `count` fingerprints, so that lookups are safe.

    Does not check the order within tables. Cost: linear in the directories alone.
    """
    if not plan.tables:
        return is_like(arrays.get("fingerprints"), np.uint64, (count,))
    layout = plan.layout(distance).tables
    directory, high = arrays.get("directory"), arrays.get("high")
    if directory is None or high is None or not is_like(directory, np.uint32, (directory_size(layout),)):
        return False
    if not (is_like(high, np.uint32, high.shape) and is_like(arrays.get("low"), low_type(layout), high.shape)):
        return False
    at = where = 0
    for bits in layout[:, BITS].tolist():
        own = directory[where : where + 2**bits + 1]
        begin, end = int(own[0]), int(own[-1])
        fitting = end - begin == count if where == 0 else end - begin <= count
        if begin != at or not fitting or not bool((own[1:] >= own[:-1]).all()):
            return False
        at, where = end, where + 2**bits + 1
    return at == len(high)


def tables_of(arrays: Arrays, plan: Plan, distance: int, shard: Shard = WHOLE) -> SegmentTables:
    """Return the tables with these arrays, which must fit."""
    if plan.tables:
        return PackedTables(arrays, plan, distance, shard)
    return ScannedColumn(arrays["fingerprints"], distance)


def low_type(layout: NDArray[np.int64]) -> type[np.uint16] | type[np.uint32]:
    """Return the type of the low parts under a layout."""
    return np.uint16 if int(layout[:, BITS].min()) >= NARROW_BITS else np.uint32


def directory_size(layout: NDArray[np.int64]) -> int:
    """Return the number of places of all directories under a layout."""
    return sum(2**bits + 1 for bits in layout[:, BITS].tolist())


def _sorted(distinct: U64, rotation: int, shard: Shard, room: ArrayRoom) -> U64:
    """Return the rotated values that the shard owns, in order."""
    table: U64 = room.zeros(len(distinct), np.uint64)
    rotate(distinct, rotation, table)
    if shard.count > 1:
        table = table[shard.owns_rotated(table)]
    table.sort()
    return frozen(table, np.uint64)


def is_like(array: NDArray[Any] | None, dtype: Any, shape: tuple[int, ...]) -> bool:
    """Whether the value is an array of this type and shape."""
    return array is not None and array.dtype == dtype and array.shape == shape
