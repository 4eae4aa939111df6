"""Cards: what the feed shows of a cluster, made of its live pages, and made again only where these changed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from stream.feeds.fold import Fold
from stream.feeds.records import Version

GROWTH_MS = 6 * 3_600_000
"""A card's growth is how many of its pages are younger than this, or than a quarter of the window."""
Order = Literal["newest", "growing", "largest"]
ORDERS: tuple[Order, ...] = ("newest", "growing", "largest")


@dataclass(frozen=True, slots=True)
class Card:
    """A cluster as it is shown. Times are in ms since 1970, of pages in the window."""

    cluster: int
    title: str
    """Of the page that joined first."""
    newest_title: str
    """Of the one that joined last."""
    url: str | None
    site: str
    sites: int
    times: tuple[int, ...]
    """When each page was first seen, ascending."""
    last: int
    words: str
    """All titles and sites, in one case, to look for words in."""

    @property
    def first(self) -> int:
        """When the first page was seen."""
        return self.times[0]

    @property
    def pages(self) -> int:
        """How many pages, each counted once however often it was fetched."""
        return len(self.times)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reader wants to see; None or empty asks for no limit."""

    order: Order = "newest"
    since: int | None = None
    until: int | None = None
    at_least: int = 1
    words: str = ""


class Cards:
    """The cards of a fold. A look costs O(changed pages) and, where anything changed, sorting all cards."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._cards = {cluster: make_card(cluster, fold.members(cluster)) for cluster in fold.clusters()}
        fold.changed.clear()

    @property
    def growth_ms(self) -> int:
        """The span that growth is counted in."""
        return min(GROWTH_MS, self._fold.limits.window_ms // 4)

    def growth(self, card: Card) -> int:
        """How many pages joined within that span before stream time."""
        return card.pages - bisect_right(card.times, self._fold.stream_time - self.growth_ms)

    def get(self, cluster: int) -> Card | None:
        """The card of a cluster, by its id or that of one that was merged into it."""
        self._refresh()
        return self._cards.get(self._fold.root(cluster))

    def find(self, asked: Asked) -> list[Card]:
        """The cards that were asked for, in order; equal ones the younger first."""
        self._refresh()
        wanted = asked.words.casefold().split()
        found = [card for card in self._cards.values() if _fits(card, asked, wanted)]
        if asked.order == "newest":
            return sorted(found, key=lambda card: (-card.first, -card.cluster))
        if asked.order == "largest":
            return sorted(found, key=lambda card: (-card.pages, -card.last, -card.cluster))
        return sorted(found, key=lambda card: (-self.growth(card), -card.last, -card.cluster))

    def _refresh(self) -> None:
        while self._fold.changed:
            cluster = self._fold.changed.pop()
            members = self._fold.members(cluster)
            if members:
                self._cards[cluster] = make_card(cluster, members)
            else:
                self._cards.pop(cluster, None)


def make_card(cluster: int, members: list[tuple[str, Version]]) -> Card:
    """The card of a cluster's live pages, which are given in the order in which they joined."""
    versions = [version for _, version in members]
    sites = [site_of(page_id, version.url) for page_id, version in members]
    titles = [version.title for version in versions]
    return Card(
        cluster=cluster,
        title=next(filter(None, titles), ""),
        newest_title=next(filter(None, reversed(titles)), ""),
        url=versions[0].url,
        site=sites[0],
        sites=len(set(sites)),
        times=tuple(sorted(version.first for version in versions)),
        last=max(version.time for version in versions),
        words=" ".join(_once([*titles, *sites])).casefold(),
    )


def site_of(page_id: str, url: str | None) -> str:
    """The host of a page's URL, or of an id that is one; empty where there is none."""
    for text in (url, page_id):
        try:
            parts = urlsplit(text or "")
            if parts.scheme in ("http", "https") and parts.hostname:
                return parts.hostname.removeprefix("www.")
        except ValueError:
            continue
    return ""


def _fits(card: Card, asked: Asked, wanted: list[str]) -> bool:
    return (
        card.pages >= asked.at_least
        and (asked.since is None or card.last >= asked.since)
        and (asked.until is None or card.first <= asked.until)
        and all(word in card.words for word in wanted)
    )


def _once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
