"""A defect inside the news page: the process says so to its probes, and ends with 1 soon, never stands still."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from deploy.kafka.broker import KafkaBroker
from simstream.feeds import app
from simstream.feeds.app import FeedState
from simstream.feeds.fold import FoldLimits
from simstream.feeds.web import FeedWeb
from simstream.log.base import PAGES, TopicInfo
from simstream.model import PageSource, Verdict
from simstream.settings import Settings
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits
from tests.e2e.harness import Service, environment
from tests.kafka_fixtures import TopicPlace

DEFECT = """
# A defect, and a task that no attempt to cancel it ends.
import asyncio, sys
import simstream.feeds.app as app
async def undying():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
def broken(*_):
    broken.task = asyncio.get_running_loop().create_task(undying())
    raise ValueError("a defect")
app.take_page = broken
from simstream.cli.main import main
sys.exit(main())
"""


@pytest.mark.kafka
def test_a_crashed_feed_does_not_stand_still_and_ends_with_1(
    broker: KafkaBroker, cache: Path, tmp_path: Path
) -> None:
    place = TopicPlace(broker.address, f"t{secrets.token_hex(4)}")
    with place.open() as log:
        log.create_topics(1)
        where = ["--log", place.address, "--prefix", place.prefix, "--http-port", "0"]
        line = [sys.executable, "-c", DEFECT, "news", *where]
        news = Service.of(tmp_path, line, environment(cache, SIMSTREAM_STOP_TIMEOUT="3s"))
        try:
            news.ready()
            with log.open_appender(PAGES) as appender:
                appender.append(json.dumps({"text": "x"}).encode(), b"a", ())
                appender.flush(60)
            assert news.wait(40) == 1, news.output
        finally:
            news.kill()
    assert "the news page ended (ValueError: a defect)" in news.output.splitlines()[-1]


def message(value: bytes, offset: int) -> Any:
    """A record as Faust hands it over."""
    return SimpleNamespace(
        topic="t", partition=0, offset=offset, key=b"k", value=value, headers={}, timestamp=1_750_000_000.0
    )


def test_a_page_that_raises_costs_its_own_title_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = FeedState(FoldLimits())
    feed.begin({})

    def raises(*_: object) -> None:
        raise ValueError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(app, "sheet_of", raises)
        app.take_page(feed, PageLimits(), message(b'{"text":"bad"}', 1))
    app.take_page(feed, PageLimits(), message(b'{"text":"good"}', 2))
    assert feed.fold is not None
    for offset, cluster in ((1, "x" * 5), (1, "9" * 5000), (1, "7"), (2, "8")):
        verdict = Verdict(
            id=f"page {offset}",
            url=None,
            verdict="new",
            reason=None,
            near_duplicate_of=None,
            distance=None,
            similarity=None,
            cluster_id=cluster,
            canonical=None,
            merged_clusters=(),
            fingerprint="0" * 16,
            policy="p",
            ordinal=offset,
            time=1,
            source=PageSource("t", 0, offset),
        )
        app.take_verdict(feed, message(wire.encode(verdict), 9))
    titles = {page: (version.title, version.cluster) for page, version in feed.fold.versions.items()}
    assert titles == {"page 1": ("", 7), "page 2": ("good", 8)}


def test_a_feed_hears_of_the_crash_of_its_app(tmp_path: Path) -> None:
    async def play() -> list[bool]:
        feed, topics = (
            FeedState(FoldLimits()),
            app.FeedTopics(TopicInfo("t.verdicts", "v", 1), TopicInfo("t.pages", "p", 1), 1),
        )
        faust = app.make_app(Settings(log="kafka://127.0.0.1:1"), topics, feed, str(tmp_path))
        before = feed.is_crashed()
        await faust.crash(ValueError("a defect"))
        return [before, feed.is_crashed()]

    assert asyncio.run(play()) == [False, True]


def test_a_crashed_feed_is_neither_live_nor_ready() -> None:
    feed = FeedState(FoldLimits())
    feed.begin({})
    asyncio.run(feed.settle())
    feed.condition.hear({})
    answers = []

    async def never(a: str, b: str) -> dict[str, Any]:
        raise AssertionError

    async def ask() -> None:
        served = web.Application()
        FeedWeb(feed, never).serve_on(served)
        async with TestClient(TestServer(served)) as client:
            answers.extend([(await client.get(f"/health/{path}")).status for path in ("live", "ready")])

    asyncio.run(ask())
    feed.is_crashed = lambda: True
    asyncio.run(ask())
    assert answers == [200, 200, 503, 503]
