"""Asks every second where the topics end and how far Faust has read, and updates the news page's condition.

A partition may end with the marker of a transaction, and Faust never shows markers. In `verdicts` the last
committed offset is always a marker. In other topics the position of Faust's consumer tells that all is read. The
position is ahead of the records that Faust still holds: Faust passes these on by turns of the partitions. So the
position of a partition counts only if no record came for QUIET_LOOKS looks, and no record waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from faust.exceptions import FaustError
from faust.types import TP

from simstream.errors import SimstreamError
from simstream.feeds.app import FeedState
from simstream.feeds.condition import Ends, FeedPartition
from simstream.feeds.title_deadline import TitleDeadline
from simstream.log.base import VERDICTS, Log

_logger = logging.getLogger("simstream.news")


class FeedWatch:
    """Updates the news page's condition beside the app, until it is cancelled."""

    EVERY_S: Final = 1.0
    QUIET_LOOKS: Final = 3
    """In so many looks every partition with waiting records has its turn."""
    PATIENCE_S: Final = 2.0
    """Seconds to wait for an answer of Faust's consumer, which runs in a thread of its own."""

    def __init__(self, app: Any, feed: FeedState, ends: Callable[[], Ends]) -> None:
        self._app = app
        self._condition = feed.condition
        self._inboxes = feed.inboxes
        self._ends = ends
        """Asks a broker. Called in a thread."""
        self._quiet: dict[FeedPartition, tuple[int, int, int]] = {}
        """The offset that was read, the consumer's position, and for how many looks both have stayed the same."""
        self._told = ""
        self._titles = TitleDeadline(feed)

    async def run(self) -> None:
        """Look at the brokers and at Faust every EVERY_S seconds."""
        while True:
            await self._look()
            try:
                self._condition.hear(await asyncio.to_thread(self._ends))
            except SimstreamError as error:
                _logger.debug("the ends of the topics are not known: %s", error)
            self._tell()
            await self._titles.look()
            await asyncio.sleep(self.EVERY_S)

    async def _look(self) -> None:
        """Note the positions of partitions that were quiet for long."""
        before, self._quiet = self._quiet, {}
        for where, position in (await self._positions()).items():
            read = self._condition.read_to(where)
            *same, looks = before.get(where, (-1, -1, 0))
            looks = looks + 1 if same == [read, position] else 0
            self._quiet[where] = read, position, looks
            if looks >= self.QUIET_LOOKS and all(inbox.empty() for inbox in self._inboxes):
                self._condition.take(where, position)

    async def _positions(self) -> dict[FeedPartition, int]:
        consumer = self._app.consumer
        try:
            async with asyncio.timeout(self.PATIENCE_S):
                return {FeedPartition(*tp): await consumer.position(TP(*tp)) or 0 for tp in consumer.assignment()}
        except (
            TimeoutError,
            RuntimeError,
            FaustError,
        ):  # no position while partitions are assigned
            return {}

    def _tell(self) -> None:
        """Log a change of the condition."""
        state = self._condition.state
        if state != self._told:
            level = logging.WARNING if state == "away" else logging.INFO
            _logger.log(level, "%s", "the stories are up to date" if state == "ready" else self._condition)
            self._told = state


def ends_of(log: Log, names: Mapping[str, str]) -> Ends:
    """Return the ends of the partitions of these topics. `names` has their full names. Raises LogError."""
    return {
        FeedPartition(full, partition): end
        for topic, full in names.items()
        for partition, end in _visible(topic, log.end_offsets(topic))
    }


def _visible(topic: str, ends: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the ends, in `verdicts` without the marker after the last committed record."""
    for partition, end in ends.items():
        yield partition, max(0, end - 1) if topic == VERDICTS else end
