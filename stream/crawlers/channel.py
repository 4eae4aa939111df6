"""A crawler's way to the service: one client, opened and closed with the spider, counted in Scrapy's stats."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import signals

from stream.client import AsyncClient
from stream.client.pages import Submitted
from stream.crawlers.options import Options, options_of
from stream.errors import ClientFull, LogError, SettingsError, SimstreamError, Unavailable
from stream.model import Verdict

logger = logging.getLogger("simstream.crawlers")
PREFIX = "simstream/"
LATE = 60.0
"""Seconds after which a verdict is not even counted as late any more, and its page makes room."""
AGAIN = 30.0
"""Seconds after which a log that was not to be had is tried again."""
_channels: WeakKeyDictionary[Any, Channel] = WeakKeyDictionary()


def channel_of(crawler: Any) -> Channel:
    """The one channel of a crawler, whoever asks first. Raises SettingsError."""
    channel = _channels.get(crawler)
    if channel is None:
        for name in ("asyncio", "twisted"):
            logging.getLogger(name).addFilter(_in_one_line)
        channel = _channels[crawler] = Channel(options_of(crawler.settings), crawler.stats)
        crawler.signals.connect(channel.open, signal=signals.spider_opened)
        crawler.signals.connect(channel.close, signal=signals.spider_closed)
    return channel


def _in_one_line(record: logging.LogRecord) -> bool:
    """For those who log what ended a crawl: wrong settings are one line, and no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, SettingsError):
        record.msg, record.args, record.exc_info = str(error), (), None
    return True


class Channel:
    """Sends pages and waits, for a bounded time, for their verdicts. Nothing that fails here ends a crawl."""

    def __init__(self, options: Options, stats: Any) -> None:
        """Raises SettingsError."""
        self.options = options
        self._stats = stats
        self._client: AsyncClient | None = None
        self._missed = 0
        """Pages in a row that had no verdict in time."""
        self._again_at = math.inf
        self._opening: asyncio.Future[None] | None = None
        self._made = AsyncClient(
            options.log, options.prefix, config=options.config, in_flight=options.in_flight, timeout=LATE
        )

    async def open(self) -> None:
        """Connect. Where that fails, it is said, and every page is kept; it is tried again while pages come."""
        try:
            _check_loop()
            await self._made.open()
            self._client = self._made
        except SimstreamError as error:
            if isinstance(error, LogError):
                self._again_at = time.monotonic() + AGAIN
            self.count(f"unavailable/{type(error).__name__}")
            logger.error("every page is kept, for %s", error)

    async def close(self) -> None:
        """Write what was sent, and wait no longer."""
        self._again_at = math.inf
        if self._opening is not None:
            await asyncio.wait({self._opening})
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def count(self, what: str, by: float = 1) -> None:
        """Add to one of Scrapy's stats."""
        self._stats.inc_value(PREFIX + what, by)

    async def judge(self, page: Submitted) -> Verdict | None:
        """The page's verdict; None where it has none in time: then the page is to be kept."""
        verdict = await self._judge(page)
        self.count(f"verdict/{verdict.verdict}" if verdict is not None else "no_verdict")
        return verdict

    async def _judge(self, page: Submitted) -> Verdict | None:
        if self._client is None:
            if time.monotonic() >= self._again_at:
                self._again_at = math.inf
                self._opening = asyncio.ensure_future(self.open())
            return None
        patient = self._missed < self.options.give_up_after
        began = time.monotonic()
        try:
            future = await self._client.submit(page, wait=self.options.room_wait if patient else 0.0)
        except ClientFull:
            self.count("no_room")
            self._miss()
            return None
        except SimstreamError as error:
            self._failed(error)
            return None
        self.count("pages")
        if not patient or not self.options.wait:
            future.add_done_callback(self._later)
            return None
        await asyncio.wait({future}, timeout=self.options.wait)
        self.count("waited_seconds", time.monotonic() - began)
        if future.done():
            return self._outcome(future)
        future.add_done_callback(self._later)
        self._miss()
        return None

    def _outcome(self, future: asyncio.Future[Verdict]) -> Verdict | None:
        """What a future that is over brought."""
        try:
            verdict = future.result()
        except SimstreamError as error:
            self._failed(error)
            return None
        self._missed = 0
        return verdict

    def _later(self, future: asyncio.Future[Verdict]) -> None:
        """The end of a page that nothing waits for."""
        if not future.cancelled() and future.exception() is None:
            self._missed = 0
            self.count("later_verdict")

    def _failed(self, error: SimstreamError) -> None:
        self.count(f"failed/{type(error).__name__}")
        logger.debug("%s", error)

    def _miss(self) -> None:
        self._missed += 1
        if self._missed == self.options.give_up_after:
            logger.warning(
                "%d pages in a row had no verdict in time: nothing waits until one comes. Is the service running? "
                "see: simstream status",
                self._missed,
            )


def _check_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise Unavailable(
            "simstream needs asyncio, which Scrapy's reactor does not run here",
            "leave TWISTED_REACTOR at its default, the asyncio reactor",
        ) from None
