"""Whole crawls of small sites that ordinary sites resemble, one after another: no article is lost, in any crawl."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from simstream.crawlers.options import CrawlOptions
from simstream.model import PageSource, Verdict
from tests.unit.test_link_kinds import begun, router
from tests.unit.test_link_router import give, take_up

ARTICLES = 60
HOSTS = "a.example", "b.example"
MAX_FETCHES = 20_000


class MadePage(NamedTuple):
    """What stands at an address: pages with one text are near duplicates of each other."""

    text: str
    links: list[str]


Site = Callable[[str, int], MadePage]
"""Gives the page at an address, in a crawl with this number."""


class MemoryJudge:
    """What a service with the link rule `canonical` says of equal texts and of others. It forgets nothing."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._first: dict[str, str] = {}

    def judge(self, name: str, text: str) -> Verdict:
        """The verdict on a page with an id of this name."""
        kind = "unchanged" if self._texts.get(name) == text else "near_duplicate" if text in self._first else "new"
        self._texts[name] = text
        first = self._first.setdefault(text, name)
        of = first if kind == "near_duplicate" else None
        cluster = str([*self._first].index(text))
        source = PageSource("pages", 0, 0)
        return Verdict(name, None, kind, None, of, None, None, cluster, first, (), None, "0" * 8, 1, 1, source)


def crawl(site: Site, judge: MemoryJudge, number: int, seed: int) -> tuple[int, set[str]]:
    """Crawl from the front page, in a random order. Returns the number of fetches, and the texts that it found."""
    rng, links = random.Random(seed), router(trials=CrawlOptions().trials)
    links._clusters._first.clear()
    queue = [Request(f"http://{HOSTS[0]}/")]
    taken_up, fetched, texts = {queue[0].url}, 0, set()
    while queue or (queue := give(links, taken_up)):
        assert fetched < MAX_FETCHES
        request = queue.pop(rng.randrange(len(queue)))
        if links.is_pruned(request):
            continue
        page = site(request.url, number)
        fetched += 1
        texts.add(page.text)
        response = HtmlResponse(request.url, request=request)
        verdict = judge.judge(request.url, page.text)
        linking = begun(links, response, verdict)
        found = [Request(urljoin(request.url, link)) for link in page.links]
        queue += take_up([kept for link in found if (kept := links.route(link, linking)) is not None], taken_up)
        links.end(linking)
    return fetched, texts


def sessions_everywhere(url: str, crawl: int) -> MadePage:
    """Every link has a session number, and each crawl gets other ones. Two hosts have all pages. The front page
    leads to a third of the articles, the other ones stand only in an archive under one introduction."""
    parts = urlsplit(url)
    session = int(parse_qs(parts.query).get("sid", ["0"])[0]) or 1
    links, text = ["/", "/archive/1"], "front"
    path, numbers = parts.path, [int(one) for one in re.findall(r"\d+", parts.path)]
    if path == "/":
        links += [f"/article/{number}" for number in range(1, 21)]
    elif path.startswith("/archive"):
        text, first = "introduction", 21 + 4 * (numbers[0] - 1)
        links += [f"/article/{number}" for number in range(first, first + 4)]
        links += [f"/archive/{number}" for number in (numbers[0] - 1, numbers[0] + 1) if 1 <= number <= 10]
    else:
        text = f"article {numbers[0]}"
        links += [f"/{'print' if 'article' in path else 'article'}/{numbers[0]}"]
    other = HOSTS[parts.netloc == HOSTS[0]]
    links += [f"http://{other}{path}"]
    return MadePage(text, [f"{link}?sid={100 * crawl + session % 5 + 1}" for link in links])


def ids_in_the_query(url: str, crawl: int) -> MadePage:
    """A page is named by a parameter, beside a session number; most articles stand only in an archive."""
    parameters = {name: int(values[0]) for name, values in parse_qs(urlsplit(url).query).items()}
    session, text = parameters.get("sid", 1), "front"
    links = ["/?sort=1", "/archive?from=11", *(f"/page?id={number}" for number in range(1, 11))]
    if first := parameters.get("from"):
        text = "introduction"
        links = [f"/page?id={number}" for number in range(first, first + 5)] + ["/"]
        links += [f"/archive?from={other}" for other in (first - 5, first + 5) if 11 <= other <= 56]
    elif number := parameters.get("id"):
        text, links = f"article {number}", [f"/page?id={number}&print=1", "/", f"/page?sort=1&id={number}"]
    session = 100 * crawl + session % 4 + 1
    return MadePage(text, [f"{link}{'&' if '?' in link else '?'}sid={session}" for link in links])


def print_pages_first(url: str, crawl: int) -> MadePage:
    """The front page leads only to print pages, and every fourth article to one that stands nowhere else."""
    numbers = [int(one) for one in re.findall(r"\d+", urlsplit(url).path)]
    if not numbers:
        return MadePage("front", [f"/print/{number}" for number in range(1, 49)])
    number, text = numbers[0], f"article {numbers[0]}"
    if "/print/" in url:
        return MadePage(text, [f"/article/{number}"])
    more = [f"/article/{48 + number // 4}"] if number % 4 == 0 and number <= 48 else []
    return MadePage(text, [f"/print/{number}", *more])


