"""Decides which cards and waiting pages are too old, by stream time."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedList


class ExpiryTimes:
    """Names, each with the time of its end. A name that is set again gets a new end. O(log n) each."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._queue = SortedList()

    def __len__(self) -> int:
        return len(self._ends)

    def set(self, name: str, end: int) -> None:
        """Set the end of a name."""
        if self._ends.get(name) != end:
            self.drop(name)
            self._ends[name] = end
            self._queue.add((end, name))

    def drop(self, name: str) -> bool:
        """Remove a name. Returns whether it was there."""
        end = self._ends.pop(name, None)
        if end is not None:
            self._queue.remove((end, name))
        return end is not None

    def ended(self, now: int) -> Iterator[str]:
        """Remove and yield the names that end at `now` or before, the oldest first."""
        while self._ends and self._queue[0][0] <= now:
            yield self._take()

    def surplus(self, most: int) -> Iterator[str]:
        """Remove and yield the oldest names while there are more than `most`."""
        while len(self._ends) > most:
            yield self._take()

    def _take(self) -> str:
        name: str = self._queue[0][1]
        self.drop(name)
        return name
