"""The spider middleware: a response's verdict decides what becomes of its links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

from scrapy import Request
from scrapy.http import Response

from stream.client import RawPage
from stream.crawlers.channel import Channel, channel_of
from stream.crawlers.frontier import Decision, decide
from stream.crawlers.held import Held

CHAIN = "simstream_duplicates"
"""In a request's meta: how many near duplicates in a row lead to it."""
KEEP = "simstream_keep"
"""In a request's meta: the link is followed whatever page it stands on."""
SKIP = "simstream_skip"
"""In a request's meta: its response is not sent."""
VERDICT = "simstream"
"""In a response's meta: its Verdict, or None. A callback that is a generator finds it there."""
TYPES = {"text/html": "text/html", "application/xhtml+xml": "text/html", "text/plain": "text/plain"}


class FrontierMiddleware:
    """Sends each HTML or text response to the service and waits for its verdict, up to SIMSTREAM_WAIT seconds.

    The links of a near duplicate are dropped, deprioritized or followed (SIMSTREAM_LINKS). A response without a
    verdict in time, or of another kind, is kept as if simstream were not there. While a response waits it counts
    toward SCRAPER_SLOT_MAX_ACTIVE_SIZE, so a slow service slows the downloads. Its place is outside the middlewares
    that count and check links (Scrapy's own stand from 700 on): links that were held back do not pass those again.
    """

    def __init__(self, channel: Channel, held: Held | None = None) -> None:
        self._channel = channel
        self._held = held

    @classmethod
    def from_crawler(cls, crawler: Any) -> Self:
        """What Scrapy calls. Raises SettingsError."""
        channel = channel_of(crawler)
        options = channel.options
        return cls(channel, Held(crawler, options.held) if options.links == "deprioritize" else None)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any], spider: Any = None
    ) -> AsyncIterator[Any]:
        """The callback's output without what the verdict takes away; the callback's generator has not begun."""
        decision = await self._judged(response)
        async for found in result:
            kept = self._link(found, decision) if isinstance(found, Request) else self._item(found, decision)
            if kept is not None:
                yield kept

    async def _judged(self, response: Response) -> Decision:
        page = None if response.meta.get(SKIP) else page_of(response)
        if page is None:
            self._channel.count("not_sent")
        verdict = None if page is None else await self._channel.judge(page)
        response.meta[VERDICT] = verdict
        return decide(verdict, response.meta.get(CHAIN, 0), self._channel.options)

    def _link(self, request: Request, decision: Decision) -> Request | None:
        if request.meta.get(KEEP):
            return self._follow(request)
        if decision.drop:
            self._channel.count("links/dropped")
            return None
        if decision.chain or CHAIN in request.meta:  # a spider may hand on the whole meta of its page
            request.meta[CHAIN] = decision.chain
        if decision.priority:
            self._channel.count("links/deprioritized")
            late = request.replace(priority=request.priority + decision.priority)
            return None if self._held is not None and self._held.hold(late, decision.chain) else late
        return self._follow(request)

    def _follow(self, request: Request) -> Request:
        if self._held is not None:
            self._held.forget(request)
        return request

    def _item(self, item: Any, decision: Decision) -> Any:
        if decision.duplicate and self._channel.options.drop_items:
            self._channel.count("items/dropped")
            return None
        return item


def page_of(response: Response) -> RawPage | None:
    """The page that a response is; None for an empty one, or one that is neither HTML nor plain text."""
    given = (response.headers.get("Content-Type") or b"text/html").decode("latin-1")
    media, _, rest = given.partition(";")
    known = TYPES.get(media.strip().lower())
    if known is None or not response.body:
        return None
    url = response.url.partition("#")[0]
    return RawPage(url, response.body, f"{known};{rest}" if rest else known, status=response.status)
