"""Lets a response's verdict decide what happens to its links: the spider middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Self

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from simstream.client import RawPage
from simstream.crawlers.link_router import LinkRouter, router_of
from simstream.crawlers.origin import LinkOrigin
from simstream.crawlers.page_decision import is_duplicate
from simstream.model import Verdict
from simstream.wire.page import GONE

SKIP = "simstream_skip"
"""In a request's meta: its response is not sent."""
VERDICT = "simstream"
"""In a response's meta: its Verdict, or None. A callback that is a generator can read it there."""
TYPES = {"text/html": "text/html", "application/xhtml+xml": "text/html", "text/plain": "text/plain"}


class FrontierMiddleware:
    """Sends each HTML or text response to the service, and waits up to SIMSTREAM_WAIT seconds for its verdict.

    SIMSTREAM_LINKS decides whether the links of a near duplicate are tried, dropped, fetched last or followed. A
    response without a verdict in time, or of another type, is kept as if simstream were not there. A waiting
    response counts toward SCRAPER_SLOT_MAX_ACTIVE_SIZE, so a slow service slows the downloads. This middleware
    stands outside the middlewares that count and check links (Scrapy's own begin at 700): held links pass them
    only once.
    """

    def __init__(self, router: LinkRouter) -> None:
        self._router = router
        self._channel = router.channel

    @classmethod
    def from_crawler(cls, crawler: Any) -> Self:
        """What Scrapy calls. Raises SettingsError."""
        return cls(router_of(crawler))

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any], spider: Any = None
    ) -> AsyncIterator[Any]:
        """Yield the callback's output without what the verdict removes. The callback's generator has not begun."""
        number = self._router.number()
        origin = self._router.origin(response)
        verdict, is_awaited = await self._judge(response, origin, number)
        page = self._router.begin(response, origin, verdict, number, is_awaited)
        async for found in result:
            kept = self._router.route(found, page) if isinstance(found, Request) else self._item(found, verdict)
            if kept is not None:
                yield kept
        self._router.end(page)

    async def _judge(self, response: Response, origin: LinkOrigin, number: int) -> tuple[Verdict | None, bool]:
        """Return a response's verdict, and whether it may still come. Then the number finds its links."""
        page = None if response.meta.get(SKIP) else page_of(response)
        if page is None:
            self._channel.count("not_sent")
            response.meta[VERDICT] = None
            return None, False
        verdict = await self._channel.judge(page, partial(self._router.learn_late, number, origin))
        response.meta[VERDICT] = verdict
        return verdict, verdict is None and self._channel.options.wait > 0

    def _item(self, item: Any, verdict: Verdict | None) -> Any:
        if verdict is not None and is_duplicate(verdict) and self._channel.options.drop_items:
            self._channel.count("items/dropped")
            return None
        return item


class LateVerdictMiddleware:
    """Takes links out of the queue if a late verdict calls their page a near duplicate, or their kind is given up.

    A downloader middleware. The links then wait or are dropped, as after a verdict in time.
    """

    def __init__(self, router: LinkRouter) -> None:
        self._router = router

    @classmethod
    def from_crawler(cls, crawler: Any) -> Self:
        """What Scrapy calls. Raises SettingsError."""
        return cls(router_of(crawler))

    def process_request(self, request: Request, spider: Any = None) -> None:
        """Let a request pass. Raises IgnoreRequest for a request that must not be fetched now.

        Scrapy then calls no errback: nothing has failed, and a copy of the request may still be fetched.
        """
        if self._router.is_pruned(request):
            request.errback = None
            raise IgnoreRequest("its page is a near duplicate, or its kind of address brings only copies")


class FrontierAddon:
    """Installs both middlewares, each in its place: `ADDONS = {"simstream.crawlers.Addon": 100}`."""

    def update_settings(self, settings: Any) -> None:
        """What Scrapy calls."""
        for name, part, place in (
            ("SPIDER_MIDDLEWARES", FrontierMiddleware, 100),
            ("DOWNLOADER_MIDDLEWARES", LateVerdictMiddleware, 60),
        ):
            given = settings[name]
            if part not in given and f"simstream.crawlers.{part.__name__}" not in given:
                given[part] = place


def page_of(response: Response) -> RawPage | None:
    """Return the page of a response; None if it is neither HTML nor plain text, or empty and not gone.

    A form's answer is no page: it would take the place of the page at its address. But a renderer may be asked for
    a page by a POST to an address of its own.
    """
    given = (response.headers.get("Content-Type") or b"text/html").decode("latin-1")
    media, _, rest = given.partition(";")
    known = TYPES.get(media.strip().lower())
    asked = response.request
    is_form = asked is not None and asked.method != "GET" and asked.url == response.url
    if known is None or is_form or not (response.body or response.status in GONE):
        return None
    url = response.url.partition("#")[0]
    content_type = f"{known};{rest}" if rest else known
    return RawPage(url, response.body, content_type, time=_fetched_at(response), status=response.status)


def _fetched_at(response: Response) -> datetime | None:
    """Return when a response from Scrapy's HTTP cache was fetched; None for now, or if it does not say."""
    if "cached" not in response.flags:
        return None
    try:
        return parsedate_to_datetime((response.headers.get("Date") or b"").decode("latin-1"))
    except (ValueError, OverflowError):
        return None
