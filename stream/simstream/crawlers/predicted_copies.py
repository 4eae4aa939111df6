"""Predicts by patterns which addresses bring copies of pages that were fetched. Knows nothing of Scrapy.

Two forms of a page, such as its print page and its plain page, count as copies once so many pairs of them in a row
had one text, and the later page had no link of its own. This is counted for each kind of address: `?page=2` of an
article may hold its comments, and `?page=2` of an archive other articles. Verdicts know no links, so learning knows
none. And a file of patterns may be wrong: forms that its patterns call the same are compared two by two.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

from simstream.crawlers.address_kinds import kind_of
from simstream.tools.patterns.pattern import PatternSet, PlainAddress

MAX_FETCHED: Final = 100_000
"""So many plain addresses of fetched pages are remembered, the last ones: 30 MB."""
MAX_LISTS: Final = 2_000
"""The links of so many last pages are remembered."""
MAX_LINKS: Final = 1_000
"""At most so many links of a page are remembered. A page with more shows nothing about links."""
MAX_PAIRS: Final = 10_000
"""So many pairs of forms are remembered, the last ones."""
SAMPLE_EVERY: Final = 100
"""One in so many addresses is fetched nevertheless, always the same ones."""


Key = TypeVar("Key")
Value = TypeVar("Value")


class FetchedForm(NamedTuple):
    """A fetched page with enough text."""

    cluster: str | None
    form: int
    """The hash of the patterns in its address."""


class CopyPredictor:
    """Remembers fetched pages on sites with patterns, and which forms were copies in this crawl. Bounded memory."""

    def __init__(self, patterns: PatternSet, trials: int) -> None:
        """`trials`: a form counts as a copy of another after so many copies in a row."""
        self._patterns = patterns
        self._trials = trials
        self._fetched: OrderedDict[int, FetchedForm] = OrderedDict()
        """By the hash of a plain address: the plain page, or the first page with another form of the address."""
        self._links: OrderedDict[int, array[int]] = OrderedDict()
        self._copies: OrderedDict[tuple[int, int, str], int] = OrderedDict()
        """For a form, the form of the page before it, and the kind of their plain address: how many in a row were
        copies."""

    def plain(self, url: str) -> PlainAddress | None:
        """Return an address without its patterns; None if its site has none."""
        return self._patterns.plain(url)

    def is_copy(self, plain: PlainAddress) -> bool:
        """Return whether an address brings a copy of a page that was fetched."""
        before = self._fetched.get(hash(plain.text))
        if not plain.patterns or before is None:
            return False
        pair = hash(plain.patterns), before.form, kind_of(plain.text, with_name=True)
        return self._copies.get(pair, 0) >= self._trials

    def is_sample(self, url: str) -> bool:
        """Return whether an address is fetched nevertheless, so that a pattern that no longer holds shows."""
        return crc32(url.encode("utf-8", "surrogatepass")) % SAMPLE_EVERY == 0

    def add(self, plain: PlainAddress, cluster: str | None, links: set[int]) -> bool:
        """Take in a fetched page with enough text. `links`: the hashes of its links' plain addresses.

        Returns False if the page has a pattern, and another text than the page before it, or links of its own.
        For their kind of address, these two forms then have to be copies anew.
        """
        name, form = hash(plain.text), hash(plain.patterns)
        before = self._fetched.get(name)
        if before is None or not plain.patterns:
            _put(self._fetched, name, FetchedForm(cluster, form), MAX_FETCHED)
            self._links.pop(name, None)
            if len(links) <= MAX_LINKS:
                _put(self._links, name, array("q", links), MAX_LISTS)
            return True
        has_own = self._has_own(name, links)
        if has_own is None and before.cluster == cluster:
            return True
        is_copy = before.cluster == cluster and not has_own
        pair = form, before.form, kind_of(plain.text, with_name=True)
        _put(self._copies, pair, self._copies.get(pair, 0) + 1 if is_copy else 0, MAX_PAIRS)
        return is_copy

    def _has_own(self, name: int, links: set[int]) -> bool | None:
        """Return whether a page has a link that the page before it lacks, to a page that was not fetched.

        None if the links are not known.
        """
        known = self._links.get(name)
        if known is None or len(links) > MAX_LINKS:
            return None
        return any(link not in self._fetched for link in links - set(known) - {name})


def _put(table: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Set an entry, as the last one. Of more than `most`, the first is forgotten."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
