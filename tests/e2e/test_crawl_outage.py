"""A crawl while the broker freezes for good, and while the service is away and comes back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.kafka.broker import KafkaBroker
from deploy.server_process import freeze
from simstream.client.traffic import MAX_CLOSE_S
from simstream.log.options import PAGES, VERDICTS
from tests.bench.crawl import crawl
from tests.bench.crawl_site import SiteServer, SiteSize
from tests.e2e.harness import Program, read_topic
from tests.e2e.test_crawl import through, topics
from tests.kafka_fixtures import TopicPlace
from tests.waiting import until

pytestmark = pytest.mark.kafka
SIZE = SiteSize(articles=20, archived=10, mirrors=1, sessions=2, months=30, days=2, tags=6)


@pytest.fixture
def site() -> Iterator[SiteServer]:
    with SiteServer(SIZE) as served:
        yield served


@contextmanager
def once_fetched(site: SiteServer, steps: dict[int, Callable[[], None]]) -> Iterator[None]:
    """Take each step when so many pages have been fetched."""
    over = threading.Event()

    def watch() -> None:
        for count, step in steps.items():
            while len(site.site.fetched) < count and not over.wait(0.01):
                pass
            step()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def until_judged(place: TopicPlace) -> None:
    """Wait until every page in the log has its verdict."""
    with place.open() as log:
        until(
            lambda: len(read_topic(log, VERDICTS)) >= len(read_topic(log, PAGES)),
            "every page has a verdict",
            every=0.05,
        )


@pytest.mark.long
def test_a_crawl_ends_and_finds_every_page_while_its_broker_is_frozen(
    site: SiteServer, broker: KafkaBroker, tmp_path: Path
) -> None:
    with KafkaBroker(data=tmp_path / "broker", quick=True) as own:
        place = topics(own)
        try:
            with once_fetched(site, {50: own.pause}):
                began = time.monotonic()
                found = crawl(site, *through(place, "SIMSTREAM_WAIT=0.5"))
                took = time.monotonic() - began
        finally:
            own.resume()
    assert found.articles == SIZE.total
    assert took - found.seconds < MAX_CLOSE_S + 15.0  # the rest is Python, which starts


@pytest.mark.long
def test_after_an_outage_late_verdicts_prune_what_is_queued_and_recovery_is_logged(
    site: SiteServer, broker: KafkaBroker, tmp_path: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = topics(broker)
    with Program(tmp_path, cache, place).serve() as service:
        service.ready()
        crawl(site, *through(place), "CLOSESPIDER_PAGECOUNT=20")  # what serves has compiled its code then

        def stop() -> None:
            freeze(service.process.pid)

        def go_on() -> None:
            """No page comes until all that wait have their verdicts: most links are still queued then."""
            site.answers.clear()
            os.kill(service.process.pid, signal.SIGCONT)
            try:
                until_judged(place)
            finally:
                site.answers.set()

        with once_fetched(site, {30: stop, 120: go_on}):
            settings = ("SIMSTREAM_WAIT=1", "SIMSTREAM_GIVE_UP_AFTER=2", "DOWNLOAD_DELAY=0.02")
            found = crawl(site, *through(place, *settings))
    said = capfd.readouterr().err
    assert found.articles == SIZE.total
    assert found.count("simstream/later_verdict") > 0
    assert found.count("simstream/links/pruned") > 0
    assert "2 pages in a row had no verdict in time" in said
    assert "verdicts come again, after" in said
