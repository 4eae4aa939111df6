"""Reads a sealed chunk of the page store: up to 65,536 records of successive pages."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import StateDamaged
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import SnapshotPart
from simstream.judge.numbers import Slot
from simstream.judge.pages import due_times as page_due
from simstream.judge.pages.chunk_source import ChunkSource, FileChunk, MemoryChunk
from simstream.judge.pages.due_times import DUE, DueReader
from simstream.judge.pages.record import PageRecord, RecordFields, RecordLayout, Records, agrees, id_agrees, page
from simstream.kernels.judge import page_records as kernels
from simstream.model import U64

SEALED: Final = "pages"
BYTES: Final = np.dtype(np.uint8)
WORD: Final = np.dtype(np.uint64)
DENSE: Final = 16
"""If more than one in this many records is wanted, it is quicker to read all."""


class ChunkFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of a sealed chunk that are known without a read."""

    number: int
    slot: Slot
    rank: int
    count: int
    sketch_words: int
    least: int
    """The least and the greatest time."""
    greatest: int
    first: int
    """The first and the last ordinal."""
    last: int
    due_check: str


class ChunkReader:
    """Reads a chunk, in memory or in a file: `records`, and `ids` one after the other."""

    def __init__(self, layout: RecordLayout, slot: Slot, rank: int, source: ChunkSource) -> None:
        self.layout = layout
        self.slot = slot
        """The chunk's slot: the upper half of its records' numbers."""
        self.rank = rank
        """The chunk's rank, which ascends with the ordinals of its records."""
        self.source = source
        self.count = 0

    def fields(self, place: int) -> RecordFields:
        """Return one record without its id. Raises StateDamaged."""
        if place >= self.count:
            raise ValueError(f"there is no record {place} in chunk {self.slot}")
        layout = self.layout
        raw = self.source.read("records", place * layout.size, layout.size)
        if self.source.verify and not agrees(raw):
            raise self.source.damaged(f"the checksum of its record {place} is wrong")
        return layout.fields(raw)

    def raw_id(self, fields: RecordFields) -> bytes:
        """Return a record's id. Raises StateDamaged."""
        found = self.source.read("ids", fields.id_start, fields.id_length)
        if self.source.verify and not id_agrees(found, fields.id_check):
            raise self.source.damaged(f"the checksum of the id of ordinal {fields.ordinal} is wrong")
        return found

    def page(self, place: int) -> PageRecord:
        """Return one record with its id. Raises StateDamaged."""
        fields = self.fields(place)
        return page(fields, self.raw_id(fields))

    def some(self, places: NDArray[np.int64]) -> Records:
        """Return the records (n,) at these places. Raises StateDamaged."""
        if len(places) and int(places.max()) >= self.count:
            raise ValueError(f"there is no record {places.max()} in chunk {self.slot}")
        if len(places) * DENSE > self.count:
            return self.records()[places]
        raw = self.source.pieces("records", self.layout.size, places)
        records: Records = raw.reshape(-1).view(self.layout.dtype)
        if self.source.verify:
            wrong = kernels.damaged(self.as_words(records))
            if wrong >= 0:
                raise self.source.damaged(f"the checksum of its record {places[wrong]} is wrong")
        return records

    def records(self) -> Records:
        """Return all records (count,). Raises StateDamaged."""
        records = self.source.array("records", self.layout.dtype)[: self.count]
        if self.source.verify and kernels.damaged(self.as_words(records)) >= 0:
            raise self.source.damaged("the checksum of one of its records is wrong")
        return records

    def as_words(self, records: Records) -> U64:
        """Return the same memory as the kernels see it."""
        words: U64 = records.view(np.uint64).reshape(len(records), self.layout.words)
        return words

    def ids(self) -> NDArray[np.uint8]:
        """Return all ids, one after the other, without verification."""
        return self.source.array("ids", BYTES)

    def colds(self) -> NDArray[np.uint32]:
        """Return the numbers (count,) of its records."""
        return np.arange(self.count, dtype=np.uint32) + np.uint32(self.slot << 16)

    def due(self, after: int, until: int) -> NDArray[np.void]:
        """Return the records that come due, as entries of `due_times.DUE`."""
        raise NotImplementedError

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return self.source.nbytes()

    def check(self) -> None:
        """Check every checksum and order. Raises StateDamaged. Cost: linear."""
        records = self.records()
        words = self.as_words(records)
        if kernels.damaged(words) >= 0 or kernels.damaged_id(words, self.ids()) >= 0:
            raise self.source.damaged("a record or an id does not agree with its checksum")
        if (np.diff(records["ordinal"]) <= 0).any():
            raise self.source.damaged("its records are not in the order of their ordinals")


