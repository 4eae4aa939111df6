"""A defect inside the news page: the process ends with 1 soon. A stranger's page costs its own title."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

import pytest

from deploy.kafka.broker import KafkaBroker
from simstream.feeds import state
from simstream.feeds.fold import FoldLimits
from simstream.feeds.state import FeedState
from simstream.log.options import PAGES
from simstream.model import PageSource, Record, Verdict
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits
from tests.e2e.harness import Service, environment
from tests.kafka_fixtures import TopicPlace

DEFECT = """
# A defect, and a task that no attempt to cancel it ends.
import asyncio, sys
import simstream.feeds.intake as intake
async def undying():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
def broken(*_):
    broken.task = asyncio.get_running_loop().create_task(undying())
    raise ValueError("a defect")
intake.take_page = broken
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
        line = [sys.executable, "-c", DEFECT, "news", *place.where, "--http-port", "0"]
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


def record(value: bytes, offset: int) -> Record:
    return Record("t", 0, offset, b"page %d" % offset, value, (), 1_750_000_000_000)


def test_a_page_that_raises_costs_its_own_title_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    feed = FeedState(FoldLimits())
    feed.begin({})

    def raises(*_: object) -> None:
        raise ValueError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(state, "sheet_of", raises)
        state.take_page(feed, PageLimits(), record(b'{"text":"bad"}', 1))
    state.take_page(feed, PageLimits(), record(b'{"text":"good"}', 2))
    good = [(1, "7", 1, 1), (2, "8", 2, 1)]  # offset, cluster, ordinal, time
    bad = [(1, "x" * 5, 1, 1), (1, "9" * 5000, 1, 1), *((1, "9", 1, time) for time in (10**30, -(10**30), 10**16))]
    for offset, cluster, ordinal, time in (*bad, (1, "9", 10**30, 1), (1, "9", -1, 1), *good):
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
            ordinal=ordinal,
            time=time,
            source=PageSource("t", 0, offset),
        )
        state.take_verdict(feed, record(wire.encode(verdict), 9))
    titles = {page: (version.title, version.cluster) for page, version in feed.fold.versions.items()}
    assert titles == {"page 1": ("", 7), "page 2": ("good", 8)}
    assert feed.fold.stream_time == 1
    assert f"a verdict's time ({10**16} ms) or ordinal (1) is out of range" in caplog.text
