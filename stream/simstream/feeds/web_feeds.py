"""Answers news readers that poll: `/feed.atom` and `/feed.json`, with the filters of the list, and 304 if nothing
changed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from email.utils import formatdate
from hashlib import blake2b
from typing import Final

from aiohttp import web

from simstream.errors import UsageError
from simstream.feeds.slices import SearchRunner, unhurried
from simstream.feeds.state import FeedState
from simstream.feeds.syndication import (
    ATOM,
    JSON_FEED,
    MAX_ENTRIES,
    MAX_LISTED,
    FeedHead,
    entry_of,
    write_atom,
    write_json_feed,
)
from simstream.feeds.web_objects import asked_of
from simstream.text.titles import tidy

WRITERS: Final = {"/feed.atom": (ATOM, write_atom), "/feed.json": (JSON_FEED, write_json_feed)}
_HOST: Final = re.compile(r"[\w.:\[\]-]{1,255}", re.ASCII)


class FeedAnswers:
    """Makes the answers."""

    def __init__(self, feed: FeedState, searches: SearchRunner) -> None:
        self._feed = feed
        self._searches = searches
        self._revision = ""
        self._changed_at = 0

    async def answer(self, request: web.Request, revision: str) -> web.Response:
        """Return the stories that changed last, at most MAX_ENTRIES, as a feed. Raises UsageError, LogError.

        `revision` changes whenever the cards do. Call it only while the feed has cards.
        """
        cards, kind = self._feed.cards, WRITERS[request.path]
        asked, number, size = asked_of(
            {**request.query, "sort": "updated"}, MAX_ENTRIES, self._feed.fold.stream_time
        )
        since = self._note_change(revision)
        if since is not None and _has_since(request, since):
            return web.Response(status=304, headers={"Last-Modified": formatdate(since, usegmt=True)})
        work = cards.find(asked, (number - 1) * size, number * size)
        found, _ = await (self._searches.run(work) if not asked.is_all else unhurried(work))
        head = self._head(request)
        entries = []
        for card in found:
            entries.append(entry_of(head, self._feed.name, card, cards.spread(card, MAX_LISTED)))
            await asyncio.sleep(0)  # an entry takes about 0.5 ms
        body = kind[1](head, entries)
        tag = blake2b(body, digest_size=16).hexdigest()
        headers = {"ETag": f'"{tag}"'}
        if since is not None:
            headers["Last-Modified"] = formatdate(since, usegmt=True)
        if has_tag(request, tag):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=kind[0], charset="utf-8", headers=headers)

    def _head(self, request: web.Request) -> FeedHead:
        if not _HOST.fullmatch(request.host):
            raise UsageError("Host is not the name of a host", "ask with the name or address of this page")
        if not request.rel_url.raw_path_qs.isascii():
            raise UsageError("the address has bytes that are not escaped", "write each as %XX")
        proxied = request.headers.get("X-Forwarded-Proto", "").partition(",")[0]  # the first of several
        scheme = "https" if proxied.strip().lower() == "https" else "http"
        page = f"{scheme}://{request.host}/"
        about = ", ".join(tidy(request.query[name]) for name in ("site", "words") if request.query.get(name))
        return FeedHead(
            name=f"{self._feed.name}/{request.rel_url.raw_query_string}",
            title=f"simstream news: {about}" if about else "simstream news",
            page=page,
            address=page + request.rel_url.raw_path_qs[1:],
            now=self._feed.fold.stream_time,
        )

    def _note_change(self, revision: str) -> int | None:
        """Return the second since which nothing has changed; None if this second cannot be told to a reader yet.

        Each change gets a second of its own, which has begun: a reader that knows it has missed nothing.
        """
        now = int(time.time())
        if revision != self._revision:
            self._revision, self._changed_at = revision, max(now, self._changed_at + 1)
        return self._changed_at if self._changed_at <= now else None


def has_tag(request: web.Request, tag: str) -> bool:
    """Return whether the reader has the answer with this tag, given without quotes. Proxies may make tags weak."""
    return any(known.value in (tag, "*") for known in request.if_none_match or ())


def _has_since(request: web.Request, changed_at: int) -> bool:
    """Return whether the reader, which sent no tag, has what there was at this second.

    Only this very second tells: clocks differ, and this one may have been set back.
    """
    if "If-None-Match" in request.headers:
        return False
    with contextlib.suppress(OverflowError):  # a year with more digits than any date has
        since = request.if_modified_since
        return since is not None and int(since.timestamp()) == changed_at
    return False
