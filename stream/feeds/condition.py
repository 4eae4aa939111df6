"""The feed's condition: whether readers see what stood in the topics a moment ago, and if not, why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

State = Literal["reading", "loading", "away", "ready"]
"""It reads its own table; it is behind the topics; no broker answers; or none of these."""


class Partition(NamedTuple):
    """A partition by the full name of its topic."""

    topic: str
    number: int


Ends = Mapping[Partition, int]
"""Where the partitions end; below that is what can be read."""


class FeedCondition:
    """What is known of the brokers and of how far the feed has read; `clock` counts seconds."""

    SILENT_S: Final = 10.0
    """Seconds without an answer after which the broker counts as away."""
    FRESH_S: Final = 60.0
    """The feed is behind unless it has read all that stood in the topics so many seconds ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.has_read_table = False
        self._clock = clock
        self._heard_at = clock()
        self._next: dict[Partition, int] = {}
        self._ends: Ends = {}
        self._goal: Ends | None = None
        self._goal_at = 0.0
        self._fresh_at: float | None = None

    @property
    def state(self) -> State:
        """What a reader has to know; away comes before behind."""
        if not self.has_read_table:
            return "reading"
        if self.silent_s > self.SILENT_S:
            return "away"
        is_fresh = self._fresh_at is not None and self._clock() - self._fresh_at <= self.FRESH_S
        return "ready" if is_fresh else "loading"

    @property
    def silent_s(self) -> float:
        """Seconds since a broker answered."""
        return self._clock() - self._heard_at

    @property
    def behind(self) -> int:
        """Records that the topics held when a broker last answered, and that are still to be read."""
        return sum(max(0, end - self._next.get(where, 0)) for where, end in self._ends.items())

    def hear(self, ends: Ends) -> None:
        """A broker has answered, and the partitions end there."""
        self._heard_at, self._ends = self._clock(), ends
        if self._goal is None or self._reaches_goal():
            self._goal, self._goal_at = ends, self._heard_at
            self._reaches_goal()

    def take(self, where: Partition, offset: int) -> None:
        """The feed has taken in all records of a partition below this offset."""
        self._next[where] = max(offset, self._next.get(where, 0))

    def read_to(self, where: Partition) -> int:
        """The offset below which all records of a partition are taken in, as far as it is known."""
        return self._next.get(where, 0)

    def told(self) -> dict[str, str | int]:
        """The condition for JSON: state, and the number that belongs to it."""
        state = self.state
        told: dict[str, str | int] = {"state": state}
        if state == "loading":
            told["behind"] = self.behind
        elif state == "away":
            told["silent_s"] = int(self.silent_s)
        return told

    def __str__(self) -> str:
        return {
            "reading": "the feed reads its table: ask again in a moment",
            "loading": f"the feed is behind the topics by about {self.behind:,} records",
            "away": f"no broker has answered for {self.silent_s:.0f} s: the stories stay as they are",
            "ready": "ready",
        }[self.state]

    def _reaches_goal(self) -> bool:
        """Whether all is read that stood in the topics when the goal was set: as fresh the feed is then."""
        is_reached = all(self._next.get(where, 0) >= end for where, end in (self._goal or {}).items())
        if is_reached:
            self._fresh_at = self._goal_at
        return is_reached
