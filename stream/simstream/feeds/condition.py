"""Decides whether the news page is up to date with its topics, and if not, why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from simstream.amounts import say_count

State = Literal["reading", "loading", "away", "ready"]
"""The news page reads its own table; it is behind the topics; no broker answers; it is up to date."""


class FeedPartition(NamedTuple):
    """A partition: its topic, such as PAGES, and its number."""

    topic: str
    number: int


Ends = Mapping[FeedPartition, int]
"""The end offset of each partition: all records below it can be read."""


class FeedCondition:
    """Tracks how far the news page has read, and whether brokers answer; `clock` counts seconds."""

    SILENT_S: Final = 10.0
    """Seconds without an answer after which the broker counts as away."""
    FRESH_S: Final = 60.0
    """The news page is behind unless it has read all records that the topics had so many seconds ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.has_read_table = False
        self._clock = clock
        self._heard_at = clock()
        self._next: dict[FeedPartition, int] = {}
        self.ends: Ends = {}
        """The ends of the partitions, by the last answer of a broker."""
        self._goal: Ends | None = None
        self._goal_at = 0.0
        self._fresh_at: float | None = None

    @property
    def state(self) -> State:
        """Return the condition in one word; `away` has precedence over `reading` and `loading`."""
        if self.silent_s > self.SILENT_S:
            return "away"
        if not self.has_read_table:
            return "reading"
        is_fresh = self._fresh_at is not None and self._clock() - self._fresh_at <= self.FRESH_S
        return "ready" if is_fresh else "loading"

    @property
    def silent_s(self) -> float:
        """Return the seconds since a broker answered."""
        return self._clock() - self._heard_at

    @property
    def behind(self) -> int:
        """Return the number of records to read, by the last answer of a broker."""
        return sum(max(0, end - self._next.get(where, 0)) for where, end in self.ends.items())

    def hear(self, ends: Ends) -> None:
        """Note a broker's answer: the ends of the partitions.

        A partition that ends earlier than before was created again: its records are still to be read.
        """
        for where, end in self.ends.items():
            if ends.get(where, 0) < end:
                self._next.pop(where, None)
        self._heard_at, self.ends = self._clock(), ends
        if self._goal is None or self._reaches_goal() or self._has_shrunk():
            self._goal, self._goal_at = ends, self._heard_at
            self._reaches_goal()

    def take(self, where: FeedPartition, offset: int) -> None:
        """Note that the news page has taken in all records of a partition below this offset."""
        self._next[where] = max(offset, self._next.get(where, 0))

    def to_json(self) -> dict[str, str | int]:
        """Return the condition for JSON: the state, and the number that belongs to it."""
        state = self.state
        told: dict[str, str | int] = {"state": state}
        if state == "loading":
            told["behind"] = self.behind
        elif state == "away":
            told["silent_s"] = int(self.silent_s)
        return told

    def __str__(self) -> str:
        stories = "the stories do not change" if self.has_read_table else "there are no stories yet"
        behind = f"about {say_count(self.behind, 'record')}" if self.behind else "some records"
        return {
            "reading": "the news page is starting: ask again in a moment",
            "loading": f"the news page still has to read {behind}",
            "away": f"no broker has answered for {int(self.silent_s)} s: {stories}",
            "ready": "ready",
        }[self.state]

    def _has_shrunk(self) -> bool:
        """Return whether a topic was created again and ends before the goal, which is then never reached."""
        return any(self.ends.get(where, 0) < end for where, end in (self._goal or {}).items())

    def _reaches_goal(self) -> bool:
        """Return whether all records up to the goal were read; then note the goal's time as fresh."""
        is_reached = all(self._next.get(where, 0) >= end for where, end in (self._goal or {}).items())
        if is_reached:
            self._fresh_at = self._goal_at
        return is_reached
