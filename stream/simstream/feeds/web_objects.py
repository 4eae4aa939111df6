"""Reads the query parameters of the news page's web API, and makes its JSON objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simstream.errors import UsageError
from simstream.feeds.cards import ORDERS, CardQuery, StoryCards
from simstream.feeds.fold import VerdictFold
from simstream.feeds.records import PageVersion
from simstream.feeds.shelves import StoryCard
from simstream.feeds.sites import owner_of, site_of
from simstream.wire.page import time_ms

CARDS_A_PAGE = 30
MAX_WORDS = 200
MAX_VERSIONS = 500
"""At most so many pages of a story are listed: the founder and the newest."""


def asked_of(query: Mapping[str, str], most: int, now: int = 0) -> tuple[CardQuery, int, int]:
    """Return the question in a query string, the number of the page (from 1), and its size. Raises UsageError.

    `sort`: newest, growing, largest or updated; `since`, `until`: ISO 8601 or ms since 1970; `hours`: the last so
    many hours before `now` (stream time, in ms); `at_least`: the fewest pages of a story; `sites`: the fewest
    sites; `words`: all must occur in its titles and sites; `site`: a site with a page in the story; `page`,
    `per_page`.
    """
    order = query.get("sort", "newest")
    if order not in ORDERS:
        raise UsageError("sort is not a known order", f"use one of {', '.join(ORDERS)}")
    asked = CardQuery(
        order=order,
        since=_latest(_time(query, "since"), _hours_before(now, query)),
        until=_time(query, "until"),
        at_least=_number(query, "at_least", 1, 1 << 31),
        sites=_number(query, "sites", 1, 1 << 31),
        words=query.get("words", "")[:MAX_WORDS],
        site=owner_of(query.get("site", "").strip()[:MAX_WORDS].lower().removeprefix("www.")),
    )
    return asked, _number(query, "page", 1, 1 << 31), _number(query, "per_page", CARDS_A_PAGE, most)


def story(card: StoryCard) -> dict[str, Any]:
    """Return a card as an object."""
    return {
        "id": str(card.cluster),
        "title": card.title,
        "newest_title": card.newest_title,
        "url": safe_url(card.url),
        "site": card.site,
        "sites": card.sites,
        "versions": card.pages,
        "first_seen": card.first,
        "last_seen": card.last,
        "growth": card.growth,
    }


def timeline(cards: StoryCards, card: StoryCard) -> dict[str, Any]:
    """Return the pages of a story by their times, at most MAX_VERSIONS, and the number of other pages."""
    members = cards.spread(card, MAX_VERSIONS)
    founder = members[0][0]
    listed = sorted(members, key=lambda member: (member[1].first, member[1].joined))
    return {
        "timeline": [_version(*member) | {"founder": member[0] == founder} for member in listed],
        "left_out": card.pages - len(listed),
    }


def left_out(fold: VerdictFold) -> dict[str, int]:
    """Return the number of pages that are not shown, by reason."""
    return {"too_old": fold.counts.too_old, "too_many": fold.counts.too_many, "lists": fold.lists}


def safe_url(url: str | None) -> str | None:
    """Return a URL that a reader may follow; None if it is not an address of the web that has a host.

    A backslash in its host or path is a slash, as for browsers: others could find another host than `site_of`.
    """
    if not (url and url[:8].lower().startswith(("http://", "https://")) and site_of("", url)):
        return None
    path = re.split("[?#]", url, maxsplit=1)[0]
    return path.replace("\\", "/") + url[len(path) :]


def _version(page_id: str, version: PageVersion) -> dict[str, Any]:
    return {
        "id": page_id,
        "title": version.title,
        "url": safe_url(version.url),
        "site": site_of(page_id, version.url),
        "verdict": version.verdict,
        "similarity": version.similarity,
        "near_duplicate_of": version.like,
        "first_seen": version.first,
        "last_seen": version.time,
    }


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _hours_before(now: int, query: Mapping[str, str]) -> int | None:
    hours = _number(query, "hours", 0, 1 << 20)
    return now - hours * 3_600_000 if hours and now else None


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 12 and 1 <= int(text) <= most):
        raise UsageError(f"{name} is out of range, or not a whole number", f"give a whole number from 1 to {most}")
    return int(text)


def _time(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    found = time_ms(int(text) if text.isascii() and text.isdigit() and len(text) < 18 else text)
    if found is None:
        raise UsageError(
            f"{name} is not a time",
            "give a time as 2026-03-02T08:00:00Z, or in ms since 1970, and write + in an address as %2B",
        )
    return found
