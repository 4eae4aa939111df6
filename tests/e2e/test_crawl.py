"""A real crawl of a site full of duplicates, with a real broker and service: what is found, what is saved."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.request import RequestFingerprinter

from deploy.kafka.broker import KafkaBroker
from simstream.crawlers import FrontierMiddleware
from simstream.crawlers import channel as channel_module
from simstream.crawlers.channel import VerdictChannel
from simstream.crawlers.link_router import LinkRouter
from simstream.crawlers.middleware import SKIP, VERDICT
from simstream.crawlers.options import CrawlOptions
from simstream.crawlers.origin import CHAIN, KEEP
from tests.bench.crawl import CrawlResult, crawl, saved, told
from tests.bench.crawl_site import SiteServer, SiteSize
from tests.bench.crawl_text import article
from tests.e2e.harness import PATIENCE_S, Program
from tests.kafka_fixtures import TopicPlace

pytestmark = pytest.mark.kafka
SIZE = SiteSize(articles=16, archived=16, mirrors=1, sessions=3, months=30, tags=6, per_archive=4)


@pytest.fixture(scope="module")
def site() -> Iterator[SiteServer]:
    with SiteServer(SIZE) as served:
        yield served


@pytest.fixture(scope="module")
def without(site: SiteServer) -> CrawlResult:
    """The crawl that knows nothing of simstream."""
    return crawl(site)


@pytest.fixture(scope="module")
def place(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[TopicPlace]:
    """A running service, for all crawls of this module."""
    place = topics(broker)
    with Program(tmp_path_factory.mktemp("crawl"), cache, place).serve() as service:
        service.ready()
        yield place
        assert service.end() == 0


def topics(broker: KafkaBroker) -> TopicPlace:
    place = TopicPlace(broker.address, f"s{secrets.token_hex(4)}")
    with place.open() as log:
        log.create_topics(2)
    return place


def through(place: TopicPlace, *settings: str) -> list[str]:
    return [f"SIMSTREAM_LOG={place.address}", f"SIMSTREAM_PREFIX={place.prefix}", "SIMSTREAM_WAIT=60", *settings]


def test_every_article_is_found_and_most_useless_fetches_are_saved(
    site: SiteServer, without: CrawlResult, place: TopicPlace
) -> None:
    found = crawl(site, *through(place))
    print(told("without", without))
    print(told("with", found))
    assert without.articles == found.articles == SIZE.total
    assert saved(without, found) > 0.6
    assert found.count("simstream/links/held") > found.count("simstream/links/tried") > 0
    assert found.count("simstream/pages") == found.fetched == found.count("item_scraped_count")
    assert found.count("simstream/verdict/new") >= SIZE.total
    assert found.count("simstream/verdict/near_duplicate") > 0
    assert found.count("simstream/links/dropped") == len(site.site.unfetched()) > 0
    assert found.count("simstream/no_verdict") == 0
    assert found.count("seen/new") == found.count("simstream/verdict/new")  # by the callback, before it goes on

    again = crawl(site, *through(place))  # pages that are as they were are followed; what was a duplicate still is
    assert again.articles == SIZE.total
    assert again.fetched == again.count("simstream/verdict/unchanged") + again.count(
        "simstream/verdict/near_duplicate"
    ) + again.count("simstream/verdict/too_short") + again.count("simstream/verdict/new")
    assert saved(without, again) > 0.6


def test_print_and_share_pages_are_mostly_not_fetched_and_every_article_is_found(place: TopicPlace) -> None:
    size = SiteSize(articles=120, archived=40, mirrors=0, sessions=0, months=0, days=1, tags=2)
    with SiteServer(size) as site:
        without = crawl(site)
        found = crawl(site, *through(place))
    print(told("without", without))
    print(told("with", found), f"{saved(without, found):.1%} saved")
    assert without.articles == found.articles == size.total
    assert saved(without, found) > 0.6


def test_patterns_of_a_crawl_save_fetches_in_the_next_one_and_lose_no_article(
    site: SiteServer, without: CrawlResult, place: TopicPlace, tmp_path: Path, cache: Path
) -> None:
    learned = tmp_path / "patterns.json"
    crawl(site, *through(place, "SIMSTREAM_LINKS=follow"))
    shown = Program(tmp_path, cache, place).on_log("patterns", "-o", learned)
    print(shown.stdout.decode())
    assert shown.returncode == 0
    assert b"/print/ for /article/" in shown.stdout
    assert b"?sid=" in shown.stdout
    found = crawl(site, *through(place, "SIMSTREAM_LINKS=follow", f"SIMSTREAM_PATTERNS={learned}"))
    print(told("without", without))
    print(told("with patterns", found))
    assert found.articles == SIZE.total
    assert saved(without, found) > 0.1
    assert found.count("simstream/patterns/skipped") > 0
    assert found.count("simstream/patterns/exceptions") == 0
    assert found.count("simstream/links/dropped") == len(site.site.unfetched()) > 0


Links = list[Request]


def links(*meta: dict[str, Any]) -> Links:
    return [Request(f"https://a.example/{number}", meta=one) for number, one in enumerate(meta)]


def test_a_request_may_be_kept_or_its_page_not_sent_and_chains_are_counted(place: TopicPlace) -> None:
    text = " ".join(article(7_077)[1])  # no site of this file has so many articles
    options = CrawlOptions(place.address, place.prefix, links="drop", duplicate_depth=1, wait=PATIENCE_S)

    async def run() -> list[tuple[str | None, Links]]:
        crawler = Crawler(Spider)
        crawler.request_fingerprinter = RequestFingerprinter(crawler)
        channel = VerdictChannel(options, MemoryStatsCollector(crawler))
        await channel.open()
        middleware = FrontierMiddleware(LinkRouter(crawler, channel))

        async def after(name: str, found: Links, **meta: Any) -> tuple[str | None, Links]:
            request = Request(f"https://a.example/{secrets.token_hex(6)}/{name}", meta=meta)
            body = f"<p>{text}</p>".encode()
            response = HtmlResponse(request.url, body=body, headers={"Content-Type": "text/html"}, request=request)
            output = middleware.process_spider_output(response, as_async_generator(found))
            kept = [one async for one in output]
            verdict = response.meta[VERDICT]
            return verdict and verdict.verdict, kept

        found = [
            await after("first", links({CHAIN: 1}), **{CHAIN: 1}),  # what a spider may hand on from page to page
            await after("like it", links({})),
            await after("and again", links({}, {KEEP: True}), **{CHAIN: 1}),
            await after("not sent", links({}), **{SKIP: True}),
        ]
        await channel.close()
        return found

    first, like, again, unsent = asyncio.run(run())
    assert (first[0], [link.meta[CHAIN] for link in first[1]]) == ("new", [0])
    assert (like[0], [link.meta[CHAIN] for link in like[1]]) == ("near_duplicate", [1])
    assert (again[0], [link.url for link in again[1]]) == ("near_duplicate", ["https://a.example/1"])
    assert (unsent[0], len(unsent[1])) == (None, 1)


@pytest.mark.long
def test_links_may_be_followed_to_a_depth_or_last(
    site: SiteServer, without: CrawlResult, place: TopicPlace
) -> None:
    last = crawl(site, *through(place, "SIMSTREAM_LINKS=deprioritize", "SIMSTREAM_DUPLICATE_DEPTH=1"))
    assert last.fetched == without.fetched
    assert last.count("simstream/links/held") > 0
    assert last.count("simstream/links/dropped") == 0


@pytest.mark.long
def test_items_with_text_are_judged_by_the_pipeline(
    site: SiteServer, without: CrawlResult, place: TopicPlace
) -> None:
    settings = through(place, "ITEM_PIPELINES=simstream.crawlers.VerdictPipeline", "SIMSTREAM_DROP_ITEMS=1")
    found = crawl(site, *settings)
    assert found.fetched == without.fetched == found.count("simstream/pages")
    assert found.count("item_dropped_count") == found.count("simstream/items/dropped") > 0
    assert found.count("item_scraped_count") >= SIZE.total


@pytest.mark.long
def test_without_a_service_every_page_is_kept_and_the_crawl_ends(
    site: SiteServer, without: CrawlResult, broker: KafkaBroker
) -> None:
    found = crawl(site, *through(topics(broker), "SIMSTREAM_WAIT=0.5", "SIMSTREAM_IN_FLIGHT=50"))
    assert (found.fetched, found.articles) == (without.fetched, SIZE.total)
    assert found.count("simstream/no_verdict") == found.fetched
    assert found.count("simstream/pages") >= 50
    assert found.count("simstream/no_room") == found.fetched - found.count("simstream/pages") > 0


def test_without_its_topics_every_page_is_kept_until_they_are_there(
    broker: KafkaBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "RETRY_S", 0.0)
    stats = MemoryStatsCollector(Crawler(Spider))
    place = TopicPlace(broker.address, f"s{secrets.token_hex(4)}")

    async def run() -> None:
        channel = VerdictChannel(CrawlOptions(place.address, place.prefix, wait=0), stats)
        await channel.open()
        assert await channel.judge({"id": "a", "text": "…"}) is None
        with place.open() as log:
            await asyncio.to_thread(log.create_topics, 1)
        async with asyncio.timeout(PATIENCE_S):
            while not stats.get_value("simstream/pages"):
                await channel.judge({"id": "a", "text": "…"})
                await asyncio.sleep(0.05)
        await channel.close()

    asyncio.run(run())
    assert stats.get_value("simstream/unavailable/TopicMissing") >= 1
    assert "simstream topics create" in caplog.text
    with place.open() as log:
        assert log.end_offsets("pages") == {0: 1}
