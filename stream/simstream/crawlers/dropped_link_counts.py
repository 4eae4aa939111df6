"""Counts the dropped links of a crawl. A link does not count if its address was fetched after all."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from scrapy import Request, signals

from simstream.crawlers.seen_pages import SeenSet

logger = logging.getLogger("simstream.crawlers")
MAX_ADDRESSES = 100_000
"""At most so many dropped addresses are remembered. Further links count even if their address is fetched later."""
MAX_SHOWN = 3
"""The most kinds of addresses that the log line at the end names."""
OTHERS = "others"


class DroppedLinks:
    """Counts dropped links by kind of address, each address once. Bounded memory."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        self._name: Callable[[Request], bytes] = crawler.request_fingerprinter.fingerprint
        self._fetched = SeenSet()
        self._kind_of: dict[bytes, str] = {}
        self._further = 0
        """The number of links that were dropped when MAX_ADDRESSES were remembered."""
        for signal in (signals.request_reached_downloader, signals.response_received):
            crawler.signals.connect(self.forget, signal=signal)

    def add(self, request: Request, kind: str) -> None:
        """Count a dropped link, unless its address was fetched, or is fetched later."""
        name = self._name(request)
        if name in self._fetched:
            return
        if name in self._kind_of or len(self._kind_of) < MAX_ADDRESSES:
            self._kind_of[name] = sys.intern(kind)
        else:
            self._further += 1

    def is_fetched(self, request: Request) -> bool:
        """Return whether Scrapy has fetched this request, and would filter it out."""
        return self._name(request) in self._fetched

    def forget(self, request: Request) -> None:
        """Note that an address is fetched."""
        name = self._name(request)
        self._fetched.add(name)
        self._kind_of.pop(name, None)

    def tell(self) -> None:
        """Write the count to Scrapy's stats, and a log line with the count and the largest kinds."""
        kinds = Counter(self._kind_of.values())
        kinds[OTHERS] += self._further
        if not kinds.total():
            return
        self._crawler.stats.set_value("simstream/links/dropped", kinds.total())
        named = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(MAX_SHOWN) if count)
        logger.warning(
            "%d addresses were not fetched: only near duplicates led to them, links of their kinds brought no new "
            "page, or a pattern calls them copies. The largest kinds: %s. To follow all links, set "
            "SIMSTREAM_LINKS=deprioritize, without SIMSTREAM_PATTERNS",
            kinds.total(),
            named,
        )
