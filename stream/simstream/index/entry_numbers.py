"""Knows which entry numbers are in use, released, or free again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.index.entry_numbers import NUMBER_MASK, forget, hold, hold_rows, release
from simstream.model import U64

FIRST_WORDS = 64
MAX_WORDS = (NUMBER_MASK + 1) // 64
MAX_NUMBERS_AT_ONCE = 1 << 16
"""Numbers that are given back in one step."""
MAX_GIVEN_BACK = 1 << 17
"""`give_back` ends once it has yielded so many numbers: their rows then take about 20 ms. A batch has far fewer new
entries, so all numbers come back in the end."""


class EntryNumbers:
    """The states of entry numbers, in two bits for each up to the greatest in use. A number is held until
    `give_back` returns it."""

    def __init__(self) -> None:
        self.held: U64 = np.zeros(FIRST_WORDS, np.uint64)
        """64 numbers a word."""
        self.released: U64 = np.zeros(FIRST_WORDS, np.uint64)
        """64 numbers a word; a number in `dropped` keeps its bit."""
        self._dropped: list[NDArray[np.uint32]] = []
        self._newly_dropped = False
        self.live = 0
        self.dead = 0
        """How many are released and still in some part."""
        self.releases = 0
        """How many were ever released."""

    def nbytes(self) -> int:
        """Return the bytes of both bitmaps, and of the numbers that are not yet given back."""
        return self.held.nbytes + self.released.nbytes + sum(numbers.nbytes for numbers in self._dropped)

    def hold(self, entries: NDArray[np.uint32]) -> None:
        """Take numbers into use. Raises ValueError if one is in use, comes twice or is 2^31 or more."""
        if len(entries):
            greatest = int(entries.max())
            if greatest > NUMBER_MASK:
                raise ValueError(f"entry {greatest} is out of range: numbers end at {NUMBER_MASK}")
            self._make_room(greatest)
        bad = hold(entries, self.held)
        if bad >= 0:
            raise ValueError(f"entry {int(entries[bad])} is already in use, or comes twice")
        self.live += len(entries)

    def release(self, entries: NDArray[np.uint32]) -> None:
        """Mark numbers as released. Raises ValueError for a number that is not live or comes twice, and then
        changes nothing."""
        bad = release(entries, self.held, self.released)
        if bad >= 0:
            raise ValueError(f"entry {int(entries[bad])} is not live, or is released twice")
        self.live -= len(entries)
        self.dead += len(entries)
        self.releases += len(entries)

    def is_released(self, numbers: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Return which of these held numbers are released."""
        bits = (numbers & np.uint32(63)).astype(np.uint64)
        found: NDArray[np.bool_] = (self.released[numbers >> np.uint32(6)] >> bits) & np.uint64(1) != 0
        return found

    def drop(self, numbers: NDArray[np.uint32]) -> None:
        """Note released numbers that are in no part any more."""
        if len(numbers):
            self._dropped.append(numbers)
            self._newly_dropped = True
            self.dead -= len(numbers)

    def take_newly_dropped(self) -> bool:
        """Return whether `drop` has noted numbers since the last call."""
        newly, self._newly_dropped = self._newly_dropped, False
        return newly

    def dropped(self) -> NDArray[np.uint32]:
        """Return the numbers that are not yet given back, without an order."""
        return np.concatenate([np.empty(0, np.uint32), *self._dropped])

    def give_back(self) -> Iterator[NDArray[np.uint32]]:
        """Yield numbers of `dropped` in slices, without an order; each is free from then on.

        A bucket that leaves the window may drop very many: the rest of them waits for later calls.
        """
        given = 0
        while self._dropped and given < MAX_GIVEN_BACK:
            numbers = self._dropped.pop()
            some, rest = numbers[:MAX_NUMBERS_AT_ONCE], numbers[MAX_NUMBERS_AT_ONCE:]
            if len(rest):
                self._dropped.append(rest)
            forget(some, self.held, self.released)
            given += len(some)
            yield some

    def used(self) -> U64:
        """Return the words of `released` up to the last that is not 0."""
        nonzero = np.flatnonzero(self.released)
        return self.released[: int(nonzero[-1]) + 1 if len(nonzero) else 0]

    def restore(self, columns: Iterable[NDArray[np.uint32]], released: U64, dropped: NDArray[np.uint32]) -> str:
        """Take over the rows of all parts, the released ones, and the numbers to be given back.

        Returns what is wrong, or "". Cost: 2 to 5 ns a row.
        """
        if len(released) > MAX_WORDS or (len(dropped) and int(dropped.max()) > NUMBER_MASK):
            return "numbers are out of range"
        rows = [*columns, dropped]
        greatest = max((int((column & np.uint32(NUMBER_MASK)).max()) for column in rows if len(column)), default=0)
        self._make_room(max(greatest, 64 * len(released) - 1))
        for column in rows:
            bad = hold_rows(column, self.held)
            if bad >= 0:
                return f"entry {int(column[bad]) & NUMBER_MASK} comes twice"
        self.released[: len(released)] = released
        if (self.released & ~self.held).any():
            return "a released entry is in no part"
        total, dead = sum(map(len, rows)), int(np.bitwise_count(self.released).sum())
        if not self.is_released(dropped).all():
            return "an entry to be given back was not released"
        self.live, self.dead = total - dead, dead - len(dropped)
        self._dropped = [dropped] if len(dropped) else []
        return ""

    def _make_room(self, number: int) -> None:
        words = (number >> 6) + 1
        if words > len(self.held):
            words = min(max(words, len(self.held) + len(self.held) // 4), MAX_WORDS)
            self.held, self.released = _longer(self.held, words), _longer(self.released, words)


def _longer(bitmap: U64, words: int) -> U64:
    out = np.zeros(words, np.uint64)
    out[: len(bitmap)] = bitmap
    return out
