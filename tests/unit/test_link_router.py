"""The rule for links of near duplicates over whole sites, in any order of fetches: all is found, much is saved."""

from __future__ import annotations

import random
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from simstream.crawlers.link_router import LinkRouter
from simstream.crawlers.options import CrawlOptions
from simstream.crawlers.waiting_links import MAX_LINKS_AT_ONCE
from tests.bench.crawl_site import CrawlSite, SitePage, SiteSize
from tests.unit.test_link_kinds import begun, router, verdict

SIZE = SiteSize(articles=30, archived=30, mirrors=2, months=20, tags=10)
HOSTS = ["a.example", "b.example", "c.example"]


class CrawlWalk(NamedTuple):
    """What a crawl has done."""

    fetched: int
    useless: int
    missed: set[str]


def text_of(page: SitePage) -> str:
    """What a page's text is, for a judge: indexes, tags and months have one text each."""
    kind = page.content.split()[0]
    return page.content if kind in ("article", "list") else kind


def walk(site: CrawlSite, links: LinkRouter | None, seed: int, *, clusters: bool = False) -> CrawlWalk:
    """Follow all links from the front page, in a random order; without a router, whatever stands on them.

    `clusters`: each text has a cluster of its own, as a judge has it; else all have the same.
    """
    rng = random.Random(seed)
    queue = [Request(f"http://{HOSTS[0]}/")]
    taken_up = {queue[0].url}
    texts: dict[str, int] = {}
    while queue or (links is not None and (queue := give(links, taken_up))):
        request = queue.pop(rng.randrange(len(queue)))
        if links is not None and links.is_pruned(request):
            continue
        parts = urlsplit(request.url)
        page = site.get(HOSTS.index(parts.netloc), request.url.removeprefix(f"http://{parts.netloc}"))
        assert page is not None
        found = [Request(urljoin(request.url, link)) for link in [*page.links, "/", "/list/0"]]
        if links is not None:
            number = texts.get(text_of(page), len(texts)) if clusters else 1
            kind = "near_duplicate" if text_of(page) in texts else "new"
            judged = verdict(kind, str(number), request.url)
            linking = begun(links, HtmlResponse(request.url, request=request), judged)
            found = [kept for link in found if (kept := links.route(link, linking)) is not None]
            links.end(linking)
        texts.setdefault(text_of(page), len(texts))
        queue += take_up(found, taken_up)
    return CrawlWalk(len(site.fetched), site.useless(), site.missed())


def give(links: LinkRouter, taken_up: set[str]) -> list[Request]:
    """Return the requests that an idle spider gets, until one is new or none is left."""
    assert links.held is not None
    while given := links.held.take(MAX_LINKS_AT_ONCE):
        if fresh := take_up(given, taken_up):
            return fresh
    return []


def take_up(requests: list[Request], taken_up: set[str]) -> list[Request]:
    """Return the requests with addresses that are new to the spider."""
    fresh = []
    for request in requests:
        if request.dont_filter or request.url not in taken_up:
            taken_up.add(request.url)
            fresh.append(request)
    return fresh


@pytest.mark.parametrize("seed", range(4))
def test_no_article_is_missed_and_most_useless_fetches_are_saved(seed: int) -> None:
    without = walk(CrawlSite(SIZE, HOSTS), None, seed)
    found = walk(CrawlSite(SIZE, HOSTS), router(trials=CrawlOptions().trials), seed)
    assert without.missed == found.missed == set()
    assert found.useless < 0.4 * without.useless


@pytest.mark.parametrize("seed", range(4))
def test_print_and_share_pages_of_articles_are_held_back_and_no_article_is_missed(seed: int) -> None:
    size = SiteSize(articles=100, archived=60, mirrors=0, sessions=0, months=0, days=1, tags=2)
    without = walk(CrawlSite(size, HOSTS[:1]), None, seed)
    found = walk(CrawlSite(size, HOSTS[:1]), router(trials=CrawlOptions().trials), seed)
    print(without, found, f"{1 - found.useless / without.useless:.1%} saved")
    assert without.missed == found.missed == set()
    assert found.useless < 0.4 * without.useless
