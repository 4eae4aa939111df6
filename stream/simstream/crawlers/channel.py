"""Connects a crawler to the service: one client for each spider, counted in Scrapy's stats."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from scrapy import signals

from simstream.client import AsyncClient
from simstream.client.pages import Submitted
from simstream.client.traffic import MAX_CLOSE_S
from simstream.crawlers.options import CrawlOptions, options_of
from simstream.errors import (
    ClientError,
    ClientFull,
    LogError,
    SimstreamError,
    Unavailable,
    UsageError,
)
from simstream.log import absolute_address
from simstream.model import Verdict

logger = logging.getLogger("simstream.crawlers")
PREFIX = "simstream/"
MAX_LATE_S = 60.0
"""Seconds after which a late verdict no longer counts, and its page makes room."""
HURRIED_LATE_S = 1.0
"""The same while no verdicts come and half of the places are taken: later pages must reach the log, too."""
RETRY_S = 30.0
"""Seconds until the next attempt to connect."""
Later = Callable[[Verdict], None]
_CHANNEL = "_simstream_channel"
"""A crawler's attribute. In a table by crawler both would stay for ever, since the stats refer to the crawler."""


def _nothing(verdict: Verdict) -> None:
    """Ignore a late verdict."""


def channel_of(crawler: Any) -> VerdictChannel:
    """Return the channel of a crawler; the first call makes it. Raises SettingsError."""
    channel: VerdictChannel | None = getattr(crawler, _CHANNEL, None)
    if channel is None:
        for name in ("asyncio", "twisted"):
            logging.getLogger(name).addFilter(_in_one_line)
        channel = VerdictChannel(options_of(crawler.settings), crawler.stats)
        setattr(crawler, _CHANNEL, channel)
        crawler.signals.connect(channel.open, signal=signals.spider_opened)
        crawler.signals.connect(channel.close, signal=signals.spider_closed)
    return channel


