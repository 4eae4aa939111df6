"""What the news page says of itself: ready, still loading, or without a broker; and that a watch finds it out."""

from __future__ import annotations

import asyncio
import logging
import re
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from simstream.errors import BrokerUnreachable
from simstream.feeds import web as feed_web
from simstream.feeds.condition import FeedCondition, FeedPartition
from simstream.feeds.fold import FoldLimits, VerdictFold
from simstream.feeds.state import FeedState
from simstream.feeds.watch import FeedWatch, ends_of
from simstream.feeds.web import FeedWeb
from tests.manual_clock import ManualClock
from tests.unit.test_feed_costs import feed_of
from tests.waiting import soon

PAGES, VERDICTS = FeedPartition("pages", 0), FeedPartition("verdicts", 0)


def begun(clock: ManualClock) -> FeedCondition:
    condition = FeedCondition(clock)
    condition.has_read_table = True
    return condition


def test_a_feed_is_ready_once_it_has_read_all_records_from_before_its_start() -> None:
    condition = FeedCondition(ManualClock())
    assert condition.state == "reading"
    condition.has_read_table = True
    condition.hear({PAGES: 148, VERDICTS: 150})
    condition.take(PAGES, 148)
    condition.take(VERDICTS, 58)
    assert (condition.state, condition.to_json()) == ("loading", {"state": "loading", "behind": 92})
    condition.take(VERDICTS, 150)
    condition.hear({PAGES: 148, VERDICTS: 150})
    assert (condition.state, str(condition)) == ("ready", "ready")


def test_a_growing_topic_keeps_a_feed_loading_only_while_it_falls_behind() -> None:
    clock = ManualClock()
    condition = begun(clock)
    for second in range(200):
        clock.now += 1
        condition.hear({PAGES: 100 * second})
        condition.take(PAGES, 100 * (second - 20))  # twenty seconds behind
        assert condition.state == "ready" or second < 21, second
    for second in range(200, 300):
        clock.now += 1
        condition.hear({PAGES: 100 * second})
    assert condition.state == "loading"
    assert condition.behind == 100 * 299 - 100 * 179


def test_a_feed_is_ready_again_after_a_half_read_topic_was_created_again() -> None:
    clock = ManualClock()
    condition = begun(clock)
    condition.hear({PAGES: 1000, VERDICTS: 7})
    condition.take(PAGES, 900)
    condition.take(VERDICTS, 7)
    assert condition.state == "loading"
    condition.hear({PAGES: 5, VERDICTS: 7})
    condition.take(PAGES, 5)
    condition.hear({PAGES: 5, VERDICTS: 7})
    assert condition.state == "ready"
    clock.now += 2 * condition.FRESH_S
    condition.take(PAGES, 6)
    condition.hear({PAGES: 6, VERDICTS: 7})
    assert condition.state == "ready"


def test_a_feed_is_behind_until_it_has_read_the_records_of_a_topic_that_was_created_again() -> None:
    clock = ManualClock()
    condition = begun(clock)
    condition.take(PAGES, 1000)
    condition.hear({PAGES: 1000})
    assert condition.state == "ready"
    clock.now += 2 * condition.FRESH_S
    for _ in range(2):
        condition.hear({PAGES: 5})
        assert condition.to_json() == {"state": "loading", "behind": 5}
    condition.take(PAGES, 5)
    condition.hear({PAGES: 5})
    assert condition.state == "ready"


def test_a_silent_broker_is_reported_with_the_time_and_missed_records_are_read_first() -> None:
    clock = ManualClock()
    condition = begun(clock)
    condition.hear({PAGES: 0})
    assert condition.state == "ready"
    clock.now += 600
    assert condition.to_json() == {"state": "away", "silent_s": 600}
    condition.hear({PAGES: 7})
    assert condition.to_json() == {"state": "loading", "behind": 7}
    condition.take(PAGES, 7)
    condition.hear({PAGES: 7})
    assert condition.state == "ready"


def test_the_ends_of_both_topics_are_asked() -> None:
    log: Any = SimpleNamespace(end_offsets=lambda topic: {0: 7, 1: 0} if topic == "verdicts" else {0: 3})
    assert ends_of(log) == {VERDICTS: 7, FeedPartition("verdicts", 1): 0, PAGES: 3}


def test_silence_is_told_before_the_table_is_read_too() -> None:
    condition = FeedCondition(clock := ManualClock())
    clock.now += 11
    assert condition.to_json() == {"state": "away", "silent_s": 11}
    condition.hear({})
    assert condition.state == "reading"


