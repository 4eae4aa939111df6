"""Decides which stories are news: new ones, and stories with a new version, each told once.

Nothing that the news page knows from its table is news. Until it was up to date once, nothing is news, over any
number of restarts: it only reads what is old. A new story waits for the record of its first page: only the record
says its title, and whether the page is a list of links. So does a later version of it that no page has a title for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from simstream.feeds.cards import SLICE_PAGES, StoryCards
from simstream.feeds.records import PageVersion
from simstream.feeds.shelves import StoryCard
from simstream.feeds.state import FeedState
from simstream.feeds.syndication import story_urn
from simstream.feeds.web_objects import story


class StoryEvent(msgspec.Struct, frozen=True):
    """What happened to a story. The id depends only on the log, so the same event always has the same id."""

    id: str
    body: bytes


class StoryEvents:
    """Finds the events. `updates`: a new version of a known story is an event, too."""

    def __init__(self, feed: FeedState, updates: bool) -> None:
        self._feed = feed
        self._updates = updates
        self._cards: StoryCards | None = None
        self._is_silent = False
        self._has_more = False
        self._told: dict[int, int] = {}
        """By cluster, the ordinal with which the newest version that was told joined."""
        feed.on_start.append(self._begin)

    @property
    def has_more(self) -> bool:
        """Whether changed pages or cards wait for the next call of `take`."""
        return self._cards is not None and (self._has_more or bool(self._cards.changed))

    def take(self) -> Iterator[StoryEvent]:
        """Yield the events of at most SLICE_PAGES changed stories since the last call."""
        if self._cards is None:
            return
        self._has_more = self._cards.refresh()
        changed = self._cards.changed
        for cluster in [changed.popitem()[0] for _ in range(min(len(changed), SLICE_PAGES))]:
            yield from self._look(cluster)
        if self._feed.condition.state == "ready" and not self.has_more:
            self._is_silent = False
        if len(self._told) > 2 * len(self._cards) + 1_000:
            self._told = {cluster: told for cluster, told in self._told.items() if self._cards.get(cluster)}

    def _begin(self, cards: StoryCards) -> None:
        """Take what the table held as told, but not stories that still wait for their first pages' records."""
        self._is_silent = not self._feed.fold.counts.was_up_to_date
        self._cards = cards
        for card in cards.all():
            founder = self._founder(card)
            is_new = founder.joined == card.cluster  # else its first page came again: it was told before
            if self._is_silent or not (is_new and _awaits_record(founder)):
                self._note(card)
        cards.changed.clear()

    def _look(self, cluster: int) -> Iterator[StoryEvent]:
        assert self._cards is not None
        card = self._cards.get(cluster)
        if card is None:
            return
        told = self._told.get(card.cluster)
        if self._is_silent or (told is not None and (card.joined <= told or not self._updates)):
            self._note(card)
        elif (told is not None and card.title) or not _awaits_record(self._founder(card)):
            # once the record comes, or is given up, the card changes
            self._note(card)
            yield self._event(card, "story.created" if told is None else "story.updated")

    def _note(self, card: StoryCard) -> None:
        self._told[card.cluster] = max(card.joined, self._told.get(card.cluster, -1))

    def _founder(self, card: StoryCard) -> PageVersion:
        assert self._cards is not None
        [(_, founder), *_] = self._cards.spread(card, 1)
        return founder

    def _event(self, card: StoryCard, kind: str) -> StoryEvent:
        urn = story_urn(self._feed.name, card.cluster)
        body: dict[str, Any] = {
            "type": kind,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "data": story(card) | {"feed_id": urn},
        }
        number = card.cluster if kind == "story.created" else card.joined
        return StoryEvent(f"{urn.rpartition(':')[2]}.{kind.rpartition('.')[2]}.{number}", msgspec.json.encode(body))


def _awaits_record(page: PageVersion) -> bool:
    return page.awaits_title and not page.title