def newest_first(url: str, crawl: int) -> MadePage:
    """The front page leads to the newest articles, the archive to all, the newest first, under one introduction."""
    numbers = [int(one) for one in re.findall(r"\d+", urlsplit(url).path)]
    if not numbers:
        return MadePage("front", ["/archive/1", *(f"/article/{number}" for number in range(1, 51))])
    if "/article/" in url:
        return MadePage(f"article {numbers[0]}", ["/"])
    first = 4 * numbers[0] - 3
    older = [f"/archive/{numbers[0] + 1}"] if numbers[0] < 15 else []
    return MadePage("introduction", ["/", *(f"/article/{number}" for number in range(first, first + 4)), *older])


def spelled(site: Site, form: str, pattern: str) -> Site:
    """The same site with other addresses. `form` has kind, number and session; `pattern` finds them again."""

    def page(url: str, crawl: int) -> MadePage:
        parts = urlsplit(url)
        if found := re.search(pattern, url):
            kind, number, session = (*found.groups(), "")[:3]
            url = f"http://{parts.netloc}/{kind}/{number}" + (f"?sid={session}" if session else "")
        made = site(url, crawl)
        return MadePage(made.text, [respelled(link) for link in made.links])

    def respelled(link: str) -> str:
        return re.sub(
            r"/([a-z]+)/(\d+)(?:\?sid=(\d+))?$",
            lambda found: form.format(kind=found[1], number=found[2], session=found[3]),
            link,
        )

    return page


def sessions_in(form: str, pattern: str) -> Site:
    return spelled(sessions_everywhere, form, pattern)


SITES = {
    "sessions": (sessions_everywhere, 450),
    "programs": (
        sessions_in("/{kind}.php?id={number}&sid={session}", r"/([a-z]+)\.php\?id=(\d+)&sid=(\d+)"),
        450,
    ),
    "one program": (
        sessions_in(
            "/index.php?do={kind}&id={number}&sid={session}", r"/index\.php\?do=([a-z]+)&id=(\d+)&sid=(\d+)"
        ),
        600,
    ),
    "jsessionid": (sessions_in("/{kind}/{number};jsessionid={session}", r"/([a-z]+)/(\d+);jsessionid=(\d+)"), 800),
    "query": (ids_in_the_query, 400),
    "print": (print_pages_first, 2 * ARTICLES + 1),
    "print.php": (
        spelled(print_pages_first, "/{kind}.php?id={number}", r"/([a-z]+)\.php\?id=(\d+)"),
        2 * ARTICLES + 1,
    ),
    "newest first": (newest_first, ARTICLES + 16),
}
"""Sites, and how many fetches a crawl may take."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SITES)
def test_no_article_is_lost_in_a_first_crawl_or_in_later_ones_beside_a_service_that_knows_all(
    name: str, seed: int
) -> None:
    (site, most), judge = SITES[name], MemoryJudge()
    for number in range(3):
        fetched, texts = crawl(site, judge, number, seed)
        print(f"{name}: {fetched} fetches")
        lost = {f"article {one}" for one in range(1, ARTICLES + 1)} - texts
        assert (lost, fetched <= most) == (set(), True)


def endless(url: str, crawl: int) -> MadePage:
    """Each page leads to ever more copies, in every way that a site has, and to a few articles."""
    rng = random.Random(url)
    day = int(parse_qs(urlsplit(url).query).get("day", ["1"])[0])
    word = "".join(rng.choices("abcdefgh", k=6))
    links = [f"/calendar?day={day + 1}", f"/day/{day + 1}/{word}", f"/list/{word}?sort=1", f"/list?{word}=1"]
    links += [f"/list?by={word}&n={rng.random()}", f"/view.php?id=1&sid={rng.random()}", f"/{word}.php?sid=1"]
    if found := re.search(r"/article/(\d+)", url):
        return MadePage(
            f"article {found[1]}", [*links, f"/article/{int(found[1]) % ARTICLES + 1}?sid={rng.random()}"]
        )
    return MadePage("copy", [*links, "/article/1"])


@pytest.mark.parametrize("seed", range(2))
def test_a_crawl_of_a_site_without_end_ends(seed: int) -> None:
    judge = MemoryJudge()
    for number in range(2):
        fetched, texts = crawl(endless, judge, number, seed)
        print(f"{fetched} fetches")
        assert len(texts) == ARTICLES + 1
        assert fetched < 3_000


@pytest.mark.parametrize("site", [sessions_everywhere, ids_in_the_query])
def test_session_numbers_make_many_more_addresses_than_are_fetched(site: Site) -> None:
    seen, queue = set[str](), [f"http://{HOSTS[0]}/"]
    while queue:
        url = queue.pop()
        if url not in seen:
            seen.add(url)
            queue += [urljoin(url, link) for link in site(url, 0).links]
    assert len(seen) > 700
