"""Keeps keys sorted: adds, removes, pages through, finds neighbours."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final


class OrderedTuples:
    """Distinct tuples in ascending order, in blocks of at most MAX_KEYS keys.

    `add`, `remove`, `since` and `before` cost O(log n) comparisons and one move of a block's tail; `between` counts
    the blocks before its start, n / MAX_KEYS at most.
    """

    MAX_KEYS: Final = 512

    def __init__(self, keys: Iterable[Any] = ()) -> None:
        found, half = sorted(keys), self.MAX_KEYS // 2
        self._blocks = [found[at : at + half] for at in range(0, len(found), half)]
        self._ends = [block[-1] for block in self._blocks]
        """The greatest key of each block."""
        self._count = len(found)

    def __len__(self) -> int:
        return self._count

    def add(self, key: Any) -> None:
        """Add a new key."""
        self._count += 1
        if not self._blocks:
            self._blocks, self._ends = [[key]], [key]
            return
        at = min(bisect_left(self._ends, key), len(self._ends) - 1)
        block = self._blocks[at]
        insort(block, key)
        self._ends[at] = block[-1]
        if len(block) > self.MAX_KEYS:
            self._split(at)

    def remove(self, key: Any) -> None:
        """Remove a key. Raises KeyError if it is missing."""
        at = bisect_left(self._ends, key)
        block = self._blocks[at] if at < len(self._blocks) else []
        place = bisect_left(block, key)
        if place == len(block) or block[place] != key:
            raise KeyError(key)
        del block[place]
        self._count -= 1
        if block:
            self._ends[at] = block[-1]
        if len(block) < max(1, self.MAX_KEYS // 8):
            self._join(at)

    def least(self) -> Any:
        """Return the first key. Raises IndexError if there is none."""
        return self._blocks[0][0]

    def since(self, key: Any) -> Iterator[Any]:
        """Yield the keys from this key on. Do not add or remove keys meanwhile."""
        at = bisect_left(self._ends, key)
        if at < len(self._blocks):
            yield from islice(self._blocks[at], bisect_left(self._blocks[at], key), None)
            for block in islice(self._blocks, at + 1, None):
                yield from block

    def before(self, key: Any) -> Iterator[Any]:
        """Yield the keys less than this key, the greatest first. Do not add or remove keys meanwhile."""
        at = min(bisect_left(self._ends, key), len(self._blocks) - 1)
        if at >= 0:
            yield from reversed(self._blocks[at][: bisect_left(self._blocks[at], key)])
            for place in range(at - 1, -1, -1):
                yield from reversed(self._blocks[place])

    def after(self, key: Any, most: int) -> list[Any]:
        """Return at most so many of the keys greater than this key. An empty tuple is less than all keys."""
        at = bisect_right(self._ends, key)
        found: list[Any] = []
        start = bisect_right(self._blocks[at], key) if at < len(self._blocks) else 0
        while at < len(self._blocks) and len(found) < most:
            found += self._blocks[at][start : start + most - len(found)]
            at, start = at + 1, 0
        return found

    def between(self, start: int, stop: int) -> list[Any]:
        """Return the keys from number `start`, counted from 0, to before number `stop`."""
        found: list[Any] = []
        for block in self._blocks:
            if stop <= 0:
                break
            if start < len(block):
                found += block[max(0, start) : stop]
            start, stop = start - len(block), stop - len(block)
        return found

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        half = len(block) // 2
        self._blocks[at : at + 1] = [block[:half], block[half:]]
        self._ends[at : at + 1] = [block[half - 1], block[-1]]

    def _join(self, at: int) -> None:
        """Join a small block with the block before it, and drop an empty block."""
        block = self._blocks[at]
        if block and at == 0:
            return
        if block:
            self._blocks[at - 1] += block
            self._ends[at - 1] = block[-1]
        del self._blocks[at], self._ends[at]
        if block and len(self._blocks[at - 1]) > self.MAX_KEYS:
            self._split(at - 1)
