"""Runs the news page: compiles everything, takes its port and its place, reads, serves, and names what ended it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web

from simstream.compiling import announced
from simstream.errors import LogError, SimstreamError, UsageError
from simstream.feeds.comparison import READ_S, PageTexts
from simstream.feeds.connections import BoundedRunner
from simstream.feeds.fold import FoldLimits
from simstream.feeds.intake import NewsIntake
from simstream.feeds.reasons import REASONS
from simstream.feeds.records import PageVersion
from simstream.feeds.state import FeedState, news_name
from simstream.feeds.story_events import StoryEvents
from simstream.feeds.table import NewsMembership, TableAccess, TableTopic, table_cluster
from simstream.feeds.title_words import TitleWords
from simstream.feeds.warming import warm_news
from simstream.feeds.watch import FeedWatch, ends_of
from simstream.feeds.web import FeedWeb
from simstream.feeds.webhook import WebhookSender, WebhookTarget
from simstream.log import KAFKA, judged_prefix, open_log, options_of
from simstream.log.base import Log
from simstream.log.kafka.topics import create_table
from simstream.log.options import PAGES, VERDICTS
from simstream.processors import call_in_daemon
from simstream.roles.stop_deadline import StopDeadline
from simstream.settings import Settings
from simstream.telemetry.callers import bound, callers_of, url_of
from simstream.telemetry.news_metrics import NewsMetrics
from simstream.wire.page import PageLimits

MAX_COMPARED = 8
"""The number of comparisons that may wait for their turn; two run at once."""
Work = Callable[[], Coroutine[Any, Any, None]]
_logger = logging.getLogger("simstream.news")


class WebhookOptions(NamedTuple):
    """Where stories are told, and whether new versions are told, too."""

    target: WebhookTarget
    updates: bool


def run(settings: Settings, log: Log, webhook: WebhookOptions | None = None) -> None:
    """Serve the page until SIGTERM or Ctrl-C. Raises the errors of the log, and LogError for any other error."""
    callers = callers_of(settings.allowed_hosts, settings.http_host, settings.token_file)
    with ExitStack() as stack:
        listening = stack.enter_context(_listen(settings.http_host, settings.http_port))
        words = TitleWords(settings.cache_folder)
        with announced(_logger.info, "the news page"):
            warm_news(words)
        limits = FoldLimits() if settings.window_ms is None else FoldLimits(settings.window_ms)
        feed = FeedState(limits, words)
        followed, impatient = (  # once it reads, FeedWatch alone logs a silence, which may last without end
            stack.enter_context(open_log(settings.log, options_of(settings, patience, logs_silence=False)))
            for patience in (settings.give_up_s, READ_S)
        )
        of_pages = PageLimits(settings.max_record_bytes, settings.field_paths)
        metrics = NewsMetrics(judged_prefix(settings))
        web_app = web.Application()
        compare = _ComparisonRunner(feed, PageTexts(impatient, of_pages))
        FeedWeb(feed, compare, callers, metrics).serve_on(web_app)
        beside = [FeedWatch(feed, partial(ends_of, impatient)).run]
        if webhook is not None:
            events = StoryEvents(feed, webhook.updates)
            beside.append(WebhookSender(webhook.target, events, metrics).run)
        intake = stack.enter_context(
            NewsIntake(followed, feed, of_pages, partial(_open_table, settings, log, feed))
        )
        deadline = stack.enter_context(StopDeadline("the news page", settings.stop_timeout_s))
        asyncio.run(_serve(web_app, listening, intake, beside, deadline))


def _open_table(settings: Settings, log: Log, feed: FeedState) -> TableAccess | None:
    """Name the feed after its topic, and open its table; a log in a directory has none. Raises LogError."""
    verdicts, pages = log.topic(VERDICTS), log.topic(PAGES)
    feed.name = news_name(settings, verdicts)
    if not settings.log.startswith(KAFKA):
        return None
    cluster = table_cluster(settings, feed.name, pages)
    create_table(cluster)
    return TableAccess(TableTopic(cluster), NewsMembership(cluster))


async def _serve(
    web_app: web.Application,
    listening: socket.socket,
    intake: NewsIntake,
    beside: list[Work],
    deadline: StopDeadline,
) -> None:
    """Serve the page, read, and do the work beside, until a signal or an error."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    runner = BoundedRunner(web_app)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    host, port = listening.getsockname()[:2]
    _logger.info("stories and health on %s", url_of(host, port))
    reading = asyncio.ensure_future(intake.run())
    others = [asyncio.ensure_future(work()) for work in beside]
    stopping = asyncio.ensure_future(stop.wait())
    failed: SimstreamError | None = None
    try:
        ended, _ = await asyncio.wait([reading, stopping, *others], return_when=asyncio.FIRST_COMPLETED)
        if stopping in ended:
            _logger.info("the news page ends on request")
        failed = next((_named(one.exception()) for one in ended - {stopping}), None)
    finally:
        deadline.begin(failed)
        intake.stop()
        for one in (stopping, *others):
            one.cancel()
        await asyncio.wait([reading, stopping, *others])
        await runner.cleanup()
        # Here, where a second signal does not end it.
        await asyncio.wrap_future(call_in_daemon(intake.close, "question"))
    if failed is None and (late := reading.exception()) is not None:
        failed = _named(late)
    if failed is not None:
        raise failed


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket with this address; port 0 is any free port. Raises UsageError."""
    try:
        return bound(host, port)
    except OSError as error:
        where = f"{host} port {port}"
        raise UsageError(
            f"the page cannot listen on {where} ({error.strerror})",
            "choose another port with --http-port, or another address with --http-host",
        ) from None


def _named(error: BaseException | None) -> SimstreamError:
    if isinstance(error, SimstreamError):
        return error
    _logger.debug("the news page ended", exc_info=error)
    return LogError(f"the news page ended ({type(error).__name__}: {error})", "start it again")


def _take_error(task: asyncio.Future[Any]) -> None:
    """Take the error of a task whose caller may have given up, or asyncio would log it as nobody's."""
    if not task.cancelled():
        task.exception()


class _ComparisonRunner:
    """Compares two pages in a thread, two comparisons at once. Raises LogError if too many wait."""

    def __init__(self, feed: FeedState, texts: PageTexts) -> None:
        self._feed = feed
        self._texts = texts
        self._waiting = 0
        self._turn = asyncio.Semaphore(2)

    async def __call__(self, a: str, b: str) -> dict[str, Any]:
        pages = [(page_id, self._version(page_id)) for page_id in (a, b)]
        if self._waiting >= MAX_COMPARED:
            raise LogError(*REASONS["many_comparisons"])
        # A caller may give up, but a thread cannot: it keeps its turn until it is done.
        task = asyncio.ensure_future(self._take_turn(*pages))
        task.add_done_callback(_take_error)
        return await asyncio.shield(task)

    async def _take_turn(self, *pages: tuple[str, PageVersion]) -> dict[str, Any]:
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.wrap_future(call_in_daemon(partial(self._texts.compare, *pages), "question"))
        finally:
            self._waiting -= 1

    def _version(self, page_id: str) -> PageVersion:
        return self._feed.fold.versions[page_id]
