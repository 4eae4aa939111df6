"""Asks every second where the topics end, and tells when the news page's condition changes, and how far it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from simstream.errors import SimstreamError
from simstream.feeds.condition import Ends, FeedPartition
from simstream.feeds.daemon_call import call_in_daemon
from simstream.feeds.state import FeedState
from simstream.feeds.title_deadline import TitleDeadline
from simstream.log.base import Log
from simstream.log.options import PAGES, VERDICTS

_logger = logging.getLogger("simstream.news")


class FeedWatch:
    """Updates the news page's condition, until it is cancelled."""

    EVERY_S: Final = 1.0
    AGAIN_S: Final = 10.0
    """Seconds after which a page that is behind says again how many records it still has to read."""

    def __init__(
        self, feed: FeedState, ends: Callable[[], Ends], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` counts seconds."""
        self._feed = feed
        self._condition = feed.condition
        self._ends = ends
        """Asks a broker. Called in a thread."""
        self._clock = clock
        self._told, self._told_at = "", clock()
        self._titles = TitleDeadline(feed)

    async def run(self) -> None:
        """Look every EVERY_S seconds."""
        while True:
            try:
                self._condition.hear(await call_in_daemon(self._ends))
            except SimstreamError as error:
                _logger.debug("the ends of the topics are not known: %s", error)
            self._note_ready()
            self._tell()
            await self._titles.look()
            await asyncio.sleep(self.EVERY_S)

    def _note_ready(self) -> None:
        """Note in the table that the news page is up to date: from now on, what comes is news."""
        if self._condition.state == "ready":
            self._feed.fold.note_up_to_date()

    def _tell(self) -> None:
        """Log a change of the condition, and from time to time what is still to be read."""
        state, now = self._condition.state, self._clock()
        if state != self._told or (state == "loading" and now - self._told_at >= self.AGAIN_S):
            level = logging.WARNING if state == "away" else logging.INFO
            _logger.log(level, "%s", "the stories are up to date" if state == "ready" else self._condition)
            self._told, self._told_at = state, now


def ends_of(log: Log) -> Ends:
    """Return the ends of the partitions of both topics. Raises LogError."""
    return {
        FeedPartition(topic, partition): end
        for topic in (VERDICTS, PAGES)
        for partition, end in log.end_offsets(topic).items()
    }
