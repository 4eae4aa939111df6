"""Links of near duplicates that wait until nothing else is left to fetch.

A lower priority alone would do harm: Scrapy takes up an address once, so a link that stands first on a near
duplicate and then on a page worth following would stay behind all others.
"""

from __future__ import annotations

from typing import Any

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider

AT_ONCE = 100
"""Links that are given to the scheduler when the spider is idle: few, since what they lead to may be worth more."""


class Held:
    """A bounded number of links, those after the fewest near duplicates in a row first. One address counts once."""

    def __init__(self, crawler: Any, most: int) -> None:
        self._crawler = crawler
        self._most = most
        self._chain_of: dict[bytes, int] = {}
        self._by_chain: dict[int, dict[bytes, Request]] = {}
        crawler.signals.connect(self._idle, signal=signals.spider_idle)
        crawler.signals.connect(self._closed, signal=signals.spider_closed)

    def __len__(self) -> int:
        return len(self._chain_of)

    def hold(self, request: Request, chain: int) -> bool:
        """Keep a link back; False where there is no room, or Scrapy is told to fetch it in any case."""
        if request.dont_filter:
            return False
        name = self._name(request)
        known = self._chain_of.get(name)
        if known is not None and known <= chain:
            return True
        if known is not None:
            del self._by_chain[known][name]
        elif len(self._chain_of) >= self._most:
            return False
        self._chain_of[name] = chain
        self._by_chain.setdefault(chain, {})[name] = request
        return True

    def forget(self, request: Request) -> None:
        """A link that now goes its usual way is not held any more."""
        if self._chain_of:
            name = self._name(request)
            chain = self._chain_of.pop(name, None)
            if chain is not None:
                del self._by_chain[chain][name]

    def take(self, most: int) -> list[Request]:
        """The next links to fetch."""
        taken: list[Request] = []
        while self._chain_of and len(taken) < most:
            chain = min(chain for chain, links in self._by_chain.items() if links)
            links = self._by_chain[chain]
            name = next(iter(links))
            taken.append(links.pop(name))
            del self._chain_of[name]
        return taken

    def _idle(self) -> None:
        """Nothing else is left. What Scrapy has fetched in the meantime it filters out itself."""
        taken = self.take(AT_ONCE)
        for request in taken:
            self._crawler.engine.crawl(request)
        if taken:
            raise DontCloseSpider

    def _closed(self) -> None:
        """A crawl that was ended before says how many it has left."""
        if self._chain_of:
            self._crawler.stats.set_value("simstream/links/left", len(self))

    def _name(self, request: Request) -> bytes:
        name: bytes = self._crawler.request_fingerprinter.fingerprint(request)
        return name
