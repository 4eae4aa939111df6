"""Takes new records: the open chunk of the page store."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream import memory
from simstream.judge.numbers import Age, Row, Slot
from simstream.judge.pages.chunk import BYTES, WORD, ChunkReader, damaged_store
from simstream.judge.pages.chunk_source import MemoryChunk
from simstream.judge.pages.due_times import DUE
from simstream.judge.pages.record import RecordLayout, Records
from simstream.kernels.judge import page_records as kernels
from simstream.kernels.judge.page_records import PageColumns
from simstream.model import U64

ID_ROOM_BYTES: Final = 128
"""The bytes reserved for each id at first."""


class OpenChunk(ChunkReader):
    """A chunk with room for `capacity` records; unused room takes no memory.

    Records from `settled` on can be amended; the others have their checks.
    """

    def __init__(self, layout: RecordLayout, slot: Slot, rank: int, capacity: int) -> None:
        self._words: U64 = memory.zeros((capacity, layout.words), WORD)
        self._all: Records = self._words.reshape(-1).view(layout.dtype)
        self._ages = self._all["age"]
        self._rows = self._all["row"]
        self._ids = memory.zeros(capacity * ID_ROOM_BYTES, BYTES)
        self._id_end = 0
        self.settled = 0
        super().__init__(layout, slot, rank, self._held())

    @property
    def room(self) -> int:
        """Return how many more records it takes."""
        return len(self._words) - self.count

    def append(self, pages: PageColumns, ids: NDArray[np.uint8], id_start: int) -> int:
        """Add pages, and return the place of the first. There must be room. Their ids begin at `id_start` in
        `ids`."""
        first, id_end = self.count, int(pages.id_ends[-1])
        size = id_end - id_start
        self._make_room(size)
        self._ids[self._id_end : self._id_end + size] = ids[id_start:id_end]
        kernels.write(self._words, first, pages, self._id_end - id_start)
        self._id_end += size
        self.count = first + len(pages.ordinals)
        return first

    def amend(self, place: int, age: Age | None, row: Row | None) -> None:
        """Change a record that is not yet settled."""
        if not self.settled <= place < self.count:
            raise ValueError("only records of the last append can be amended")
        if age is not None:
            self._ages[place] = age
        if row is not None:
            self._rows[place] = row

    def settle(self) -> None:
        """Write the checks of the records of the last append."""
        kernels.seal(self._words, self.settled, self.count, self._ids)
        self.settled = self.count

    def records(self) -> Records:
        return self._all[: self.count]

    def ids(self) -> NDArray[np.uint8]:
        return self._ids[: self._id_end]

    def due(self, after: int, until: int) -> NDArray[np.void]:
        times = self._all["time"][: self.count]
        places = np.flatnonzero((times > after) & (times <= until))
        places = places[np.argsort(times[places], kind="stable")]
        found = np.empty(len(places), DUE)
        for name in ("time", "ordinal", "row"):
            found[name] = self._all[name][places]
        found["place"] = places
        return found

    def restore(self, words: U64, ids: NDArray[np.uint8]) -> None:
        """Take over the records and ids of a chunk like this one. Raises StateDamaged."""
        if not 0 < len(words) <= len(self._words):
            raise damaged_store("its open chunk is larger than a chunk can be")
        self._make_room(len(ids))
        self._words[: len(words)] = words
        self._ids[: len(ids)] = ids
        self.count = self.settled = len(words)
        self._id_end = len(ids)
        self.check()

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return self.count * self.layout.size + self._id_end

    def _make_room(self, more: int) -> None:
        room = len(self._ids)
        if self._id_end + more > room:
            ids = memory.zeros(max(room + room // 2, self._id_end + more), BYTES)
            ids[: self._id_end] = self._ids[: self._id_end]
            self._ids = ids
            self.source = self._held()

    def _held(self) -> MemoryChunk:
        return MemoryChunk("the open chunk of pages", {"records": self._words, "ids": self._ids})
