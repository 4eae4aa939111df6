"""Predicts by patterns which addresses bring copies of pages that were fetched. Knows nothing of Scrapy.

A pattern counts in a crawl once so many pages with it, one after another, were copies of a page that was fetched
before: with its text, and without a link of their own. Verdicts know no links, so learning cannot see them.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from zlib import crc32

from simstream.tools.patterns.pattern import AddressPattern, PatternSet, PlainAddress

MAX_FETCHED = 100_000
"""So many plain addresses of fetched pages are remembered, the last ones: 20 MB."""
MAX_LISTS = 2_000
"""The links of so many last pages are remembered."""
MAX_LINKS = 1_000
"""At most so many links of a page are remembered. A page with more shows nothing about links."""
SAMPLE_EVERY = 100
"""One in so many addresses is fetched nevertheless, always the same ones."""


class CopyPredictor:
    """Remembers fetched pages on sites with patterns, and which patterns hold in this crawl. Bounded memory."""

    def __init__(self, patterns: PatternSet, trials: int) -> None:
        """`trials`: a pattern counts after so many copies in a row."""
        self._patterns = patterns
        self._trials = trials
        self._fetched: OrderedDict[int, str | None] = OrderedDict()
        """By the hash of a plain address: the cluster of the plain page, or of the first page."""
        self._links: OrderedDict[int, array[int]] = OrderedDict()
        self._copies: Counter[AddressPattern] = Counter()
        """For each pattern, how many pages in a row were copies."""

    def plain(self, url: str) -> PlainAddress | None:
        """Return an address without its patterns; None if its site has none."""
        return self._patterns.plain(url)

    def is_copy(self, plain: PlainAddress) -> bool:
        """Return whether an address brings a copy of a page that was fetched, by patterns that hold."""
        holds = all(self._copies[pattern] >= self._trials for pattern in plain.patterns)
        return bool(plain.patterns) and holds and hash(plain.text) in self._fetched

    def is_sample(self, url: str) -> bool:
        """Return whether an address is fetched nevertheless, so that a pattern that no longer holds shows."""
        return crc32(url.encode("utf-8", "surrogatepass")) % SAMPLE_EVERY == 0

    def add(self, plain: PlainAddress, cluster: str | None, links: set[int]) -> bool:
        """Take in a fetched page with enough text. `links`: the hashes of its links' plain addresses.

        Returns False if the page has a pattern, and another text than the page before it, or links of its own. The
        patterns of its address then have to hold anew.
        """
        name = hash(plain.text)
        if name not in self._fetched or not plain.patterns:
            self._fetched[name] = cluster
            self._links.pop(name, None)
            if len(links) <= MAX_LINKS:
                self._links[name] = array("q", links)
            for table, most in ((self._fetched, MAX_FETCHED), (self._links, MAX_LISTS)):
                if len(table) > most:
                    table.popitem(last=False)
            return True
        has_own = self._has_own(name, links)
        if has_own is None and self._fetched[name] == cluster:
            return True
        is_copy = self._fetched[name] == cluster and not has_own
        for pattern in plain.patterns:
            self._copies[pattern] = self._copies[pattern] + 1 if is_copy else 0
        return is_copy

    def _has_own(self, name: int, links: set[int]) -> bool | None:
        """Return whether a page has a link that the page before it lacks, to a page that was not fetched.

        None if the links are not known.
        """
        known = self._links.get(name)
        if known is None or len(links) > MAX_LINKS:
            return None
        return any(link not in self._fetched for link in links - set(known) - {name})
