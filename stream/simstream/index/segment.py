"""Builds and reads sealed segments: the sorted entries of one bucket, with the tables that find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simstream.errors import SettingsError, StateDamaged
from simstream.files import SnapshotPart
from simstream.files.failures import START_OVER
from simstream.index import packed
from simstream.index.answers import HitBuffers
from simstream.index.fresh_entries import FreshEntries
from simstream.index.keys import frozen
from simstream.index.packed import Arrays, Pause, SegmentTables, TableSize
from simstream.index.plan import Plan, choose
from simstream.model import U64

KIND = "segment"
NAME = "segment-"


class EntryRun:
    """Entries in the order of fingerprints: fingerprints (n,), rows (n,), sketches (n, S); immutable."""

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
    unmerged: bool = False

    @classmethod
    def build(
        cls, number: int, bucket: int, plan: Plan | None, distance: int, run: EntryRun, pause: Pause, unmerged: bool
    ) -> Segment:
        """Build from a run of one bucket. With `plan` None take the cheapest plan for the number of entries."""
        chosen = plan if plan is not None else choose(distance, len(run))
        tables = packed.build(run.fingerprints, chosen, distance, pause)
        return cls(number, bucket, chosen, distance, run.rows, run.sketches, tables, unmerged)

    @property
    def name(self) -> str:
        """`segment-N`."""
        return f"{NAME}{self.number}"

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def buckets(self) -> NDArray[np.int64]:
        """The one bucket of all entries."""
        return frozen(np.array([self.bucket]), np.int64)

    def find(self, queries: U64, first: int, hits: HitBuffers) -> tuple[int, int]:
        """See `SearchPart.find`."""
        return self.tables.find(queries, first, hits)

    def about(self, fingerprint: int, distance: int, most: int) -> FreshEntries | None:
        """See `crowds.CrowdPart.about`."""
        found = self.tables.about(fingerprint, distance, most)
        if found is None:
            return None
        places, values = found
        buckets = np.full(len(places), self.bucket, np.int64)
        return FreshEntries(values, self.sketches[places], self.rows[places], buckets)

    def run(self) -> EntryRun:
        """Return all entries, with fingerprints of 8 bytes each."""
        return EntryRun(self.tables.column(), self.rows, self.sketches)

    def nbytes(self) -> dict[str, int]:
        """Return the bytes of tables, sketches and rows."""
        tables = sum(array.nbytes for array in self.tables.arrays().values())
        return {"tables": tables, "sketches": self.sketches.nbytes, "rows": self.rows.nbytes}

    def by_table(self) -> dict[str, TableSize]:
        """Return the size of each of its tables."""
        return self.tables.by_table()

    def part(self) -> SnapshotPart:
        """Return it as a part of a snapshot."""
        facts = {
            "count": len(self),
            "bucket": self.bucket,
            "distance": self.distance,
            "sketch_words": self.sketches.shape[1],
            "plan": {
                "tables": self.plan.tables,
                "prefix_bits": list(self.plan.prefix_bits),
                "flips": self.plan.flips,
            },
        }
        return SnapshotPart(
            self.name, KIND, facts, {"rows": self.rows, "sketches": self.sketches, **self.tables.arrays()}
        )

    @classmethod
    def of_part(cls, part: SnapshotPart, unmerged: bool = False) -> Segment:
        """Make a segment from what `part` returned, or from a mapped file.

        Checks shapes and directories, but no order. Raises StateDamaged.
        """
        facts = part.facts
        try:
            number, count, bucket = int(part.name.removeprefix(NAME)), _int(facts, "count"), _int(facts, "bucket")
            distance, plan = _int(facts, "distance"), _plan(facts["plan"])
            plan.flips_for(distance)
            words = _int(facts, "sketch_words")
        except (KeyError, ValueError, TypeError, SettingsError) as error:
            raise StateDamaged(f"{part.name} has missing or wrong facts ({error})", START_OVER) from error
        rows, sketches = part.arrays.get("rows"), part.arrays.get("sketches")
        shaped = (
            rows is not None
            and sketches is not None
            and packed.is_like(rows, np.uint32, (count,))
            and packed.is_like(sketches, np.uint64, (count, words))
            and packed.fits(part.arrays, plan, distance, count)
        )
        if rows is None or sketches is None or not shaped:
            raise StateDamaged(f"the arrays of {part.name} do not fit its facts or one another", START_OVER)
        tables = _tables(part.arrays, plan, distance)
        own = frozen(rows, np.uint32), frozen(sketches, np.uint64)
        return cls(number, bucket, plan, distance, *own, tables, unmerged)

    def check(self) -> None:
        """Check that fingerprints are in order, and that every table and directory agrees with table 0; builds them
        again.

        Raises StateDamaged.
        """
        column = self.tables.column()
        if not bool((column[1:] >= column[:-1]).all()):
            raise StateDamaged(f"the fingerprints of {self.name} are not in order", START_OVER)
        again = packed.build(column, self.plan, self.distance, lambda: None).arrays()
        for name, array in self.tables.arrays().items():
            if not np.array_equal(array, again[name]):
                raise StateDamaged(f"the tables of {self.name} differ from its table 0 (in `{name}`)", START_OVER)


def _tables(arrays: Arrays, plan: Plan, distance: int) -> SegmentTables:
    if plan.tables:
        return packed.PackedTables(arrays, plan, distance)
    return packed.ScannedColumn(arrays["fingerprints"], distance)


def _int(facts: Mapping[str, Any], name: str) -> int:
    value = facts[name]
    if type(value) is not int:
        raise TypeError(f"{name} is {value!r}")
    return value


def _plan(fact: Any) -> Plan:
    bits = fact["prefix_bits"]
    if not all(type(b) is int for b in bits):
        raise TypeError(f"prefix_bits is {bits!r}")
    return Plan(_int(fact, "tables"), tuple(bits), _int(fact, "flips"))
