"""Keeps the cards, which the news page shows for each cluster, in four orders that stay sorted.

A story's size is the number of its sites: a site that repeats itself, or has mirrors, makes it no larger.

The cost of an answer grows with what it shows. Work over every card, such as a search, is a generator: it yields
after each slice, so that other tasks can go on.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Generator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from sortedcontainers import SortedList

from simstream.feeds.fold import VerdictFold
from simstream.feeds.records import PageVersion
from simstream.feeds.shelves import StoryCard, StoryShelves
from simstream.feeds.title_words import TitleWords
from simstream.settings import default_cache

GROWTH_MS = 6 * 3_600_000
"""A card's growth is the number of its sites with a page younger than this, or than a quarter of the window."""
SLICE_PAGES = 256
"""The number of pages or cards in one slice of work."""
MAX_SORTED_CARDS = 8192
"""Up to so many found cards are sorted at once (5 ms). More are taken from all cards in their order."""
Order = Literal["newest", "growing", "largest", "updated"]
ORDERS: tuple[Order, ...] = ("newest", "growing", "largest", "updated")


@dataclass(frozen=True, slots=True)
class CardQuery:
    """A reader's question; None or empty is no limit."""

    order: Order = "newest"
    since: int | None = None
    until: int | None = None
    at_least: int = 1
    """The fewest pages of a story."""
    sites: int = 1
    """The fewest sites of a story."""
    words: str = ""
    site: str = ""
    """The registered domain of a site with a page in the story."""

    @property
    def is_all(self) -> bool:
        """Return whether every card fits."""
        limits = (self.since is None, self.until is None, self.at_least <= 1, self.sites <= 1)
        return all(limits) and not self.words.split() and not self.site


