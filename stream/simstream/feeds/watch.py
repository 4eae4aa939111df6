"""Asks every second where the topics end: tells how far the news page is, and ends the wait for titles."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from simstream.errors import SimstreamError
from simstream.feeds.condition import Ends, FeedCondition, FeedPartition
from simstream.feeds.state import FeedState
from simstream.log.base import Log
from simstream.log.options import PAGES, VERDICTS
from simstream.processors import call_in_daemon

_logger = logging.getLogger("simstream.news")
_EVENTS: Final = {"ready": "the stories are up to date", "reading": "the news page reads its table"}
"""What the log says of a state for which the condition is advice for a caller."""
SLICE_TITLES = 256
"""The number of titles that are given up before other tasks have their turn."""


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
                self._condition.hear(await asyncio.wrap_future(call_in_daemon(self._ends, "question")))
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
            _logger.log(level, "%s", _EVENTS.get(state, self._condition))
            self._told, self._told_at = state, now


def ends_of(log: Log) -> Ends:
    """Return the ends of the partitions of both topics. Raises LogError."""
    return {
        FeedPartition(topic, partition): end
        for topic in (VERDICTS, PAGES)
        for partition, end in log.end_offsets(topic).items()
    }


class TitleDeadline:
    """Ends the wait for titles: a page whose record never comes is shown by its address. `clock` counts seconds.

    A record may be gone: it has expired, or the topic `pages` was created again. The news page is ready if it has
    read all records that the topics had a minute ago. So a record does not come if its page waits for the title
    during one whole round in which the news page is ready.
    """

    ROUND_S: Final = FeedCondition.FRESH_S + 30.0

    def __init__(self, feed: FeedState, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._clock = clock
        self._before: set[str] = set()
        self._began = clock()

    async def look(self) -> None:
        """End a round if it is time. While the news page is not ready, begin again."""
        if self._feed.condition.state != "ready":
            self._before, self._began = set(), self._clock()
            return
        if self._clock() - self._began < self.ROUND_S:
            return
        fold = self._feed.fold
        awaited = fold.awaited_titles()
        given_up = self._before & awaited
        self._before, self._began = awaited, self._clock()
        for number, source in enumerate(given_up, 1):
            fold.give_up_title(source)
            if number % SLICE_TITLES == 0:
                await asyncio.sleep(0)
                if self._feed.fold is not fold:
                    return  # the news page has begun again
        if given_up:
            _logger.warning(
                "the topic `pages` has no records of %d pages, so their titles are their addresses: check whether "
                "the topic was deleted and created again, or has a short retention, and whether [fields] is that "
                "of the service",
                len(given_up),
            )
