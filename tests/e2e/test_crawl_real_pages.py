"""A crawl of real pages in a realistic site: every article is found, and most useless fetches are saved."""

from __future__ import annotations

from html import escape
from itertools import islice

import pytest

from deploy.kafka.broker import KafkaBroker
from tests import corpora
from tests.bench.crawl import crawl, saved, told
from tests.bench.crawl_site import SiteServer, SiteSize
from tests.e2e.harness import Program
from tests.e2e.test_crawl import through, topics

pytestmark = [pytest.mark.kafka, pytest.mark.corpora]
SIZE = SiteSize(articles=60, archived=60, mirrors=1, months=24)
LONG = 200
"""Characters that an article has at least."""


def real_articles(count: int) -> list[tuple[str, list[str]]]:
    """Titles and paragraphs of news, and of technical articles of which some are revisions of each other."""
    revised = islice((doc for doc in corpora.docs("zh_lctt_revisions") if len(doc["text"]) >= LONG), count // 4)
    news = (doc for doc in corpora.docs("zh_news_xwlb", 100) if len(doc["text"]) >= LONG)
    found = [*revised, *islice(news, count - count // 4)]
    found = found[::2] + found[1::2]  # of a pair of revisions one stands in the lists, the other in the archive
    return [
        (escape(doc.get("title") or doc["id"]), [escape(line) for line in doc["text"].splitlines() if line.strip()])
        for doc in found
    ]


@pytest.mark.long
def test_every_real_article_is_found_and_most_useless_fetches_are_saved(
    broker: KafkaBroker, tmp_path, cache
) -> None:
    articles = real_articles(SIZE.total)
    assert len(articles) == SIZE.total
    place = topics(broker)
    with SiteServer(SIZE, articles.__getitem__) as site, Program(tmp_path, cache, place).serve() as service:
        service.ready()
        without = crawl(site)
        found = crawl(site, *through(place))
        missed = site.site.missed()
        print(told("without", without))
        print(told("with", found))
    assert without.articles == SIZE.total
    assert missed == set()
    assert saved(without, found) > 0.6
