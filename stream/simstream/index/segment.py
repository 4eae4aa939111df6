"""Builds and reads sealed segments: the sorted entries of one bucket, with the tables that find them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import SettingsError, StateDamaged
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import SnapshotPart
from simstream.index import packed
from simstream.index.answers import NO_ORDER, SearchPart
from simstream.index.fresh_entries import FreshEntries
from simstream.index.further_tables import FURTHER_TABLES, FurtherTables
from simstream.index.keys import MAX_FURTHER, frozen
from simstream.index.packed import Pause, SegmentTables, TableBuild, TableSize
from simstream.index.plan import MAX_TABLES, Plan, choose, choose_divided
from simstream.index.shard import WHOLE, Shard, check_count
from simstream.memory import IN_MEMORY, ArrayRoom
from simstream.model import U64

KIND = "segment"
NAME = "segment-"


class SegmentFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of a segment, besides its arrays."""

    count: int
    bucket: int
    distance: int
    sketch_words: int
    plan: Plan
    further: int = 0
    shard: tuple[int, int] | None = None
    """Number and count; None for the whole index."""


@dataclass(frozen=True, slots=True)
class SegmentBuild:
    """How segments are built: for which distance, over how many further draws, and for which part of the tables."""

    plan: Plan | None
    """None for the cheapest plan for the number of entries."""
    distance: int
    further: int = 0
    shard: Shard = WHOLE
    room: ArrayRoom = IN_MEMORY
    """Where the arrays lie."""

    def plan_for(self, entries: int) -> Plan:
        """Return the plan for a segment of so many entries."""
        if self.plan is not None:
            return self.plan
        if self.shard.count > 1:
            return choose_divided(self.distance, entries, self.shard.count)
        return choose(self.distance, entries)

    def have_room(self, entries: int) -> bool:
        """Whether one segment can have so many entries."""
        if MAX_TABLES * entries <= packed.MAX_PLACES:
            return True  # without the time that a plan takes
        return packed.have_room(self.plan_for(entries), entries)


