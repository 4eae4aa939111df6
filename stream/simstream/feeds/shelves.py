"""Keeps the live pages of every group, in the orders that cards are made from.

Python's search for cycles skips the data of pages: it would stop the process for half a second. All shelves share
four orders. Keys begin with the shelf's number, so that a shelf of one page needs no list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from itertools import islice, takewhile

import msgspec
from sortedcontainers import SortedList

from simstream.feeds.expiry_times import ExpiryTimes
from simstream.feeds.records import PageVersion
from simstream.feeds.sites import owner_of, site_of
from simstream.feeds.title_words import TitleWords
from simstream.feeds.word_index import SLICE_PAGES, WordIndex


class StoryCard(msgspec.Struct, frozen=True, gc=False):
    """A cluster as the news page shows it. Times are in ms since 1970, of pages in the window."""

    cluster: int
    shelf: int
    """The number of the shelf with its pages."""
    title: str
    """The title of the page that joined first."""
    newest_title: str
    """The title of the page that joined last."""
    url: str | None
    site: str
    sites: int
    """The number of sites. A site with many hosts counts once."""
    pages: int
    """The number of pages. A page that was fetched often counts once."""
    growth: int
    """The number of sites with a young page."""
    first: int
    """The time at which the first page was seen."""
    last: int
    updated: int
    """The time at which the newest version was judged: unlike the pages' own times it grows with each version."""
    joined: int
    """The ordinal with which the newest version joined."""


class ShelvedPage(msgspec.Struct, frozen=True, gc=False):
    """A page on its shelf."""

    shelf: int
    version: PageVersion
    site: str
    owner: str

    @property
    def searched(self) -> str:
        """The text by whose words the page is found."""
        return f"{self.version.title} {self.site}"


class ShelfTally(msgspec.Struct, gc=False):
    """The counts of a shelf."""

    pages: int = 0
    young: int = 0
    """The number of sites with a young page."""
    sites: int = 0


class _SiteCounter:
    """Counts pages by shelf and by owner of their site."""

    def __init__(self) -> None:
        self._pages: Counter[tuple[int, str]] = Counter()

    def put(self, page: ShelvedPage) -> bool:
        """Count a page. Returns whether it is the first page of its site on its shelf."""
        key = (page.shelf, page.owner)
        self._pages[key] += 1
        return self._pages[key] == 1

    def take(self, page: ShelvedPage) -> bool:
        """Stop counting a page. Returns whether it was the last page of its site on its shelf."""
        key = (page.shelf, page.owner)
        self._pages[key] -= 1
        if self._pages[key]:
            return False
        del self._pages[key]
        return True

    def has(self, shelf: int, owner: str) -> bool:
        """Return whether the owner has a page on the shelf."""
        return (shelf, owner) in self._pages


