"""Lists all chunks, in order and by slot, with the number of live records in each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream import memory
from simstream.errors import StateError
from simstream.judge.numbers import FULL_ADVICE, RecordNumber, Slot
from simstream.judge.pages.chunk import ChunkPlace, ChunkReader, SealedChunk, damaged_store, sealed
from simstream.judge.pages.chunk_source import FileChunk, MemoryChunk, SpillFile
from simstream.judge.pages.open_chunk import OpenChunk
from simstream.judge.pages.record import RecordLayout

MAX_SLOTS: Final = 1 << 16
COUNT, LEAST, GREATEST = range(3)
"""The columns of `ChunkList.columns`."""


class ChunkList:
    """Chunks, each with a slot, a rank and a number. A slot is used again when its chunk has gone; a rank or number
    never is."""

    def __init__(self, layout: RecordLayout, capacity: int) -> None:
        self.layout = layout
        self.capacity = capacity
        self.in_order: list[ChunkReader] = []
        """The last chunks, which the last append has filled, are open."""
        self.live: NDArray[np.int64] = np.zeros(16, np.int64)
        """Live records by slot."""
        self.ranks: NDArray[np.int64] = np.zeros(16, np.int64)
        """Ranks by slot."""
        self.columns: NDArray[np.int64] = np.zeros((16, 3), np.int64)
        """By slot the records of a sealed chunk, their least and greatest time; 0 records without such a chunk."""
        self.number = 0
        """The number of the next sealed chunk."""
        self.rank = 0
        """The rank of the next open chunk."""
        self.spill: SpillFile | None = None
        """Where sealed chunks go, instead of memory."""
        self._by_slot: list[ChunkReader | None] = []
        self._free: list[Slot] = []
        self._in_memory: dict[Slot, SealedChunk] = {}
        """Sealed chunks that lie in memory, and others that have left it since `in_memory` looked last."""

    def of(self, cold: RecordNumber) -> ChunkReader:
        """Return the chunk that has a record. Raises ValueError if none has it."""
        slot = int(cold) >> 16
        chunk = self._by_slot[slot] if slot < len(self._by_slot) else None
        if chunk is None:
            raise ValueError(f"there is no record {cold}")
        return chunk

    def sealed_slots(self) -> NDArray[np.int64]:
        """Return the slots (n,) of the sealed chunks, which are the first n of `in_order`."""
        slots = np.flatnonzero(self.columns[:, COUNT])
        return slots[np.argsort(self.ranks[slots])]

    def due(self, after: int, until: int) -> list[ChunkReader]:
        """Return the chunks, in order, that may have records with `after < time <= until`."""
        found = self.columns[self.sealed_slots()]
        due = np.flatnonzero((found[:, GREATEST] > after) & (found[:, LEAST] <= until))
        return [*(self.in_order[i] for i in due.tolist()), *self.in_order[len(found) :]]

    def in_memory(self) -> Collection[SealedChunk]:
        """Return the sealed chunks that lie in memory."""
        known = self._in_memory.items()
        self._in_memory = {slot: chunk for slot, chunk in known if isinstance(chunk.source, MemoryChunk)}
        return self._in_memory.values()

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        still_open = self.in_order[int(np.count_nonzero(self.columns[:, COUNT])) :]
        tables = self.live.nbytes + self.ranks.nbytes + self.columns.nbytes
        return sum(chunk.nbytes() for chunk in (*self.in_memory(), *still_open)) + tables

    def filling(self) -> OpenChunk:
        """Return an open chunk with room."""
        last = self.in_order[-1] if self.in_order else None
        if isinstance(last, OpenChunk) and last.room:
            return last
        chunk = OpenChunk(self.layout, self.take_slot(), self.rank, self.capacity)
        self.rank += 1
        self.put_last(chunk, 0)
        return chunk

    def settle(self) -> bool:
        """Make the records of the last append final, and seal full chunks. Return whether there were any."""
        first = len(self.in_order)
        while first and isinstance(self.in_order[first - 1], OpenChunk):
            first -= 1
        number = self.number
        for i, chunk in enumerate(self.in_order[first:], first):
            if isinstance(chunk, OpenChunk):
                chunk.settle()
                if not chunk.room:
                    self._seal(i, chunk)
        return self.number > number

    def take_slot(self) -> Slot:
        """Return a free slot. Raises StateError if none is free."""
        if self._free:
            return self._free.pop()
        if len(self._by_slot) == MAX_SLOTS:
            raise StateError(f"all {MAX_SLOTS:,} chunks of pages are in use", FULL_ADVICE)
        self._by_slot.append(None)
        return Slot(len(self._by_slot) - 1)

    def put_last(self, chunk: ChunkReader, live: int) -> None:
        """Put a chunk behind all others. Raises StateDamaged if its slot is taken.

        Unless the slot comes from `take_slot`, call `find_free` after the last one.
        """
        while len(self._by_slot) <= chunk.slot:
            self._by_slot.append(None)
        if self._by_slot[chunk.slot] is not None:
            raise damaged_store(f"two chunks have the slot {chunk.slot}")
        self.in_order.append(chunk)
        self._put(chunk, live)

    def find_free(self) -> None:
        """Find the slots that no chunk has."""
        self._free = [Slot(slot) for slot, chunk in enumerate(self._by_slot) if chunk is None]

    def drop_empty(self) -> bool:
        """Drop sealed chunks without live records. Return whether there were any."""
        slots = self.sealed_slots()
        empty = np.flatnonzero(self.live[slots] == 0).tolist()
        for i in empty:
            self._drop(self.in_order[i])
        if empty:
            self.in_order = [chunk for chunk in self.in_order if self._by_slot[chunk.slot] is chunk]
        return bool(empty)

    def replace(self, which: slice, chunk: SealedChunk, live: int) -> None:
        """Put a chunk in the place of sealed ones. Its slot comes from `take_slot`."""
        for old in self.in_order[which]:
            self._drop(old)
        self.in_order[which] = [chunk]
        self._put(chunk, live)
        self._spill(chunk)

    def check(self, last_ordinal: int) -> None:
        """Check that chunks ascend by rank and ordinals, and count no more live records than they have.

        Raises StateDamaged.
        """
        last = rank = -1
        for chunk in self.in_order:
            if isinstance(chunk, SealedChunk):
                first, following = chunk.facts.first, chunk.facts.last
            else:
                ordinals = chunk.records()["ordinal"]
                first, following = int(ordinals[0]), int(ordinals[-1])
            if chunk.rank <= rank or first <= last or not 0 <= self.live[chunk.slot] <= chunk.count:
                raise damaged_store(f"its chunk in slot {chunk.slot} is out of order, or miscounted")
            last, rank = following, chunk.rank
        if last > last_ordinal or rank >= self.rank:
            raise damaged_store("it has uncounted records")

    def _put(self, chunk: ChunkReader, live: int) -> None:
        if len(self.live) <= chunk.slot:
            more = np.zeros(max(chunk.slot, len(self.live)), np.int64)
            self.live, self.ranks = np.concatenate([self.live, more]), np.concatenate([self.ranks, more])
            self.columns = np.concatenate([self.columns, np.zeros((len(more), 3), np.int64)])
        self._by_slot[chunk.slot] = chunk
        self.live[chunk.slot], self.ranks[chunk.slot] = live, chunk.rank
        if isinstance(chunk, SealedChunk):
            self._note_sealed(chunk)

    def _note_sealed(self, chunk: SealedChunk) -> None:
        self.columns[chunk.slot] = chunk.count, chunk.facts.least, chunk.facts.greatest
        self._in_memory[chunk.slot] = chunk

    def _seal(self, i: int, chunk: OpenChunk) -> None:
        place = ChunkPlace(self.layout, self.number, chunk.slot, chunk.rank)
        self.number += 1
        made = sealed(place, chunk.records(), memory.copied(chunk.ids()))
        self.in_order[i] = self._by_slot[chunk.slot] = made
        self._note_sealed(made)
        self._spill(made)

    def _spill(self, chunk: SealedChunk) -> None:
        """Move a chunk to the file for such chunks. Without room it stays in memory."""
        if self.spill is not None and isinstance(chunk.source, MemoryChunk):
            found = self.spill.take(chunk.source.arrays)
            if found is not None:
                chunk.move(found)

    def _drop(self, chunk: ChunkReader) -> None:
        if isinstance(chunk.source, FileChunk):
            chunk.source.close()
        self._by_slot[chunk.slot] = None
        self._in_memory.pop(chunk.slot, None)
        self.live[chunk.slot] = 0
        self.columns[chunk.slot] = 0
        self._free.append(chunk.slot)