def _in_one_line(record: logging.LogRecord) -> bool:
    """Log wrong settings that end a crawl as one line, without a traceback. A filter for loggers."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, UsageError):
        record.msg, record.args, record.exc_info = str(error), (), None
    return True


class VerdictChannel:
    """Sends pages, and waits a bounded time for their verdicts. No failure here ends a crawl."""

    def __init__(self, options: CrawlOptions, stats: Any) -> None:
        """Read the settings of the crawler. Raises SettingsError."""
        self.options = options
        self._stats = stats
        self._client: AsyncClient | None = None
        self._missed = 0
        """The number of pages in a row without a verdict in time."""
        self._missing_since = 0.0
        self._late = 0
        """The number of pages whose late verdicts may still come."""
        self._told: set[str] = set()
        """The kinds of errors that were logged."""
        self._again_at = math.inf
        self._opening: asyncio.Future[None] | None = None
        self._made = self._make()
        log, config = options.log, options.config
        self.options = replace(  # the next client is made alike, whatever the working directory is then
            options, log=log and absolute_address(log), config=config and os.path.abspath(config)
        )
        self._ending: asyncio.Future[None] | None = None

    def _make(self) -> AsyncClient:
        """Return a client that is not open yet."""
        options = self.options
        return AsyncClient(
            options.log,
            options.prefix,
            pages_topic=options.pages_topic,
            verdicts_topic=options.verdicts_topic,
            config=options.config,
            in_flight=options.in_flight,
            timeout=MAX_LATE_S,
        )

    async def open(self) -> None:
        """Connect. A failure is logged: then every page is kept, and later pages try again."""
        try:
            _check_loop()
            await self._made.open()
            self._client = self._made
            if self._opening is not None:
                logger.warning("simstream's log answers: pages are judged from now on")
        except SimstreamError as error:
            if isinstance(error, LogError):
                self._again_at = time.monotonic() + RETRY_S
            self.count(f"unavailable/{type(error).__name__}")
            logger.error("every page is kept, since no page is judged: %s", error)

    async def close(self) -> None:
        """Write all sent pages, and stop waiting for verdicts."""
        self._again_at = math.inf
        if self._opening is not None:
            await asyncio.wait({self._opening}, timeout=MAX_CLOSE_S)
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def count(self, what: str, by: float = 1) -> None:
        """Add to one of Scrapy's stats."""
        self._stats.inc_value(PREFIX + what, by)

    async def judge(self, page: Submitted, later: Later = _nothing) -> Verdict | None:
        """Return the page's verdict, or None if it does not come in time: then keep the page.

        `later` hears a verdict that comes too late, but within MAX_LATE_S seconds.
        """
        verdict = await self._judge(page, later)
        self.count(f"verdict/{verdict.verdict}" if verdict is not None else "no_verdict")
        return verdict

    async def _judge(self, page: Submitted, later: Later) -> Verdict | None:
        if self._client is None:
            if time.monotonic() >= self._again_at:
                self._again_at = math.inf
                self._opening = asyncio.ensure_future(self.open())
            return None
        patient = self._missed < self.options.give_up_after
        is_hurried = not patient and self._late >= self.options.in_flight // 2
        room_wait = self.options.room_wait if patient else 0.0
        began = time.monotonic()
        try:
            future = await self._client.submit(
                page, wait=room_wait, timeout=HURRIED_LATE_S if is_hurried else MAX_LATE_S
            )
        except ClientFull:
            self.count("no_room")
            self._miss()
            return None
        except SimstreamError as error:
            self._failed(error)
            return None
        self.count("pages")
        if not patient or not self.options.wait:
            self._await_later(later, future)
            return None
        await asyncio.wait({future}, timeout=self.options.wait)
        self.count("waited_seconds", time.monotonic() - began)
        if future.done():
            return self._outcome(future)
        self._await_later(later, future)
        self._miss()
        return None

    def _await_later(self, later: Later, future: asyncio.Future[Verdict]) -> None:
        self._late += 1
        future.add_done_callback(partial(self._later, later))

    def _outcome(self, future: asyncio.Future[Verdict]) -> Verdict | None:
        """Return the result or the error of a completed future."""
        try:
            verdict = future.result()
        except SimstreamError as error:
            self._failed(error)
            return None
        self._answered()
        return verdict

    def _later(self, later: Later, future: asyncio.Future[Verdict]) -> None:
        """End a page that nothing waits for."""
        self._late -= 1
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._answered()
            self.count("later_verdict")
            if self.options.wait:
                later(future.result())
        elif isinstance(error, SimstreamError):
            self._failed(error)

    def _answered(self) -> None:
        """Note that a verdict came. After an outage, log it, and let pages wait for their verdicts again."""
        if self._missed >= self.options.give_up_after:
            logger.warning(
                "verdicts come again, after %.0f s without any: pages wait for their verdicts from now on",
                time.monotonic() - self._missing_since,
            )
        self._missed = 0

    def _failed(self, error: SimstreamError) -> None:
        """Count a page without a verdict, and log the cause once for each kind of error."""
        name = type(error).__name__
        level = logging.DEBUG if name in self._told or isinstance(error, ClientError) else logging.WARNING
        self._told.add(name)
        self.count(f"failed/{name}")
        logger.log(level, "a page has no verdict, and is kept: %s", error)
        client = self._client
        if client is not None and client.ended:
            self._client, self._made = None, self._make()
            self._again_at = time.monotonic() + RETRY_S
            self._ending = asyncio.ensure_future(client.close())

    def _miss(self) -> None:
        self._missed += 1
        if self._missed == 1:
            self._missing_since = time.monotonic()
        if self._missed == self.options.give_up_after:
            logger.warning(
                "%d pages in a row had no verdict in time: until a verdict comes, no page waits. Check with "
                "`simstream status` that the service runs",
                self._missed,
            )


def _check_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise Unavailable(
            "simstream needs asyncio, and this Scrapy reactor does not run it",
            "set TWISTED_REACTOR to twisted.internet.asyncioreactor.AsyncioSelectorReactor, its default",
        ) from None
