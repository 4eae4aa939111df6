"""The crawler's connection to the service, where an error ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
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
from simstream.errors import LogDamaged, SettingsError
from simstream.log.options import PAGES
from tests.kafka_fixtures import TopicPlace

PAGE = {"id": "a", "text": "some text"}


class EndedClient:
    """Serves one page, then fails for good."""

    made = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        type(self).made += 1
        self.ended = False

    async def open(self) -> None:
        pass

    async def submit(self, page: Mapping[str, Any], **_: float) -> asyncio.Future[Any]:
        self.ended = True
        raise LogDamaged("a record of verdicts is damaged", "check the disk")

    async def close(self) -> None:
        pass


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
    assert EndedClient.made == 4


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
