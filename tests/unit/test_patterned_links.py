"""Links whose addresses have a learned pattern: which are skipped, and which are fetched all the same."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import astuple
from scrapy import Request
from scrapy.utils.test import get_crawler

from simstream.crawlers import predicted_copies
from simstream.crawlers.channel import _in_one_line
from simstream.crawlers.link_router import LinkRouter, router_of
from simstream.crawlers.options import CrawlOptions
from simstream.crawlers.origin import FORM, KEEP
from simstream.crawlers.predicted_copies import SAMPLE_EVERY, CopyPredictor
from simstream.errors import UsageError
from simstream.tools.patterns.pattern import AddressPattern, LearnedPattern, PartKind, PatternSet
from simstream.tools.patterns.pattern_file import to_json
from tests.bench.crawl_site import CrawlSite, SiteSize
from tests.unit.test_link_kinds import TRIALS, begun, followed, page, router, verdict
from tests.unit.test_link_router import HOSTS, CrawlWalk, walk

SITE = "https://a.example"
PATTERNS = [AddressPattern(SITE, "segment", "print", "article"), AddressPattern(SITE, "parameter", "page")]


@pytest.fixture(autouse=True)
def no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CopyPredictor, "is_sample", lambda self, url: False)


@pytest.fixture
def links(tmp_path: Path) -> LinkRouter:
    return with_patterns(tmp_path, *PATTERNS)


def with_patterns(folder: Path, *patterns: AddressPattern, **options: Any) -> LinkRouter:
    file = folder / "patterns.json"
    file.write_bytes(to_json([LearnedPattern(*astuple(pattern), 99, 99, 99) for pattern in patterns]))
    return router(**{"patterns": str(file), "links": "follow"} | options)


def fetched(links: LinkRouter, path: str, cluster: str, *found: str, kind: str = "new") -> list[str]:
    """Fetch a page; return the paths of its links that go to the scheduler."""
    return [
        link.url.removeprefix(f"{SITE}/") for link in followed(links, page(path), kind, *found, cluster=cluster)
    ]


def article(links: LinkRouter, number: int, *own: str) -> list[str]:
    """Fetch an article, and its print page unless that is skipped. `own`: links of the print page alone."""
    kept = fetched(links, f"article/{number}", str(number), f"print/{number}", "about")
    for link in kept:
        if link.startswith("print") and not links.is_pruned(queued(link)):
            fetched(links, link, str(number), f"article/{number}", *own, kind="near_duplicate")
            return [link, *(other for other in kept if other != link)]
    return [link for link in kept if not link.startswith("print")]


def queued(path: str, **meta: Any) -> Request:
    return Request(f"{SITE}/{path}", meta={FORM: True} | meta)


def counted(links: LinkRouter, what: str) -> int:
    found: dict[str, int] = links.channel.counted  # type: ignore[attr-defined]
    return found.get(f"patterns/{what}", 0)


def test_copies_are_skipped_once_the_pattern_has_held_for_some_pages(links: LinkRouter) -> None:
    found = [article(links, number) for number in range(10)]
    assert [len(one) for one in found] == [2] * TRIALS + [1] * (10 - TRIALS)
    assert counted(links, "skipped") == 10 - TRIALS
    assert counted(links, "exceptions") == 0


def trusted(links: LinkRouter) -> LinkRouter:
    for number in range(100, 100 + TRIALS):
        article(links, number)
    return links


def test_a_page_is_fetched_if_no_other_form_of_it_was(links: LinkRouter) -> None:
    trusted(links)
    assert fetched(links, "list", "l", "print/1", "print/2") == ["print/1", "print/2"]
    assert not links.is_pruned(queued("print/1"))
    fetched(links, "print/1", "1")
    assert fetched(links, "list", "l", "print/1?page=4") == ["print/1?page=4"]  # this pattern has not held yet


def test_a_pattern_holds_for_a_kind_of_address_and_not_for_others(links: LinkRouter) -> None:
    for number in range(TRIALS + 1):  # the second page of an article has its comments
        fetched(links, f"article/{number}", str(number))
        fetched(links, f"article/{number}?page=2", str(number), kind="near_duplicate")
    fetched(links, "archive", "introduction", "article/1", "archive?page=2")
    assert links.is_pruned(queued("article/1?page=3"))
    assert not links.is_pruned(queued("archive?page=2"))  # it has articles of its own


def test_a_plain_page_without_enough_text_or_without_a_verdict_does_not_count(links: LinkRouter) -> None:
    trusted(links)
    fetched(links, "article/1", "1", kind="too_short")
    followed(links, page("article/2"), None)
    assert fetched(links, "list", "l", "print/1", "print/2") == ["print/1", "print/2"]


def test_a_queued_copy_is_skipped_if_the_plain_page_came_meanwhile(links: LinkRouter) -> None:
    trusted(links)
    [first, second] = followed(links, page("list"), "new", "print/1", "article/1")
    assert (first.meta[FORM], first.priority < second.priority) == (True, True)
    assert not links.is_pruned(first)
    fetched(links, "article/1", "1")
    assert links.is_pruned(first)
    assert not links.is_pruned(second)


def test_a_callback_that_failed_leaves_its_page_unfetched(links: LinkRouter) -> None:
    trusted(links)
    begun(links, page("article/1"), verdict("new", "1"))  # and no `end`
    assert not links.is_pruned(queued("print/1"))


def test_a_page_with_another_text_ends_the_pattern_until_it_holds_again(
    links: LinkRouter, caplog: pytest.LogCaptureFixture
) -> None:
    trusted(links)
    fetched(links, "article/1", "1")
    fetched(links, "print/1", "other")
    assert counted(links, "exceptions") == 1
    assert "/print/ for /article/ does not hold for https://a.example/print/1" in caplog.text
    found = [article(links, number) for number in range(200, 210)]
    assert [len(one) for one in found] == [2] * TRIALS + [1] * (10 - TRIALS)


def test_pages_with_links_of_their_own_are_all_fetched(links: LinkRouter) -> None:
    """Pages of a list under one introduction: their texts are alike, and each leads to other articles."""
    fetched(links, "list", "list", "article/0", "list?page=1")
    for number in range(1, 30):
        follow = f"list?page={number + 1}"
        kept = fetched(links, f"list?page={number}", "list", f"article/{number}", follow, kind="near_duplicate")
        assert kept == [f"article/{number}", follow]
    assert counted(links, "skipped") == 0


def test_a_link_of_its_own_counts_wherever_it_leads_and_if_it_is_always_followed(links: LinkRouter) -> None:
    for number in range(2 * TRIALS):
        fetched(links, f"article/{number}", str(number))
        linking = begun(links, page(f"print/{number}"), verdict("near_duplicate", str(number)))
        meta = {KEEP: True} if number % 2 else {}
        site = SITE if number % 2 else "https://b.example"
        links.route(Request(f"{site}/own/{number}", meta=meta), linking)
        links.end(linking)
    assert counted(links, "exceptions") == 2 * TRIALS
    fetched(links, "article/99", "99")
    assert fetched(links, "list", "l", "print/99") == ["print/99"]


def test_a_link_to_a_page_that_was_fetched_is_not_a_links_own(links: LinkRouter) -> None:
    fetched(links, "related", "r")
    found = [article(links, number, "related", "related?page=2") for number in range(10)]
    assert [len(one) for one in found] == [2] * TRIALS + [1] * (10 - TRIALS)


def test_some_requests_are_never_skipped(links: LinkRouter) -> None:
    trusted(links)
    fetched(links, "article/1", "1")
    linking = begun(links, page("about"), None)
    copied = {FORM: True}  # a spider may hand on the meta of its page
    url = f"{SITE}/print/1"
    for request in (
        Request(url, callback=print),
        Request(url, method="POST"),
        Request(url, dont_filter=True),
        Request(url, meta={KEEP: True}),
    ):
        for meta in ({}, copied):
            kept = links.route(request.replace(meta=request.meta | meta), linking)
            assert kept is not None
            assert not links.is_pruned(kept)
    assert links.route(Request(url), linking) is None


def test_one_address_in_a_hundred_is_fetched_and_always_the_same_one(
    links: LinkRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted(links)
    monkeypatch.undo()
    for number in range(1_000):
        fetched(links, f"article/{number}", str(number))
    paths = [f"print/{number}" for number in range(1_000)]
    kept = [path for path in paths if path in fetched(links, "about", "a", path)]
    assert len(kept) == pytest.approx(1_000 / SAMPLE_EVERY, abs=8)
    assert kept == [path for path in paths if path in fetched(links, "about", "a", path)]
    assert counted(links, "sampled") == 2 * len(kept)


def test_other_sites_and_links_without_a_pattern_are_as_before(links: LinkRouter) -> None:
    [same] = followed(links, page("article/1"), "new", "article/2")
    assert (same.meta.get(FORM), same.priority) == (None, 0)
    linking = begun(links, page("article/1"), None)
    for url in ("https://b.example/print/1", "ftp://a.example/print/1"):
        other = links.route(Request(url), linking)
        assert other is not None
        assert other.priority == 0


def test_a_form_that_was_a_copy_of_another_is_no_copy_of_a_third(tmp_path: Path) -> None:
    """A wrong file: without their first segment, articles, print pages and lists have one address."""
    names = ("article", "print", "list")
    links = with_patterns(tmp_path, *(AddressPattern(SITE, PartKind.SEGMENT, name) for name in names))
    for number in range(100, 100 + TRIALS):
        fetched(links, f"print/{number}", str(number))
        fetched(links, f"article/{number}", str(number), kind="near_duplicate")
    fetched(links, "print/1", "1")
    fetched(links, "list/2", "list")
    assert fetched(links, "about", "a", "article/1", "article/2") == ["article/2"]


FORMS = ("article", "print", "share", "archive", "list", "tag", "calendar")
RIGHT = [("segment", "print", "article"), ("parameter", "sid", "")]
WRONG = [("segment", name, to) for name in FORMS for to in (*FORMS, "") if name != to]


@pytest.mark.parametrize("seed", range(2))
def test_right_patterns_save_fetches_and_wrong_ones_lose_no_article(tmp_path: Path, seed: int) -> None:
    size = SiteSize(articles=30, archived=30, mirrors=0, months=10, tags=10)

    def found(told: list[tuple[str, str, str]]) -> CrawlWalk:
        patterns = [AddressPattern(f"http://{HOSTS[0]}", PartKind(kind), *rest) for kind, *rest in told]
        links = with_patterns(tmp_path, *patterns, links="probe", trials=CrawlOptions().trials)
        return walk(CrawlSite(size, HOSTS[:1]), links, seed, clusters=True)

    without, right, wrong = found([]), found(RIGHT), found([*WRONG, *RIGHT])
    print(without, right, wrong)
    assert without.missed == right.missed == wrong.missed == set()
    assert right.useless < without.useless


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MAX_FETCHED", 10), ("MAX_LISTS", 5), ("MAX_LINKS", 3)):
        monkeypatch.setattr(predicted_copies, name, most)
    predictor = CopyPredictor(PatternSet(PATTERNS), TRIALS)
    for number in range(100):
        plain = predictor.plain(f"{SITE}/article/{number}")
        assert plain is not None
        predictor.add(plain, "1", set(range(number % 5)))
    assert (len(predictor._fetched), len(predictor._links)) == (10, 5)


def test_a_page_with_very_many_links_shows_nothing_about_links(links: LinkRouter) -> None:
    many = [f"x/{number}" for number in range(predicted_copies.MAX_LINKS + 1)]
    for number in range(2 * TRIALS):
        fetched(links, f"article/{number}", str(number), *many)
        fetched(links, f"print/{number}", str(number), *many, kind="near_duplicate")
    fetched(links, "article/99", "99")
    assert fetched(links, "list", "l", "print/99") == ["print/99"]


def test_a_skipped_address_is_counted_among_the_dropped_ones(links: LinkRouter) -> None:
    trusted(links)
    fetched(links, "article/1", "1", "print/1")
    fetched(links, "article/2", "2", "print/1")
    links._closed("finished")
    assert links._dropped._crawler.stats.get_value("simstream/links/dropped") == 1


@pytest.mark.parametrize("content", [None, b"{}", b'{"format": "simstream-patterns/9", "patterns": []}'])
def test_a_file_that_cannot_be_used_ends_the_crawl_with_one_line(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "patterns.json"
    if content is not None:
        file.write_bytes(content)
    crawler = get_crawler(settings_dict={"SIMSTREAM_LOG": str(tmp_path), "SIMSTREAM_PATTERNS": str(file)})
    with pytest.raises(UsageError, match=r"patterns\.json") as found:
        router_of(crawler)
    record = logging.LogRecord("twisted", 40, "", 1, "traceback", (), (UsageError, found.value, None))
    assert _in_one_line(record)
    assert "patterns.json" in record.getMessage()