def test_a_watch_outlives_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def silent() -> Any:
        nonlocal asked
        asked += 1
        raise BrokerUnreachable("nobody", "wait")

    monkeypatch.setattr(FeedWatch, "EVERY_S", 0.02)
    clock, state = ManualClock(), FeedState(FoldLimits())
    state.condition = begun(clock)
    state.condition.hear({})
    clock.now += 600

    async def run() -> None:
        watching = asyncio.ensure_future(FeedWatch(state, silent).run())
        await soon(lambda: asked > 2 or watching.done(), "the broker is asked again")
        assert not watching.done()
        watching.cancel()

    asyncio.run(run())
    assert state.condition.to_json() == {"state": "away", "silent_s": 600}


def test_a_page_that_reads_for_long_says_again_how_much_is_left(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "simstream.news")
    clock, state = ManualClock(), FeedState(FoldLimits())
    state.condition = condition = begun(clock)
    watch = FeedWatch(state, dict, clock)
    for second in range(25):
        condition.hear({PAGES: 0, VERDICTS: 100})
        condition.take(VERDICTS, 4 * second)
        watch._tell()
        clock.now += 1
    assert re.findall(r"still has to read about (\d+) records", caplog.text) == ["100", "60", "20"]
    condition.take(VERDICTS, 99)
    assert str(condition) == "the news page still has to read about 1 record"
    condition.take(VERDICTS, 100)
    condition.hear({PAGES: 0, VERDICTS: 100})
    watch._tell()
    assert "the stories are up to date" in caplog.text


def test_the_log_of_a_page_that_starts_has_no_advice_for_a_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "simstream.news")
    FeedWatch(FeedState(FoldLimits()), dict, ManualClock())._tell()
    assert caplog.messages == ["the news page reads its table"]


def test_the_table_keeps_that_the_news_page_was_up_to_date_once() -> None:
    clock, feed = ManualClock(), feed_of(3, lambda number: 0)
    feed.condition = begun(clock)
    watch = FeedWatch(feed, dict, clock)
    kept = []
    for taken in (4, 5):
        feed.condition.take(PAGES, taken)
        feed.condition.hear({PAGES: 5})
        watch._note_ready()
        kept.append(VerdictFold(feed.fold._table).counts.was_up_to_date)
    assert kept == [False, True]


def test_probes_and_answers_tell_the_condition_and_a_question_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_web, "ANSWER_S", 0.2)
    clock, feed = ManualClock(), feed_of(10, lambda number: 0)
    feed.condition = begun(clock)

    async def compare(a: str, b: str) -> dict[str, Any]:
        await asyncio.sleep(3600)
        raise AssertionError

    async def run() -> None:
        app = web.Application()
        FeedWeb(feed, compare).serve_on(app)
        async with TestClient(TestServer(app)) as client:

            async def asked(path: str, tag: str = "") -> tuple[int, str, str]:
                answer = await client.get(path, headers={"If-None-Match": tag} if tag else {})
                return answer.status, await answer.text(), answer.headers.get("ETag", "")

            feed.condition.hear({PAGES: 5})
            status, said, _ = await asked("/health/ready")
            assert (status, said) == (503, "the news page still has to read about 5 records\n")
            feed.condition.take(PAGES, 5)
            feed.condition.hear({PAGES: 5})
            assert (await asked("/health/ready"))[:2] == (200, "ready\n")
            _, said, tag = await asked("/api/stories")
            assert '"condition":{"state":"ready"}' in said
            assert (await asked("/api/stories", tag))[0] == 304
            pages = "/api/compare?a=https://s1.example/1&b=https://s2.example/2"
            status, said, _ = await asked(pages)
            assert (status, "within 0.2 s" in said, '"code":"no_answer"' in said) == (503, True, True)
            clock.now += 600
            assert (await asked("/health/ready"))[0] == 503
            assert "no broker has answered for 600 s" in (await asked("/health/ready"))[1]
            status, said, _ = await asked("/api/stories", tag)
            assert (status, '"condition":{"state":"away","silent_s":600}' in said) == (200, True)
            _, said, _ = await asked(pages)
            assert ("no broker answers" in said, '"code":"no_broker"' in said) == (True, True)
            assert '"code":"story_gone"' in (await asked("/api/stories/999"))[1]
            assert '"code":"bad_question"' in (await asked("/api/stories?sort=best"))[1]
            assert (await asked("/health/live"))[0] == (await asked("/health/started"))[0] == 200
            feed.condition.hear({PAGES: 5})
            feed.condition.has_read_table, feed.sign = False, ""
            status, said, _ = await asked("/api/stories")
            assert (status, '"code":"reading","condition":{"state":"reading"}' in said) == (503, True)
            clock.now += 17.9
            status, said, _ = await asked("/api/stories")
            assert (status, '"code":"away","condition":{"state":"away","silent_s":17}' in said) == (503, True)
            assert "for 17 s" in said

    asyncio.run(run())
