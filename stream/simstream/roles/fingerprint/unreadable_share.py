"""Watches which share of the pages is unreadable: a large one comes from a wrong setting rather than from pages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from simstream.errors import SimstreamError
from simstream.terminal import printable

RATIO_PAGES: Final = 1_000
"""The least number of pages over which the share may stop the service."""
WARN_PAGES: Final = 20
"""The least number of unreadable pages that are worth a warning, if they are more than half of all."""
_MAX_SHOWN: Final = 200
_logger = logging.getLogger("simstream.fingerprint")


class UnreadableShare:
    """Counts pages. Warns once; stops the service if `stop_ratio` of them or more are unreadable, 0 for never."""

    def __init__(self, stop_ratio: float) -> None:
        self._stop_ratio = stop_ratio
        self._pages = self._bad = 0
        self._warned = False

    def count(self, pages: int, details: Sequence[str]) -> None:
        """Count pages; `details` says why each of the unreadable ones among them is. Raises SimstreamError."""
        self._pages += pages
        self._bad += len(details)
        if details and not self._warned and self._bad >= WARN_PAGES and 2 * self._bad > self._pages:
            self._warned = True
            _logger.warning(
                "%d of %d pages are unreadable, the last because: %s; see all with `simstream dead-letters list`",
                self._bad,
                self._pages,
                printable(details[-1])[:_MAX_SHOWN],
            )
        if self._pages >= RATIO_PAGES:
            if self._stop_ratio and self._bad / self._pages >= self._stop_ratio:
                raise SimstreamError(
                    f"{self._bad} of the last {self._pages} pages are unreadable",
                    "see why with `simstream dead-letters list`; with dead_letters.stop_ratio = 0 it goes on",
                )
            self._pages = self._bad = 0
