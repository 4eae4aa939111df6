"""Runs the news page: checks and compiles everything before Faust starts, and names what ended it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import msgspec
from faust.web.base import BlueprintManager

from simstream.closing import Closing
from simstream.compiling import announced
from simstream.errors import LogError, SimstreamError, UsageError
from simstream.feeds.app import TABLE, FeedState, FeedTopics, app_name, make_app
from simstream.feeds.comparison import READ_S, PageTexts
from simstream.feeds.connections import BoundedRunner
from simstream.feeds.fold import FoldLimits
from simstream.feeds.prepare import (
    SESSION_S,
    begin_everywhere,
    cluster_of,
    make_table_topic,
    wait_alone,
)
from simstream.feeds.reasons import REASONS
from simstream.feeds.records import PageVersion
from simstream.feeds.story_events import StoryEvents
from simstream.feeds.title_words import TitleWords
from simstream.feeds.warming import warm_news
from simstream.feeds.watch import FeedWatch, ends_of
from simstream.feeds.web import FeedWeb
from simstream.feeds.webhook import WebhookSender, WebhookTarget
from simstream.log import open_log, options_of
from simstream.log.base import PAGES, VERDICTS, Log
from simstream.settings import Settings
from simstream.telemetry.callers import callers_of
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
    """Serve the page until SIGTERM or Ctrl-C. Raises the errors of the log, and LogError for errors of Faust."""
    callers = callers_of(settings.allowed_hosts, settings.http_host, settings.token_file)
    verdicts, pages = log.topic(VERDICTS), log.topic(PAGES)
    settings = msgspec.structs.replace(settings, http_port=_port(settings.http_host, settings.http_port))
    words = TitleWords(settings.cache_folder)
    with announced(_logger.info, "the news page"):
        warm_news(words)
    cluster, name = cluster_of(settings), app_name(settings, verdicts)
    topics = FeedTopics(verdicts, pages, make_table_topic(cluster, f"{name}-{TABLE}-changelog"))
    wait_alone(cluster, name, SESSION_S + 5)
    begin_everywhere(cluster, name, (VERDICTS, PAGES))
    limits = FoldLimits() if settings.window_ms is None else FoldLimits(settings.window_ms)
    feed = FeedState(limits, words)
    impatient = open_log(settings.log, options_of(settings, READ_S))
    with tempfile.TemporaryDirectory(prefix="simstream-news-") as folder, impatient:
        app = make_app(settings, topics, feed, folder)
        texts = PageTexts(impatient, PageLimits(settings.max_record_bytes, settings.field_paths))
        ends = partial(ends_of, impatient, {VERDICTS: verdicts.name, PAGES: pages.name})
        web: Any = app.web
        web.blueprints = BlueprintManager()  # Faust's own pages would show tables to everybody
        web._runner = BoundedRunner(web.web_app)
        metrics = NewsMetrics(settings.publish_to or settings.prefix)
        FeedWeb(feed, _ComparisonRunner(feed, texts), callers, metrics).serve_on(web.web_app)
        beside = [FeedWatch(app, feed, ends).run]
        if webhook is not None:
            events = StoryEvents(feed, webhook.updates)
            beside.append(WebhookSender(webhook.target, events, metrics).run)
        with _StopDeadline(settings.stop_timeout_s) as deadline:
            asyncio.run(_serve(app, settings, deadline, beside))


async def _serve(app: Any, settings: Settings, deadline: _StopDeadline, beside: list[Work]) -> None:
    """Run the app, and the work beside it once the app has started."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    starting = asyncio.ensure_future(app.start())
    try:
        await _first(starting, stop.wait(), app._crashed.wait())
        if starting.done() and not stop.is_set() and app.crash_reason is None:
            if (failed := starting.exception()) is not None:
                raise _named(failed)
            _logger.info("stories and health on http://%s:%d", settings.http_host, settings.http_port)
            watching = asyncio.ensure_future(_together(beside))
            await _first(stop.wait(), app._crashed.wait(), watching)
            if not watching.cancel():
                watching.result()
    finally:
        crash = None if app.crash_reason is None or stop.is_set() else _named(app.crash_reason)
        deadline.begin(crash)
        starting.cancel()
        await app.stop()
    if crash is not None:
        raise crash


class _StopDeadline(Closing):
    """Ends the process if it does not end by itself: a task of Faust may survive every attempt to cancel it.

    Nothing is lost: the brokers have already acknowledged all results.
    """

    def __init__(self, seconds: float) -> None:
        self._crash: SimstreamError | None = None
        self._timer = threading.Timer(seconds, self._over)
        self._timer.daemon = True

    def begin(self, crash: SimstreamError | None) -> None:
        """Start the timer: the app is about to end, after a crash or on request."""
        self._crash = crash
        self._timer.start()

    def close(self) -> None:
        """Stop the timer: the app has ended by itself."""
        self._timer.cancel()

    def _over(self) -> None:
        _logger.warning("Faust does not end within stop_timeout: the process ends without it")
        if self._crash is not None:
            _logger.error("%s: %s", self._crash.what, self._crash.todo)
        os._exit(0 if self._crash is None else self._crash.exit_code)


def _port(host: str, port: int) -> int:
    """Return the port, or for 0 any free port: Faust would not tell which one it got. Raises UsageError."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            where = f"{host} port {port}"
            raise UsageError(
                f"the page cannot listen on {where} ({error.strerror})",
                "choose another port with --http-port, or another address with --http-host",
            ) from None
        return int(probe.getsockname()[1])


async def _together(beside: list[Work]) -> None:
    """Do all the work at once. Unlike a bare `gather`, a task logs no error when it is cancelled."""
    await asyncio.gather(*(work() for work in beside))


async def _first(*waited: Any) -> None:
    """Wait until one of them is done, and cancel the others; a task that was passed in goes on."""
    tasks = [asyncio.ensure_future(one) for one in waited]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, one in zip(tasks, waited, strict=True):
        if task is not one:
            task.cancel()


def _named(error: BaseException) -> SimstreamError:
    if isinstance(error, SimstreamError):
        return error
    return LogError(
        f"the news page ended ({type(error).__name__}: {error})", "check the broker, and start it again"
    )


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
        return await asyncio.shield(self._take_turn(*pages))

    async def _take_turn(self, *pages: tuple[str, PageVersion]) -> dict[str, Any]:
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(self._texts.compare, *pages)
        finally:
            self._waiting -= 1

    def _version(self, page_id: str) -> PageVersion:
        assert self._feed.fold is not None
        return self._feed.fold.versions[page_id]