class EntryRun:
    """Entries in the order of their first fingerprints: these (n,), rows (n,), sketches (n, S); immutable."""

    __slots__ = ("fingerprints", "rows", "sketches")

    def __init__(self, fingerprints: U64, rows: NDArray[np.uint32], sketches: U64) -> None:
        self.fingerprints: U64 = frozen(fingerprints, np.uint64)
        self.rows: NDArray[np.uint32] = frozen(rows, np.uint32)
        self.sketches: U64 = frozen(sketches, np.uint64)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """An immutable segment: rows (n,) and sketches (n, S) in the order of fingerprints, and tables over these.

    A row is an entry's number, with the top bit set for a short page. `number` names the segment for ever.
    `unmerged` says that it came from the memtable and was not merged since. Memory: 4 + 8 S bytes an entry, and its
    tables (`index/packed`).
    """

    number: int
    bucket: int
    plan: Plan
    distance: int
    rows: NDArray[np.uint32]
    sketches: U64
    tables: SegmentTables
    further: tuple[FurtherTables, ...] = ()
    unmerged: bool = False
    shard: Shard = WHOLE
    buckets: NDArray[np.int64] = field(init=False)
    """The one bucket of all entries."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "buckets", frozen(np.array([self.bucket]), np.int64))

    @classmethod
    def build(
        cls, number: int, bucket: int, build: SegmentBuild, run: EntryRun, pause: Pause, *, unmerged: bool
    ) -> Segment:
        """Build from a run of one bucket."""
        distance, shard = build.distance, build.shard
        plan = build.plan_for(len(run))
        how = TableBuild(plan, distance, shard, build.room)
        tables = packed.build(run.fingerprints, how, pause)
        draws = range(1, build.further + 1)
        further = tuple(FurtherTables.build(draw, run.sketches, how, pause) for draw in draws)
        return cls(number, bucket, plan, distance, run.rows, run.sketches, tables, further, unmerged, shard)

    def search(self, draw: int) -> SearchPart:
        """Return it as a part of the index that is searched by this draw."""
        by = self.further[draw - 1] if draw else None
        order, tables = (NO_ORDER, self.tables) if by is None else (by.order, by.tables)
        return SearchPart(draw, order, self.rows, self.buckets, self.sketches, tables)

    @property
    def name(self) -> str:
        """`segment-N`."""
        return f"{NAME}{self.number}"

    def __len__(self) -> int:
        return len(self.rows)

    def about(self, draw: int, fingerprint: int, distance: int, most: int) -> FreshEntries | None:
        """See `crowds.CrowdPart.about`."""
        if draw == 0:
            places = self.tables.about(fingerprint, distance, most)
        else:
            places = self.further[draw - 1].about(fingerprint, distance, most)
        if places is None:
            return None
        buckets = np.full(len(places), self.bucket, np.int64)
        return FreshEntries(self.tables.values(places), self.sketches[places], self.rows[places], buckets)

    def run(self, room: ArrayRoom = IN_MEMORY) -> EntryRun:
        """Return all entries, with fingerprints of 8 bytes each, which lie in `room`."""
        return EntryRun(self.tables.column(room), self.rows, self.sketches)

    def nbytes(self) -> dict[str, int]:
        """Return the bytes of tables, sketches and rows."""
        tables = sum(array.nbytes for array in self._table_arrays().values())
        return {"tables": tables, "sketches": self.sketches.nbytes, "rows": self.rows.nbytes}

    def by_table(self) -> dict[str, TableSize]:
        """Return the size of each of its tables; those of a further draw count together, with its order."""
        sizes = self.tables.by_table()
        for by in self.further:
            sizes[FURTHER_TABLES[by.draw - 1]] = by.size()
        return sizes

    def _table_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = dict(self.tables.arrays())
        for by in self.further:
            arrays.update(by.arrays())
        return arrays

    def part(self) -> SnapshotPart:
        """Return it as a part of a snapshot."""
        shard = None if self.shard.count == 1 else (self.shard.number, self.shard.count)
        counts = self.distance, self.sketches.shape[1]
        facts = SegmentFacts(len(self), self.bucket, *counts, self.plan, len(self.further), shard)
        return SnapshotPart(
            self.name,
            KIND,
            msgspec.to_builtins(facts),
            {"rows": self.rows, "sketches": self.sketches, **self._table_arrays()},
        )

    @classmethod
    def of_part(cls, part: SnapshotPart, unmerged: bool = False) -> Segment:
        """Make a segment from what `part` returned, or from a mapped file.

        Checks shapes and directories, but no order. Raises StateDamaged.
        """
        facts = part.facts_as(SegmentFacts)
        count, distance, plan, draws = facts.count, facts.distance, facts.plan, facts.further
        try:
            number = int(part.name.removeprefix(NAME))
            plan.flips_for(distance)
            shard = WHOLE if facts.shard is None else Shard(*facts.shard)
            if not 0 <= shard.number < check_count(shard.count):
                raise ValueError(f"there is no {shard}")
        except (ValueError, SettingsError) as error:
            raise StateDamaged(f"{part.name} has wrong facts ({error})", START_OVER) from error
        rows, sketches = part.arrays.get("rows"), part.arrays.get("sketches")
        shaped = (
            rows is not None
            and sketches is not None
            and packed.is_like(rows, np.uint32, (count,))
            and packed.is_like(sketches, np.uint64, (count, facts.sketch_words))
            and packed.fits(part.arrays, plan, distance, count)
        )
        known = range(1, draws + 1) if 0 <= draws <= MAX_FURTHER else ()
        found = [FurtherTables.of_arrays(draw, part.arrays, plan, distance, count, shard) for draw in known]
        further = tuple(by for by in found if by is not None)
        if rows is None or sketches is None or not shaped or len(further) != draws or draws > facts.sketch_words:
            raise StateDamaged(f"the arrays of {part.name} do not fit its facts or one another", START_OVER)
        tables = packed.tables_of(part.arrays, plan, distance, shard)
        own = frozen(rows, np.uint32), frozen(sketches, np.uint64)
        return cls(number, facts.bucket, plan, distance, *own, tables, further, unmerged, shard)

    def check(self) -> None:
        """Check that fingerprints are in order, and that every table and directory agrees with table 0; builds them
        again.

        Raises StateDamaged.
        """
        packed.check(self.tables, self.plan, self.distance, self.name, self.shard)
        for by in self.further:
            by.check(self.sketches, self.plan, self.distance, self.name, self.shard)
