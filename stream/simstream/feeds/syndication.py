"""Writes stories as an Atom feed (RFC 4287) and as a JSON Feed (version 1.1), which news readers poll.

Titles and addresses are strangers'. Atom and HTML are built as trees, so everything in them is escaped; titles have
no control characters (`tidy`), and an address that is not one of the web, or too long, is left out.
"""

from __future__ import annotations

import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from simstream.feeds.records import PageVersion
from simstream.feeds.shelves import StoryCard
from simstream.feeds.sites import site_of
from simstream.feeds.web_objects import safe_url
from simstream.sources.addresses import names_web_server
from simstream.text.titles import tidy

ATOM: Final = "application/atom+xml"
JSON_FEED: Final = "application/feed+json"
MAX_ENTRIES: Final = 100
"""The most stories in a feed."""
MAX_LISTED: Final = 10
"""The most versions that an entry lists: the founder and the newest."""
MAX_URL_CHARS: Final = 2_048
MAX_FEED_BYTES: Final = 1 << 20
"""A feed ends before the entry that would make it longer, and has at least one entry."""
_KEPT_IN_URLS: Final = "%/:?#[]@!$&'()*+,;=~"
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""


@dataclass(frozen=True, slots=True)
class FeedHead:
    """What a feed says about itself. `page` and `address` are absolute URLs of the news page and of the feed."""

    name: str
    """The feed's lasting name: that of the log, and of the filters."""
    title: str
    page: str
    address: str
    now: int
    """Stream time, in ms since 1970: the time of a feed without entries."""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A story in a feed. Times are in ms since 1970."""

    id: str
    """Stays the same as long as the story's cluster."""
    title: str
    page: str
    """The story on the news page."""
    url: str | None
    """The story's first page."""
    published: int
    updated: int
    """The time at which the newest version was judged."""
    versions: tuple[tuple[str, str], ...]
    """Titles and URLs of the listed versions."""
    html: str
    facts: dict[str, str | int]


def entry_of(head: FeedHead, log: str, card: StoryCard, members: Iterable[tuple[str, PageVersion]]) -> FeedEntry:
    """Return a story as an entry. `log` names the log whose clusters are counted."""
    listed = [_listed(*member) for member in members]
    return FeedEntry(
        id=story_urn(log, card.cluster),
        title=tidy(card.title) or tidy(card.site) or "Untitled",
        page=f"{head.page}#story/{card.cluster}",
        url=web_address(card.url),
        published=card.first,
        updated=card.updated,
        versions=tuple((title, url) for title, url, _ in listed if url),
        html=_html(card, listed),
        facts={"story": str(card.cluster), "sites": card.sites, "versions": card.pages, "growth": card.growth},
    )


def write_atom(head: FeedHead, entries: Iterable[FeedEntry]) -> bytes:
    """Return an Atom feed in UTF-8, of at most about MAX_FEED_BYTES."""
    feed = ET.Element("feed", xmlns="http://www.w3.org/2005/Atom")
    _add(feed, "id", _urn(head.name))
    _add(feed, "title", head.title)
    updated = _add(feed, "updated")
    _add(_add(feed, "author"), "name", "simstream")
    ET.SubElement(feed, "link", rel="self", type=ATOM, href=head.address)
    ET.SubElement(feed, "link", rel="alternate", type="text/html", href=head.page)
    newest, size = -1, 0
    for entry in entries:
        node = _atom_entry(entry)
        size += len(ET.tostring(node, encoding="utf-8"))
        if newest >= 0 and size > MAX_FEED_BYTES:
            break
        feed.append(node)
        newest = max(newest, entry.updated)
    updated.text = _time(newest if newest >= 0 else head.now)
    return bytes(ET.tostring(feed, encoding="utf-8", xml_declaration=True))


def write_json_feed(head: FeedHead, entries: Iterable[FeedEntry]) -> bytes:
    """Return a JSON Feed, of at most about MAX_FEED_BYTES."""
    items: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        item = _json_item(entry)
        size += len(msgspec.json.encode(item))
        if items and size > MAX_FEED_BYTES:
            break
        items.append(item)
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": head.title,
        "home_page_url": head.page,
        "feed_url": head.address,
        "authors": [{"name": "simstream"}],
        "items": items,
    }
    return msgspec.json.encode(feed)


def story_urn(log: str, cluster: int) -> str:
    """Return the id of a story in feeds and webhooks. `log` names the log whose clusters are counted."""
    return _urn(f"{log}/{cluster}")


def web_address(url: str | None) -> str | None:
    """Return an address of the web in ASCII, which a reader may follow; None for any other address."""
    if not (url := safe_url(url)) or len(url) > MAX_URL_CHARS or not names_web_server(url):
        return None
    return quote(url, safe=_KEPT_IN_URLS, errors="replace")


def _atom_entry(entry: FeedEntry) -> ET.Element:
    node = ET.Element("entry")
    _add(node, "id", entry.id)
    _add(node, "title", entry.title)
    _add(node, "published", _time(entry.published))
    _add(node, "updated", _time(entry.updated))
    ET.SubElement(node, "link", rel="alternate", type="text/html", href=entry.page)
    if entry.url:
        ET.SubElement(node, "link", rel="via", href=entry.url)
    for title, url in entry.versions:
        ET.SubElement(node, "link", rel="related", href=url, title=title)
    _add(node, "content", entry.html).set("type", "html")
    return node


def _json_item(entry: FeedEntry) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": entry.id,
        "url": entry.page,
        "title": entry.title,
        "content_html": entry.html,
        "date_published": _time(entry.published),
        "date_modified": _time(entry.updated),
        "_simstream": entry.facts,
    }
    return item | ({"external_url": entry.url} if entry.url else {})


def _listed(page_id: str, version: PageVersion) -> tuple[str, str | None, str]:
    """Return a version's title, its URL, and what else is said of it."""
    site = tidy(site_of(page_id, version.url))
    alike = "" if version.similarity is None else f"similarity {version.similarity:.2f}"
    facts = ", ".join(filter(None, (site, _time(version.first), alike)))
    return tidy(version.title) or site or "Untitled", web_address(version.url), facts


def _html(card: StoryCard, listed: list[tuple[str, str | None, str]]) -> str:
    """Return the numbers of a story, and a list of its versions, as HTML."""
    body = ET.Element("div")
    _add(body, "p", f"Sites: {card.sites}. Pages: {card.pages}.")
    rows = ET.SubElement(body, "ol")
    for title, url, facts in listed:
        row = ET.SubElement(rows, "li")
        if url:
            ET.SubElement(row, "a", href=url).text = title
            row[0].tail = f" ({facts})"
        else:
            row.text = f"{title} ({facts})"
    return ET.tostring(body, encoding="unicode", method="html")


def _add(parent: ET.Element, name: str, text: str | None = None) -> ET.Element:
    node = ET.SubElement(parent, name)
    node.text = text
    return node


def _urn(name: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"simstream:{name}").urn


def _time(ms: int) -> str:
    return datetime.fromtimestamp(min(max(ms, 0), _LAST_MS) // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
