"""Entries: the numbers of all distinct keys, the keys, and where each of them lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream.kernels import intern as kernel
from stream.kernels.intern import Keys
from stream.model import U64

FIRST_ROOM = 1024
_Scalar = TypeVar("_Scalar", bound=np.generic)


class Entries:
    """Columns by entry number, grown by doubling; see `kernels/intern` for how numbers are given.

    `told_apart`: whether a key also says that its page is short; else `keys.short` stays empty.
    Memory: 8 + 8 S bytes for the key (and 1), 9 for place and queue, 8 to 16 for the hash, an entry.
    """

    def __init__(self, sketch_words: int, told_apart: bool = False) -> None:
        self.keys = Keys(np.empty(0, np.uint64), np.empty((0, sketch_words), np.uint64), np.empty(0, np.uint8))
        self._told_apart = told_apart
        self.home: NDArray[np.int32] = np.empty(0, np.int32)
        self._queued: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._queue: NDArray[np.int32] = np.empty(0, np.int32)
        self._table: NDArray[np.int32] = np.empty(0, np.int32)
        self.counters: NDArray[np.int64] = np.zeros(5, np.int64)

    def __len__(self) -> int:
        return int(self.counters[kernel.LIVE])

    def nbytes(self) -> int:
        """Bytes of all columns and of the hash."""
        columns = (*self.keys, self.home, self._queued, self._queue, self._table)
        return sum(c.nbytes for c in columns)

    def intern(
        self,
        wanted: Keys,
        memtable: U64,
        memtable_entries: NDArray[np.int32],
        seal: Callable[[], None],
    ) -> NDArray[np.int64]:
        """The entry numbers of n keys; `seal` is called when the memtable is full and must empty it."""
        self._make_room(len(wanted.fingerprints))
        out = np.empty(len(wanted.fingerprints), np.int64)
        done = 0
        while done < len(out):
            done = kernel.intern(
                wanted,
                done,
                self._table,
                self.keys,
                self.home,
                self._queued,
                self._queue,
                self.counters,
                memtable,
                memtable_entries,
                out,
            )
            if self.counters[kernel.MEMTABLE] == len(memtable):
                seal()
        return out

    def release(self, entries: NDArray[np.int64]) -> None:
        """Mark entries as released.

        Errors: ValueError for a number that is not live or comes twice; nothing is changed then.
        """
        bad = kernel.release(entries, self.home, self._queued, self._queue, self.counters)
        if bad >= 0:
            raise ValueError(f"entry {int(entries[bad])} is not live, or is released twice")

    def move(self, entries: NDArray[np.int32], old: int, new: int) -> None:
        """Entries that lie at `old` (-1: in the memtable) go to `new`; those that died there are gone."""
        kernel.move(entries, self.home, old, new)

    def _make_room(self, more: int) -> None:
        used = int(self.counters[kernel.USED])
        if used + more > len(self.home):
            room = max(FIRST_ROOM, 2 * len(self.home))
            while room < used + more:
                room *= 2
            self._grow(room, used)
        if 2 * (used + more) > len(self._table):
            self._table = np.full(2 * len(self.home), kernel.EMPTY, np.int32)
            kernel.rehash(self._table, used, self.keys)

    def _grow(self, room: int, used: int) -> None:
        head, tail = int(self.counters[kernel.HEAD]), int(self.counters[kernel.TAIL])
        queue = np.empty(room, np.int32)
        if tail > head:
            queue[: tail - head] = self._queue[np.arange(head, tail) % len(self._queue)]
        self._queue = queue
        self.counters[kernel.HEAD], self.counters[kernel.TAIL] = 0, tail - head
        fingerprints, sketches, short = self.keys
        self.keys = Keys(
            _longer(fingerprints, room, used),
            _longer(sketches, room, used),
            _longer(short, room, used) if self._told_apart else short,
        )
        self.home = _longer(self.home, room, used)
        queued = np.zeros(room, np.uint8)
        queued[:used] = self._queued[:used]
        self._queued = queued


def _longer(column: NDArray[_Scalar], room: int, used: int) -> NDArray[_Scalar]:
    out = np.empty((room, *column.shape[1:]), column.dtype)
    out[:used] = column[:used]
    return out
