"""The crawler's connection to the service, where an error ends it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector

from simstream.crawlers import channel as module
from simstream.crawlers.channel import VerdictChannel
from simstream.crawlers.options import CrawlOptions, options_of
from simstream.errors import (
    BrokerUnreachable,
    ClientFull,
    LogDamaged,
    SettingsError,
    SimstreamError,
    VerdictLate,
)
from simstream.log.options import PAGES
from simstream.model import PageSource, Verdict
from tests.kafka_fixtures import TopicPlace
from tests.manual_clock import ManualClock

PAGE = {"id": "a", "text": "some text"}
VERDICT = Verdict(
    "a", None, "new", None, None, None, None, "1", "a", (), None, "0" * 8, 1, 1, PageSource("pages", 0, 0)
)


class EndedClient:
    """Serves one page, then fails for good."""

    made = closed = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        type(self).made += 1
        self.ended = False

    async def open(self) -> None:
        pass

    async def submit(self, page: Mapping[str, Any], **_: float) -> asyncio.Future[Any]:
        self.ended = True
        raise LogDamaged("a record of verdicts is damaged", "check the disk")

    async def close(self) -> None:
        type(self).closed += 1


class Stats:
    def inc_value(self, name: str, by: float = 1) -> None:
        pass


def test_a_connection_that_an_error_has_ended_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AsyncClient", EndedClient)
    monkeypatch.setattr(module, "RETRY_S", 0.0)

    async def crawl() -> None:
        channel = VerdictChannel(CrawlOptions("log", "prefix", wait=1.0), Stats())
        await channel.open()
        for _ in range(3):
            assert await channel.judge(PAGE) is None  # it fails, and is dropped
            assert await channel.judge(PAGE) is None  # the next one is opened
            await asyncio.sleep(0.01)
        await channel.close()

    asyncio.run(crawl())
    assert (EndedClient.made, EndedClient.closed) == (4, 4)


def test_a_later_client_finds_the_log_in_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "own.toml").touch()
    monkeypatch.chdir(tmp_path)
    channel = VerdictChannel(CrawlOptions("log", config="own.toml"), Stats())
    monkeypatch.chdir(tmp_path / "other")
    channel._make()._open_log().create_topics(1)
    assert (tmp_path / "log").is_dir()


class StubClient:
    """Takes each page with a future that a test completes, or raises `error`."""

    def __init__(self) -> None:
        self.ended = False
        self.error: SimstreamError | None = None
        self.futures: list[asyncio.Future[Verdict]] = []
        self.waits: list[float] = []
        self.timeouts: list[float] = []
        self.opened = 0

    async def open(self) -> None:
        self.opened += 1
        if self.error is not None:
            raise self.error

    async def submit(self, _: object, *, wait: float, timeout: float) -> asyncio.Future[Verdict]:
        self.waits.append(wait)
        self.timeouts.append(timeout)
        if self.error is not None:
            raise self.error
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> StubClient:
    made = StubClient()
    monkeypatch.setattr(module, "AsyncClient", lambda *_, **__: made)
    return made


def test_after_some_pages_without_a_verdict_none_waits_until_one_comes(client: StubClient) -> None:
    later: list[Verdict] = []

    async def crawl() -> None:
        channel = VerdictChannel(CrawlOptions("log", "p", wait=0.01, room_wait=7.0, give_up_after=2), Stats())
        await channel.open()
        for _ in range(2):
            assert await channel.judge(PAGE, later.append) is None
        channel.options = replace(channel.options, wait=3600.0)
        async with asyncio.timeout(60):
            assert await channel.judge(PAGE) is None
        assert client.waits == [7.0, 7.0, 0.0]
        client.futures[0].set_result(VERDICT)
        await asyncio.sleep(0)
        assert later == [VERDICT]
        judging = asyncio.ensure_future(channel.judge(PAGE))
        await asyncio.sleep(0.01)
        client.futures[-1].set_result(VERDICT)
        assert await judging == VERDICT
        assert client.waits[-1] == 7.0

    asyncio.run(crawl())


def test_pages_hurry_only_while_many_late_verdicts_may_still_come(client: StubClient) -> None:
    async def crawl() -> None:
        channel = VerdictChannel(CrawlOptions("log", "p", wait=0.01, in_flight=2, give_up_after=1), Stats())
        await channel.open()
        for _ in range(2):
            await channel.judge(PAGE)
        for future in client.futures:
            future.set_exception(VerdictLate("no verdict came in time", "wait"))
        await asyncio.sleep(0)
        await channel.judge(PAGE)

    asyncio.run(crawl())
    assert client.timeouts == [module.MAX_LATE_S, module.HURRIED_LATE_S, module.MAX_LATE_S]


def test_a_page_that_finds_no_room_counts_as_one_without_a_verdict(client: StubClient) -> None:
    async def crawl() -> None:
        channel = VerdictChannel(CrawlOptions("log", "p", room_wait=7.0, give_up_after=2), Stats())
        await channel.open()
        client.error = ClientFull("no room", "wait")
        for _ in range(3):
            assert await channel.judge(PAGE) is None

    asyncio.run(crawl())
    assert client.waits == [7.0, 7.0, 0.0]


def test_a_log_that_does_not_answer_is_asked_again_after_a_time_and_once(
    client: StubClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(module, "time", clock)

    async def crawl() -> None:
        channel = VerdictChannel(CrawlOptions("log", "p"), Stats())
        client.error = BrokerUnreachable("no broker answers", "start it")
        await channel.open()
        for seconds, opened in ((module.RETRY_S - 1, 1), (1, 2)):
            clock.now += seconds
            for _ in range(2):
                assert await channel.judge(PAGE) is None
            await asyncio.sleep(0)
            assert client.opened == opened

    asyncio.run(crawl())


def test_where_no_page_waits_no_late_verdict_is_heard(client: StubClient) -> None:
    async def crawl() -> None:
        channel = VerdictChannel(CrawlOptions("log", "p", wait=0.0), Stats())
        await channel.open()
        later: list[Verdict] = []
        assert await channel.judge(PAGE, later.append) is None
        client.futures[0].set_result(VERDICT)
        await asyncio.sleep(0)
        assert not later

    asyncio.run(crawl())


@pytest.mark.parametrize("value", [5, 0, True, ["a.json"]])
@pytest.mark.parametrize("name", ["SIMSTREAM_PATTERNS", "SIMSTREAM_LOG"])
def test_a_setting_that_is_no_text_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"{name} is {value!r}: give text")):
        options_of(Settings({name: value}))


def test_a_path_is_taken_as_text(tmp_path: Path) -> None:
    options = options_of(Settings({"SIMSTREAM_PATTERNS": tmp_path, "SIMSTREAM_LOG": tmp_path}))
    assert (options.patterns, options.log) == (str(tmp_path), str(tmp_path))


def test_pages_go_to_a_topic_of_the_users_own(tmp_path: Path) -> None:
    with TopicPlace(str(tmp_path), "theirs").open() as log:
        log.create_topics(1)
    place = TopicPlace(str(tmp_path), "crawl")
    names = {"pages_topic": "theirs.pages", "verdicts_topic": "court"}
    with place.open(**names) as log:
        log.create_topics()
    given = {"LOG": place.address, "PREFIX": place.prefix, "WAIT": 0}
    given |= {name.upper(): topic for name, topic in names.items()}

    async def crawl() -> None:
        channel = VerdictChannel(
            options_of(Settings({f"SIMSTREAM_{name}": value for name, value in given.items()})), Stats()
        )
        await channel.open()
        assert await channel.judge(PAGE) is None
        await channel.close()

    asyncio.run(crawl())
    with place.open(pages_topic="theirs.pages") as log:
        assert log.end_offsets(PAGES) == {0: 1}


def test_while_no_verdicts_come_pages_make_room_for_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HURRIED_LATE_S", 0.01)
    place, count = TopicPlace(str(tmp_path), "crawl"), 12
    with place.open() as log:
        log.create_topics(1)
    options = CrawlOptions(place.address, place.prefix, wait=0.01, room_wait=0.01, in_flight=4, give_up_after=1)

    async def crawl() -> None:
        stats = MemoryStatsCollector(Crawler(Spider))
        channel = VerdictChannel(options, stats)
        await channel.open()
        async with asyncio.timeout(module.MAX_LATE_S / 2):
            while stats.get_value("simstream/pages", 0) < count:
                await channel.judge(PAGE)
                await asyncio.sleep(0.01)
        await channel.close()

    asyncio.run(crawl())
    with place.open() as log:
        assert log.end_offsets(PAGES) == {0: count}


@pytest.mark.parametrize("name", ["crawl.verdicts", "a/b", ""])
def test_a_name_that_no_topic_of_pages_can_have_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="pages_topic"):
        VerdictChannel(CrawlOptions("log", "crawl", pages_topic=name), Stats())
