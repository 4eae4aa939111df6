"""Ends the wait for titles: a page whose record never comes is shown by its address.

A record may be gone: it has expired, or the topic `pages` was created again. The news page is ready if it has read
all records that the topics had a minute ago. So a record does not come if its page waits for the title during one
whole round in which the news page is ready.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from simstream.feeds.condition import FeedCondition
from simstream.feeds.state import FeedState

_logger = logging.getLogger("simstream.news")
SLICE_TITLES = 256
"""The number of titles that are given up before other tasks have their turn."""


class TitleDeadline:
    """Gives up titles that were already awaited in the last round. `clock` counts seconds."""

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
                "the topic was deleted and created again, or has a short retention",
                len(given_up),
            )