class StoryShelves:
    """Pages by shelf. `put`, `take` and `card` cost O(log n) of all pages; a page is young for `growth_ms`."""

    def __init__(self, growth_ms: int, words: TitleWords) -> None:
        self._growth_ms = growth_ms
        self._words = WordIndex(words)
        self._placed: dict[str, ShelvedPage] = {}
        self._tallies: dict[int, ShelfTally] = {}
        self._joined, self._titled, self._firsts, self._lasts = (SortedList() for _ in range(4))
        self._sites = _SiteCounter()
        self._young_sites = _SiteCounter()
        self._young = ExpiryTimes()

    def put(self, page_id: str, shelf: int, version: PageVersion, now: int) -> None:
        """Put a page that is on no shelf on this shelf. `now` is stream time."""
        site = site_of(page_id, version.url)
        self._placed[page_id] = page = ShelvedPage(shelf, version, site, owner_of(site))
        key = (shelf, version.joined, page_id)
        self._joined.add(key)
        if version.title:
            self._titled.add(key)
        self._firsts.add((shelf, version.first, page_id))
        self._lasts.add((shelf, version.time, page_id))
        self._words.put(page_id, page.searched)
        tally = self._tallies.setdefault(shelf, ShelfTally())
        tally.pages += 1
        tally.sites += self._sites.put(page)
        if version.first + self._growth_ms > now:
            tally.young += self._young_sites.put(page)
            self._young.set(page_id, version.first + self._growth_ms)

    def take(self, page_id: str) -> int | None:
        """Take a page from its shelf. Returns the shelf's number; None if the page is on no shelf."""
        placed = self._placed.pop(page_id, None)
        if placed is None:
            return None
        shelf, version = placed.shelf, placed.version
        key = (shelf, version.joined, page_id)
        self._joined.remove(key)
        if version.title:
            self._titled.remove(key)
        self._firsts.remove((shelf, version.first, page_id))
        self._lasts.remove((shelf, version.time, page_id))
        self._words.take(page_id, placed.searched)
        tally = self._tallies[shelf]
        tally.pages -= 1
        tally.sites -= self._sites.take(placed)
        if self._young.drop(page_id):
            tally.young -= self._young_sites.take(placed)
        if not tally.pages:
            del self._tallies[shelf]
        return shelf

    def grow_old(self, now: int, most: int) -> list[int]:
        """Count pages that are no longer young as old, at most so many. Returns the shelf of each."""
        grown = [self._placed[page_id] for page_id in islice(self._young.ended(now), most)]
        for placed in grown:
            self._tallies[placed.shelf].young -= self._young_sites.take(placed)
        return [placed.shelf for placed in grown]

    def card(self, shelf: int, cluster: int) -> StoryCard | None:
        """Return the card of a shelf, with the id of its cluster; None if the shelf is empty."""
        tally = self._tallies.get(shelf)
        if tally is None:
            return None
        founder = self._placed[next(self._joined.irange((shelf,)))[2]]
        newest = self.version(next(self._joined.irange(None, (shelf + 1,), reverse=True))[2])
        return StoryCard(
            cluster=cluster,
            shelf=shelf,
            title=self._title(next(self._titled.irange((shelf,)), None), shelf),
            newest_title=self._title(next(self._titled.irange(None, (shelf + 1,), reverse=True), None), shelf),
            url=founder.version.url,
            site=founder.site,
            sites=tally.sites,
            pages=tally.pages,
            growth=tally.young,
            first=next(self._firsts.irange((shelf,)))[1],
            last=next(self._lasts.irange(None, (shelf + 1,), reverse=True))[1],
            updated=newest.judged or newest.first,
            joined=newest.joined,
        )

    def size(self, shelf: int) -> int:
        """Return the number of pages on a shelf."""
        tally = self._tallies.get(shelf)
        return tally.pages if tally is not None else 0

    def has_site(self, shelf: int, owner: str) -> bool:
        """Return whether a page on a shelf is of this owner's site."""
        return self._sites.has(shelf, owner)

    def oldest(self, shelf: int, most: int) -> list[str]:
        """Return the ids of the pages that joined first."""
        return self._ids(self._joined.irange((shelf,)), shelf, most)

    def newest(self, shelf: int, most: int) -> list[str]:
        """Return the ids of the pages that joined last, the last first."""
        return self._ids(self._joined.irange(None, (shelf + 1,), reverse=True), shelf, most)

    def version(self, page_id: str) -> PageVersion:
        """Return a page that is on a shelf."""
        return self._placed[page_id].version

    def find(self, question: list[set[str]]) -> Generator[None, None, set[int]]:
        """Return the shelves that have, for each part of the question, a page with all words of the part.

        Yields after each slice.
        """
        shelves: list[set[int]] = []
        for words in question:
            pages = yield from self._words.find(words)
            shelves.append(set())
            for start in range(0, len(pages), SLICE_PAGES):
                some = pages[start : start + SLICE_PAGES]
                shelves[-1].update(self._placed[page].shelf for page in some if page in self._placed)
                yield
        return set.intersection(*shelves)

    def _title(self, key: tuple[int, int, str] | None, shelf: int) -> str:
        return self._placed[key[2]].version.title if key is not None and key[0] == shelf else ""

    @staticmethod
    def _ids(keys: Iterator[tuple[int, int, str]], shelf: int, most: int) -> list[str]:
        return [key[2] for key in islice(takewhile(lambda key: key[0] == shelf, keys), most)]
