"""What leaves when: things by the stream time from which on they are too old, with the oldest at hand."""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class Ageing:
    """Names with a time at which each ends; a name that is set again ends at its new time. O(log n) each."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._ends)

    def set(self, name: str, end: int) -> None:
        """From now on this name ends then."""
        if self._ends.get(name) == end:
            return
        self._ends[name] = end
        heapq.heappush(self._heap, (end, name))
        if len(self._heap) > 2 * len(self._ends) + 64:  # more left behind than is valid
            self._heap = [(at, one) for one, at in self._ends.items()]
            heapq.heapify(self._heap)

    def drop(self, name: str) -> None:
        """The name is no more."""
        self._ends.pop(name, None)

    def ended(self, now: int) -> Iterator[str]:
        """Take out the names that end at `now` or before, the oldest first."""
        while self._heap and self._heap[0][0] <= now:
            yield from self._take()

    def surplus(self, most: int) -> Iterator[str]:
        """Take out the oldest names while there are more than `most`."""
        while len(self._ends) > most:
            yield from self._take()

    def _take(self) -> Iterator[str]:
        end, name = heapq.heappop(self._heap)
        if self._ends.get(name) == end:
            del self._ends[name]
            yield name
