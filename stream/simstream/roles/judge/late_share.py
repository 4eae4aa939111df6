"""Watches which share of the pages is outside the window when it comes: often their `time` is in seconds."""

from __future__ import annotations

import logging
import time
from typing import Final

from simstream.wire.page import FIRST_LIKELY_MS

LATE_PAGES: Final = 20
"""The least number of late pages that are worth a warning, if they are more than a tenth of all."""
RATIO_PAGES: Final = 1_000
"""The share is counted anew after so many pages."""
WARN_EVERY_S: Final = 3600.0
_TIME_ADVICE: Final = "is `time` in seconds? It is milliseconds since 1970"
_logger = logging.getLogger("simstream.judge")


class LateShare:
    """Counts pages under a window, and warns at most once an hour."""

    def __init__(self) -> None:
        self._pages = self._late = 0
        self._next = float("-inf")

    def count(self, pages: int, late: int) -> None:
        """Count pages and the late ones among them."""
        if self._pages >= RATIO_PAGES:
            self._pages = self._late = 0
        self._pages += pages
        self._late += late

    def check(self, stream_time: int | None) -> None:
        """Warn if need be; `stream_time` is the largest time of a page so far, in ms."""
        if stream_time is not None and stream_time < FIRST_LIKELY_MS:
            self._warn("no page has a later time than %d: %s", stream_time, _TIME_ADVICE)
        elif self._late >= LATE_PAGES and 10 * self._late > self._pages:
            self._warn(
                "%d of the last %d pages were older than the window when they came, and no later page is compared "
                "with them: %s",
                self._late,
                self._pages,
                _TIME_ADVICE,
            )

    def _warn(self, sentence: str, *values: object) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + WARN_EVERY_S
            _logger.warning(sentence, *values)
