"""A real crawl that is stopped and goes on from its JOBDIR, again and again, finds every article."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.kafka.broker import KafkaBroker
from tests.bench.crawl import crawl
from tests.bench.crawl_site import SiteServer, SiteSize
from tests.e2e.harness import Program
from tests.e2e.test_crawl import through, topics

pytestmark = pytest.mark.kafka
SIZE = SiteSize(articles=16, archived=32, mirrors=1, sessions=1, months=10, days=1, tags=4, per_archive=4)
MAX_RUNS = 40


@pytest.mark.long
def test_a_crawl_that_is_stopped_again_and_again_finds_every_article(
    broker: KafkaBroker, tmp_path: Path, cache: Path
) -> None:
    place, runs, kept, found = topics(broker), 0, 0, set[str]()
    settings = through(place, f"JOBDIR={tmp_path / 'job'}", "CLOSESPIDER_PAGECOUNT=60")
    with SiteServer(SIZE) as site, Program(tmp_path, cache, place).serve() as service:
        service.ready()
        for _ in range(MAX_RUNS):
            runs += 1
            run = crawl(site, *settings)
            found |= site.site.articles_found()
            kept += run.count("simstream/links/kept")
            if run.stats["finish_reason"] == "finished":
                break
    assert run.stats["finish_reason"] == "finished"
    assert runs > 3
    assert kept > 0
    assert len(found) == SIZE.total