class SealedChunk(ChunkReader):
    """A chunk that no longer changes."""

    def __init__(self, layout: RecordLayout, facts: ChunkFacts, source: ChunkSource) -> None:
        super().__init__(layout, facts.slot, facts.rank, source)
        self.facts = facts
        self.count = facts.count
        self.rewritten = False
        """Whether compaction made it from chunks on disk."""
        self._due = DueReader(source, facts.count, facts.due_check)

    @property
    def name(self) -> str:
        """The name of its part in a snapshot."""
        return f"pages-{self.facts.number}"

    def due(self, after: int, until: int) -> NDArray[np.void]:
        if self.facts.greatest <= after or self.facts.least > until:
            return np.empty(0, DUE)
        return self._due.between(after, until)

    def move(self, source: ChunkSource) -> None:
        """Read its arrays from `source` from now on."""
        if isinstance(self.source, FileChunk):
            self.source.close()
        self.source = source
        self._due = DueReader(source, self.count, self.facts.due_check)

    def part(self) -> SnapshotPart:
        """Return it as a part of a snapshot, without arrays if they are already on disk."""
        arrays = self.source.arrays if isinstance(self.source, MemoryChunk) else {}
        return SnapshotPart(self.name, SEALED, msgspec.to_builtins(self.facts), arrays)

    def check(self) -> None:
        super().check()
        records, facts = self.records(), self.facts
        least, greatest = int(records["time"].min()), int(records["time"].max())
        first, last = int(records["ordinal"][0]), int(records["ordinal"][-1])
        if (least, greatest, first, last) != (facts.least, facts.greatest, facts.first, facts.last):
            raise self.source.damaged("its records differ from the facts in its footer")
        expected = page_due.arrays(records)
        found = DueReader(self.source, self.count, facts.due_check).between(page_due.MIN_TIME_MS, greatest)
        if expected.check != facts.due_check or found.tobytes() != expected.due.tobytes():
            raise self.source.damaged("its times differ from its records")


class ChunkPlace(NamedTuple):
    """The place of a chunk among the others."""

    layout: RecordLayout
    number: int
    slot: Slot
    rank: int


def sealed(place: ChunkPlace, records: Records, ids: NDArray[np.uint8]) -> SealedChunk:
    """Make a chunk of at least one record, with all checks, and their ids."""
    layout, number, slot, rank = place
    due = page_due.arrays(records)
    facts = ChunkFacts(
        number=number,
        slot=slot,
        rank=rank,
        count=len(records),
        sketch_words=layout.sketch_words,
        least=int(due.due["time"][0]),
        greatest=int(due.due["time"][-1]),
        first=int(records["ordinal"][0]),
        last=int(records["ordinal"][-1]),
        due_check=due.check,
    )
    arrays: dict[str, NDArray[Any]] = {
        "records": records.view(np.uint64).reshape(len(records), layout.words),
        "ids": ids,
        "due": due.due,
        "due_checks": due.checks,
    }
    return SealedChunk(layout, facts, MemoryChunk(f"pages-{number}", arrays))


def from_part(layout: RecordLayout, part: SnapshotPart) -> SealedChunk:
    """Return the chunk of this part, without a read of its arrays. Raises StateDamaged if it cannot be a chunk."""
    source = MemoryChunk(part.name, part.arrays, verify=True)
    facts = part.facts_as(ChunkFacts)
    _check_shapes(layout, facts, source)
    chunk = SealedChunk(layout, facts, source)
    if chunk.name != part.name:
        raise source.damaged(f"it calls itself {chunk.name}")
    return chunk


def _check_shapes(layout: RecordLayout, facts: ChunkFacts, source: MemoryChunk) -> None:
    expected: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        "records": (np.dtype(np.uint64), (facts.count, layout.words)),
        "due": (DUE, (facts.count,)),
        "due_checks": (page_due.CHECK_TYPE, (-(-facts.count // page_due.BLOCK_ENTRIES),)),
    }
    found = {name: (array.dtype, array.shape) for name, array in source.arrays.items()}
    ids = found.pop("ids", None)
    if found != expected or ids is None or ids[0] != BYTES or facts.count < 1 or facts.slot >> 16:
        raise source.damaged("its arrays do not have the shapes of a chunk of pages")
    if not -(1 << 63) <= facts.least <= facts.greatest < 1 << 63:
        raise source.damaged("its facts have impossible times")


def damaged_store(what: str) -> StateDamaged:
    """Return the error for parts that do not fit together."""
    return StateDamaged(
        f"the page store of the state is damaged: {what}",
        START_OVER,
    )
