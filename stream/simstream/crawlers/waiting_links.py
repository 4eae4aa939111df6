"""Keeps the links of near duplicates back until the spider has nothing else to fetch.

A lower priority alone would do harm, since Scrapy queues an address once: a link that stands first on a near
duplicate, and then on a page worth following, would stay behind all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider

from simstream.crawlers.origin import seen_again

MAX_LINKS_AT_ONCE = 100
"""So many links go to the scheduler when the spider is idle: few, since they may lead to better links."""


class WaitingLink(NamedTuple):
    """A waiting link. `chain` counts the near duplicates in a row that lead to it."""

    chain: int
    request: Request


class WaitingLinks:
    """Keeps a bounded number of links by kind of address.

    Within a kind, links after the fewest near duplicates in a row leave first. One address counts once. Links of a
    kind without trials stay until the end.
    """

    def __init__(
        self,
        crawler: Any,
        most: int,
        trials: Callable[[str], int],
        kind_now: Callable[[Request], str] | None = None,
    ) -> None:
        """`trials(kind)`: how many links of a kind may be fetched before the verdicts of their pages are known.

        `kind_now(link)`: the kind that a link has now, if what was fetched meanwhile may have changed it.
        """
        self._crawler = crawler
        self._name: Callable[[Request], bytes] = crawler.request_fingerprinter.fingerprint
        self._most = most
        self.trials = trials
        self._kind_now = kind_now
        self._kind_of: dict[bytes, str] = {}
        self._by_kind: dict[str, dict[bytes, WaitingLink]] = {}
        crawler.signals.connect(self._idle, signal=signals.spider_idle)

    def __len__(self) -> int:
        return len(self._kind_of)

    def hold(self, request: Request, chain: int, kind: str = "") -> bool:
        """Hold a link back. Return False if there is no room."""
        name = self._name(request)
        known = self._kind_of.get(name)
        if known is None and len(self._kind_of) >= self._most:
            return False
        links = self._by_kind.setdefault(kind if known is None else known, {})
        self._kind_of.setdefault(name, kind)
        before = links.get(name)
        if before is None or chain < before.chain or request.dont_filter:
            again = before is not None and before.request.dont_filter
            least = chain if before is None else min(chain, before.chain)
            links[name] = WaitingLink(least, seen_again(request) if again else request)
        return True

    def forget(self, request: Request) -> Request | None:
        """Remove and return the held link with this address, if any."""
        if not self._kind_of:
            return None
        name = self._name(request)
        kind = self._kind_of.pop(name, None)
        if kind is None:
            return None
        held = self._by_kind[kind].pop(name)
        if not self._by_kind[kind]:
            del self._by_kind[kind]
        return held.request

    def links(self) -> Iterator[tuple[str, Request]]:
        """Yield the waiting links with their kinds."""
        for kind, links in self._by_kind.items():
            for link in links.values():
                yield kind, link.request

    def take(self, most: int) -> list[Request]:
        """Return the next links to fetch, at most `most`. Cost: a look at every link of their kinds.

        Before it returns none, it looks at every link.
        """
        return self._take(most) or (self._take(most) if self._sort_anew() else [])

    def _take(self, most: int) -> list[Request]:
        taken: list[Request] = []
        given = Counter[str]()
        kinds = dict.fromkeys(self._by_kind)
        while kinds and len(taken) < most:
            kind = next(iter(kinds))
            del kinds[kind]
            room = min(self.trials(kind) - given[kind], most - len(taken))
            links = self._by_kind[kind]
            for name in sorted(links, key=lambda name: links[name].chain) if room > 0 else ():
                now = self._kind_of_link(links[name], kind)
                if now != kind:
                    self._by_kind.setdefault(now, {})[name] = links.pop(name)
                    self._kind_of[name] = now
                    kinds[now] = None
                elif room:
                    room -= 1
                    given[kind] += 1
                    taken.append(links.pop(name).request)
                    del self._kind_of[name]
                else:
                    break
            del self._by_kind[kind]
            if links:
                self._by_kind[kind] = links  # after the other kinds, so that each kind has its turn
        return taken

    def _kind_of_link(self, link: WaitingLink, kind: str) -> str:
        return kind if self._kind_now is None else self._kind_now(link.request)

    def _sort_anew(self) -> bool:
        """Put each link to the kind that it has now. Returns whether one had another kind."""
        before = self._by_kind
        self._by_kind, moved = {}, False
        for kind, links in before.items():
            for name, link in links.items():
                now = self._kind_of[name] = self._kind_of_link(link, kind)
                self._by_kind.setdefault(now, {})[name] = link
                moved |= now != kind
        return moved

    def _idle(self) -> None:
        """Give links to the idle spider. Scrapy filters out addresses that it has fetched meanwhile."""
        taken = self.take(MAX_LINKS_AT_ONCE)
        for request in taken:
            self._crawler.engine.crawl(request)
        if taken:
            self._crawler.stats.inc_value("simstream/links/tried", len(taken))
            raise DontCloseSpider