class StoryCards:
    """The cards of a fold. They may be behind it: `refresh` updates them."""

    def __init__(self, fold: VerdictFold, words: TitleWords | None = None) -> None:
        """`words` cuts titles; None: with the dictionary of the default cache."""
        self._fold = fold
        self._words = words or TitleWords(default_cache())
        self.revision = 0
        """A number that grows whenever a card changes."""
        self.changed: dict[int, None] = {}
        """The clusters whose cards are new or have changed, if somebody asks for them: see `note_changes`."""
        self.note_changes = False
        self._shelves = StoryShelves(self.growth_ms, self._words)
        self._cards: dict[int, StoryCard] = {}
        """By cluster."""
        self._shown: dict[int, StoryCard] = {}
        """By shelf; the number of a shelf is that of its group."""
        self._orders: dict[Order, SortedList] = {order: SortedList() for order in ORDERS}

    @property
    def growth_ms(self) -> int:
        """The time before stream time in which growth is counted."""
        return min(GROWTH_MS, self._fold.limits.window_ms // 4)

    @property
    def behind(self) -> int:
        """The number of pages of the fold that changed, without merges."""
        return len(self._fold.groups.changes.pages)

    def __len__(self) -> int:
        return len(self._cards)

    def refresh(self) -> bool:
        """Take in at most SLICE_PAGES pages that changed; True where more have."""
        changes = self._fold.groups.changes
        shelves = set(changes.renamed)
        changes.renamed.clear()
        left = SLICE_PAGES
        while changes.pages and left:
            shelves.update(self._place(changes.pages.popitem()[0]))
            left -= 1
        while changes.emptied and left:
            moved = self._shelves.oldest(changes.emptied[0], left)
            for page_id in moved:
                shelves.update(self._place(page_id))
            left -= len(moved)
            if not self._shelves.size(changes.emptied[0]):
                changes.emptied.popleft()
        old = self._shelves.grow_old(self._fold.stream_time, left)
        shelves.update(old)
        self._show(shelves)
        return left == len(old)

    def get(self, cluster: int) -> StoryCard | None:
        """Return the card of a cluster, by its id or the id of a cluster that was merged into it."""
        return self._cards.get(self._fold.groups.root(cluster))

    def all(self) -> Collection[StoryCard]:
        """Return all cards, as they are now."""
        return self._cards.values()

    def spread(self, card: StoryCard, most: int) -> list[tuple[str, PageVersion]]:
        """Return a card's pages in the order in which they joined.

        Of more than `most`, returns the first and the newest.
        """
        newest = self._shelves.newest(card.shelf, most)
        founder = self._shelves.oldest(card.shelf, 1)
        listed = newest[::-1] if newest[-1:] == founder else founder + newest[-2::-1]
        return [(page_id, self._shelves.version(page_id)) for page_id in listed]

    def find(self, query: CardQuery, start: int, stop: int) -> Generator[None, None, tuple[list[StoryCard], int]]:
        """Return the cards `start` to `stop` (excluded) of the answer, and the number of cards in the whole answer.

        Equal cards come by cluster, the younger first. A search yields after each slice. A question for all cards
        never yields.
        """
        order = self._orders[query.order]
        if query.is_all:
            return [self._cards[-key[-1]] for key in order[start:stop]], len(order)
        question = self._words.of_question(query.words)
        shelves = (yield from self._shelves.find(question)) if question else None
        if shelves is not None and len(shelves) <= MAX_SORTED_CARDS:
            return (yield from self._sort(query, list(shelves), start, stop))
        return (yield from self._walk(query, shelves, start, stop))

    def _sort(
        self, query: CardQuery, shelves: list[int], start: int, stop: int
    ) -> Generator[None, None, tuple[list[StoryCard], int]]:
        """Sort the cards of these shelves that fit."""
        keys: list[tuple[int, ...]] = []
        for first in range(0, len(shelves), SLICE_PAGES):
            cards = [self._shown.get(shelf) for shelf in shelves[first : first + SLICE_PAGES]]
            keys += [_key(query.order, card) for card in cards if card is not None and self._fits(card, query)]
            yield
        keys = sorted(set(keys))  # a story that has moved to another shelf may have come twice
        found = (self._cards.get(-key[-1]) for key in keys[start:stop])
        return [card for card in found if card is not None], len(keys)

    def _walk(
        self, query: CardQuery, shelves: Container[int] | None, start: int, stop: int
    ) -> Generator[None, None, tuple[list[StoryCard], int]]:
        """Look at all cards in their order, and return those that fit and stand on one of the shelves."""
        order = self._orders[query.order]
        found: list[StoryCard] = []
        fitting: set[int] = set()
        last: tuple[int, ...] = ()
        while keys := list(islice(order.irange(last, inclusive=(False, True)), SLICE_PAGES)):
            last = keys[-1]
            for cluster in (-key[-1] for key in keys):
                card = self._cards.get(cluster)
                if card is None or cluster in fitting or not self._fits(card, query):
                    continue  # cards come, leave and move while other tasks go on
                if shelves is not None and card.shelf not in shelves:
                    continue
                if start <= len(fitting) < stop:
                    found.append(card)
                fitting.add(cluster)
            yield
        return found, len(fitting)

    def _place(self, page_id: str) -> set[int]:
        """Put a page on its shelf. Returns the numbers of the changed shelves."""
        before = self._shelves.take(page_id)
        group = self._fold.groups.home(page_id)
        if group is not None:
            self._shelves.put(page_id, group.number, self._fold.versions[page_id], self._fold.stream_time)
        changed = (before, None if group is None else group.number)
        return {shelf for shelf in changed if shelf is not None}

    def _show(self, shelves: set[int]) -> None:
        """Make new cards for these shelves. A shelf has none if its group was merged into another."""
        self.revision += bool(shelves)
        for shelf in shelves:
            card = self._shown.pop(shelf, None)
            if card is not None:
                del self._cards[card.cluster]
                for order, keys in self._orders.items():
                    keys.remove(_key(order, card))
        for shelf in shelves:
            group = self._fold.groups.numbered(shelf)
            card = self._shelves.card(shelf, group.cluster) if group is not None else None
            if card is not None:
                self._shown[shelf] = self._cards[card.cluster] = card
                if self.note_changes:
                    self.changed[card.cluster] = None
                for order, keys in self._orders.items():
                    keys.add(_key(order, card))

    def _fits(self, card: StoryCard, query: CardQuery) -> bool:
        return (
            card.pages >= query.at_least
            and card.sites >= query.sites
            and (query.since is None or card.last >= query.since)
            and (query.until is None or card.first <= query.until)
            and (not query.site or self._shelves.has_site(card.shelf, query.site))
        )


def _key(order: Order, card: StoryCard) -> tuple[int, ...]:
    """Return the key of a card in an order."""
    if order == "newest":
        return (-card.first, -card.cluster)
    if order == "updated":
        return (-card.joined, -card.cluster)
    if order == "largest":
        return (-card.sites, -card.pages, -card.last, -card.cluster)
    return (-card.growth, -card.last, -card.cluster)
