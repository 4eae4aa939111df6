"""Kinds of addresses, what they have brought, and what becomes of a near duplicate's links for it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import msgspec
import pytest
from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse
from scrapy.utils.test import get_crawler

from simstream.crawlers import address_kinds
from simstream.crawlers import link_router as router_module
from simstream.crawlers.address_kinds import FAMILY_TRIALS, KindYields, kind_of
from simstream.crawlers.channel import channel_of
from simstream.crawlers.copies import is_named_after
from simstream.crawlers.link_router import LinkRouter, router_of
from simstream.crawlers.middleware import LateVerdictMiddleware
from simstream.crawlers.options import CrawlOptions
from simstream.crawlers.origin import UNJUDGED, LinkingPage
from simstream.model import PageSource, Verdict
from tests.bare_crawler import bare_crawler

TRIALS = 3


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://A.example/", "a.example/ ?"),
        ("https://a.example/about", "a.example/* ?"),
        ("https://a.example/article/17", "a.example/article #?"),
        ("https://a.example/article/17?sid=4&b=", "a.example/article #?b&sid"),
        ("https://a.example/2026/03/some-long-title-of-7-words/", "a.example/# #/*?"),
        ("https://a.example/tag/harbour/page/2", "a.example/tag harbour/page/#?"),
        ("https://a.example/page-12.html", "a.example/page-#.html ?"),
        ("https://a.example/x/9f8e7d6c5b4a/view", "a.example/x */*?"),
        ("http://[broken", address_kinds.UNREADABLE),
    ],
)
def test_addresses_that_differ_in_numbers_and_names_are_of_one_kind(url: str, kind: str) -> None:
    assert kind_of(url) == kind


def test_a_kind_is_given_up_after_so_many_near_duplicates_in_a_row() -> None:
    yields = KindYields(TRIALS)
    assert yields.trials("h/a #") == TRIALS
    for left in (2, 1, 0, 0):
        yields.count_duplicate("h/a #")
        assert yields.trials("h/a #") == left
    yields.count_new(["h/a #"])
    assert yields.trials("h/a #") == TRIALS
    assert yields.is_proven("h/a #")


def test_a_new_page_counts_for_all_that_led_to_it() -> None:
    yields = KindYields(TRIALS)
    for _ in range(TRIALS):
        yields.count_duplicate("h/archive #")
    yields.count_new(["h/article #", "h/archive #"])
    assert yields.trials("h/archive #") == TRIALS


def test_a_kind_that_has_brought_much_is_given_up_later() -> None:
    yields = KindYields(TRIALS)
    for _ in range(100):
        yields.count_new(["h/a #"])
    yields.count_duplicate("h/a #")
    assert yields.trials("h/a #") == 24
    assert not yields.is_proven("h/a #")


def test_a_site_that_makes_a_new_kind_with_every_page_comes_to_an_end() -> None:
    yields, kind, tried = KindYields(TRIALS), "h/a", 0
    while yields.trials(kind + " x"):
        kind += " x"
        yields.count_duplicate(kind)
        tried += 1
    assert tried == TRIALS * FAMILY_TRIALS


def test_the_number_of_known_kinds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_kinds, "MAX_KINDS", 10)
    yields = KindYields(TRIALS)
    for number in range(100):
        yields.count_duplicate(f"h/{number} x")
    assert len(yields) == 10


class StubChannel:
    """What a router needs of a channel."""

    def __init__(self, options: CrawlOptions) -> None:
        self.options = options
        self.counted: dict[str, int] = {}

    def count(self, what: str, by: int = 1) -> None:
        self.counted[what] = self.counted.get(what, 0) + by


def router(**options: Any) -> LinkRouter:
    made = LinkRouter(bare_crawler(), StubChannel(CrawlOptions(**({"trials": TRIALS} | options))))  # type: ignore[arg-type]
    made._clusters.is_copy(verdict("new", page_id="a"))
    return made


def verdict(kind: str, cluster: str = "1", page_id: str = "b") -> Verdict:
    """The verdict on a page; if it is no new one, it is a copy of the page `a`."""
    place = PageSource("pages", 0, 0)
    return Verdict(page_id, None, kind, None, None, None, None, cluster, "a", (), None, "0" * 8, 1, 1, place)


def page(path: str, request: Request | None = None) -> HtmlResponse:
    url = f"https://a.example/{path}"
    return HtmlResponse(url, request=request.replace(url=url) if request else Request(url))


def begun(
    links: LinkRouter, response: HtmlResponse, judged: Verdict | None, is_awaited: bool = False
) -> LinkingPage:
    """A page whose verdict has come; its links are still to be routed."""
    assert response.request is not None
    links._dropped.forget(response.request)
    return links.begin(response, links.origin(response), judged, links.number(), is_awaited)


def followed(
    links: LinkRouter, response: HtmlResponse, kind: str | None, *paths: str, cluster: str = "1"
) -> list[Request]:
    """The links of a page, with those that go to the scheduler at once."""
    judged = None if kind is None else verdict(kind, cluster)
    linking = begun(links, response, judged, is_awaited=judged is None)
    requests = [Request(f"https://a.example/{path}") for path in paths]
    kept = [kept for request in requests if (kept := links.route(request, linking)) is not None]
    links.end(linking)
    return kept


def test_links_of_a_near_duplicate_wait_and_those_of_a_proven_kind_go_at_once() -> None:
    links = router()
    followed(links, page("article/1"), "new")
    kept = followed(links, page("archive/2"), "near_duplicate", "article/7", "archive/3")
    assert [request.url for request in kept] == ["https://a.example/article/7"]
    assert kept[0].priority < 0
    assert links.held is not None
    assert [request.url for request in links.held.take(9)] == ["https://a.example/archive/3"]


def test_an_archive_is_followed_as_long_as_its_pages_lead_to_new_ones() -> None:
    links = router()
    assert links.held is not None
    reached, request = 0, None
    for number in range(2, 40):
        archive = page(f"archive/{number}", request)
        articles = [f"article/{number}"] if number < 20 else []
        at_once = followed(links, archive, "near_duplicate", f"archive/{number + 1}", *articles)
        waiting = at_once + links.held.take(9)
        for article in (one for one in waiting if "article" in one.url):
            links.learn(links.origin(page(f"article/{number}", article)), verdict("new"))
            reached += 1
        request = next((one for one in waiting if "archive" in one.url), None)
        if request is None:
            break
    assert reached == 18
    assert 19 + TRIALS <= number <= 19 + 2 * TRIALS


def test_links_that_are_queued_when_their_page_turns_out_a_near_duplicate_leave_the_queue() -> None:
    links = router()
    response = page("calendar/1")
    [queued] = followed(links, response, None, "calendar/2")
    assert not links.is_pruned(queued)
    links.learn_late(queued.meta[UNJUDGED], links.origin(response), verdict("near_duplicate"))
    assert links.is_pruned(queued)
    assert links.channel.counted == {"links/pruned": 1}  # type: ignore[attr-defined]
    assert links.held is not None
    [again] = links.held.take(9)
    assert again.dont_filter  # Scrapy knows the address


@pytest.mark.parametrize("dont_filter", [False, True])
def test_the_errback_of_a_link_that_left_the_queue_is_called_only_if_its_later_fetch_fails(
    dont_filter: bool,
) -> None:
    links = router()
    response = page("calendar/1")
    link = Request("https://a.example/calendar/2", errback=print, dont_filter=dont_filter)
    queued = links.route(link, begun(links, response, None, is_awaited=True))
    assert queued is not None
    links.learn_late(queued.meta[UNJUDGED], links.origin(response), verdict("near_duplicate"))
    with pytest.raises(IgnoreRequest):
        LateVerdictMiddleware(links).process_request(queued)
    assert queued.errback is None
    assert links.held is not None
    [again] = links.held.take(9)
    assert again.errback is print


def test_a_link_that_left_the_queue_goes_on_from_a_page_worth_following() -> None:
    links = router()
    response = page("calendar/1")
    [queued] = followed(links, response, None, "calendar/2")
    links.learn_late(queued.meta[UNJUDGED], links.origin(response), verdict("near_duplicate"))
    assert links.is_pruned(queued)
    [again] = followed(links, page("article/1"), "new", "calendar/2")
    assert again.dont_filter
    assert not links.held


@pytest.mark.parametrize("links_are", ["probe", "drop"])
def test_a_link_that_left_the_queue_is_let_pass_once_and_is_then_like_any_other(links_are: str) -> None:
    """Scrapy has seen its address. A redirect of it to another site must still be filtered."""
    links = router(links=links_are)
    response = page("calendar/1")
    [queued] = followed(links, response, None, "calendar/2")
    links.learn_late(queued.meta[UNJUDGED], links.origin(response), verdict("near_duplicate"))
    assert links.is_pruned(queued)
    assert len(links._dropped._kind_of) == (links_are == "drop")
    [again] = followed(links, page("article/1"), "new", "calendar/2")
    assert again.dont_filter
    assert not links.is_pruned(again)
    assert not again.dont_filter


def test_a_link_that_its_spider_lets_pass_is_let_pass_behind_a_redirect_too() -> None:
    links = router()
    response = page("calendar/1")
    linking = begun(links, response, None, is_awaited=True)
    queued = links.route(Request("https://a.example/calendar/2", dont_filter=True), linking)
    assert queued is not None
    links.learn_late(queued.meta[UNJUDGED], links.origin(response), verdict("near_duplicate"))
    assert links.is_pruned(queued)
    assert links.held is not None
    [again] = links.held.take(9)
    links._late.clear()
    assert not links.is_pruned(again)
    assert again.dont_filter


@pytest.mark.parametrize("links_are", ["probe", "drop", "deprioritize", "follow"])
def test_a_request_that_scrapy_must_not_filter_is_followed_from_a_copy(links_are: str) -> None:
    links = router(links=links_are)
    response = page("article/2")
    again = response.request.replace(dont_filter=True)  # what Scrapy's get_retry_request makes
    linking = begun(links, response, verdict("near_duplicate"))
    assert links.route(again, linking) is again


def test_a_request_that_scrapy_must_not_filter_is_not_dropped_by_a_late_verdict() -> None:
    links = router(links="drop")
    response = page("article/2")
    queued = links.route(response.request.replace(dont_filter=True), begun(links, response, None, is_awaited=True))
    assert queued is not None
    links.learn_late(queued.meta[UNJUDGED], links.origin(response), verdict("near_duplicate"))
    assert not links.is_pruned(queued)


def test_other_requests_with_the_meta_of_a_page_are_never_pruned() -> None:
    links = router()
    response = page("calendar/1")
    [queued] = followed(links, response, None, "calendar/2")
    links.learn_late(queued.meta[UNJUDGED], links.origin(response), verdict("near_duplicate"))
    inline = Request("https://a.example/api/calendar/2", meta=dict(queued.meta))
    assert not links.is_pruned(inline)
    assert links.is_pruned(queued)


def test_a_page_counts_for_its_own_address_though_its_spider_copies_the_meta_of_a_redirect() -> None:
    links = router()
    start = Request("https://a.example/en/", meta={"redirect_urls": ["https://a.example/"]})
    linking = begun(links, HtmlResponse(start.url, request=start), verdict("new"))
    link = links.route(Request("https://a.example/calendar/2", meta=dict(start.meta)), linking)
    assert link is not None
    assert links.origin(HtmlResponse(link.url, request=link)).kinds[0] == kind_of(link.url)
    moved = link.replace(url="https://a.example/moved")  # as Scrapy's redirect does
    assert links.origin(HtmlResponse(moved.url, request=moved)).kinds[0].endswith(kind_of(link.url))


def test_a_late_verdict_of_a_new_page_takes_no_link_away_and_late_pages_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(router_module, "MAX_LATE", 2)
    links = router()
    response = page("calendar/1")
    queued = [followed(links, response, None, f"calendar/{number}")[0] for number in range(5)]
    links.learn_late(queued[0].meta[UNJUDGED], links.origin(response), verdict("new"))
    assert not links.is_pruned(queued[0])
    for request in queued:
        links.learn_late(request.meta[UNJUDGED], links.origin(response), verdict("near_duplicate"))
    assert [links.is_pruned(request) for request in queued] == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("link", "page", "is_named"),
    [
        ("https://a.example/print/17", "https://a.example/article/17", True),
        ("https://a.example/print/170", "https://a.example/article/17", False),
        ("https://a.example/article-17-print.html", "https://a.example/article-17.html", True),
        ("https://a.example/print?id=17", "https://a.example/view?id=17&lang=en", False),
        ("https://a.example/print?id=17&lang=en", "https://a.example/view?id=17&lang=en", True),
        ("https://a.example/2026/03/the-bridge/share", "https://a.example/2026/03/the-bridge/", True),
        ("https://b.example/send?u=https%3A%2F%2Fa.example%2Fx%2F", "https://a.example/x/", True),
        ("https://a.example/tag/harbour", "https://a.example/article/the-harbour", False),
        ("https://a.example/archive/3", "https://a.example/archive/2", False),
        ("https://a.example/article/17", "https://a.example/", False),
        ("http://[broken", "https://a.example/17", False),
    ],
)
def test_a_link_with_a_pages_number_or_name_is_named_after_it(link: str, page: str, is_named: bool) -> None:
    assert is_named_after(link, page) == is_named


def visited(links: LinkRouter, number: int, form: str = "print", *own: str) -> list[str]:
    """Fetch a new article, and its other form unless that waits; return the article's links that go at once."""
    kept = followed(links, page(f"article/{number}"), "new", f"{form}/{number}", "about")
    for request in kept:
        if form in request.url and not links.is_pruned(request):
            followed(links, page(f"{form}/{number}", request), "near_duplicate", f"article/{number}", *own)
    return [request.url.rpartition("example/")[2] for request in kept]


def test_links_on_new_pages_wait_once_their_kind_brings_nothing_but_copies() -> None:
    links = router()
    found = [visited(links, number) for number in range(100, 100 + TRIALS + 16)]
    assert all("about" in one for one in found)
    tried = [number for number, one in enumerate(found) if len(one) == 2]
    assert tried == [*range(TRIALS), TRIALS + 7, TRIALS + 15]  # then every eighth
    assert links.held is not None
    assert (len(links.held), links.held.take(99)) == (14, [])


def test_waiting_links_on_new_pages_are_followed_after_one_of_them_brought_a_new_page() -> None:
    links = router()
    for number in range(100, 107 + TRIALS):
        visited(links, number)
    [_, tried] = followed(links, page("article/200"), "new", "about", "print/200")
    followed(links, page("print/200", tried), "new")
    assert links.held is not None
    assert len(links.held.take(99)) == 7
    assert len(visited(links, 300)) == 2


def test_near_duplicates_with_a_link_of_their_own_are_followed_from_every_new_page() -> None:
    links = router()  # a tag's next page repeats its introduction, and lists articles that are known already
    found = [visited(links, number, "more", f"article/{number + 500}") for number in range(100, 140)]
    assert all(len(one) == 2 for one in found)


def test_of_a_kind_with_copies_and_articles_the_articles_are_followed() -> None:
    links = router()
    for number in range(100, 120):
        visited(links, number, "view")
    kept = followed(links, page("article/200"), "new", "view/200", "view/7", "view/8")
    assert [request.url for request in kept] == ["https://a.example/view/7", "https://a.example/view/8"]


def test_a_link_for_another_callback_is_followed() -> None:
    links = router()
    for number in range(100, 120):
        visited(links, number)
    linking = begun(links, page("article/200"), verdict("new"))
    request = Request("https://a.example/print/200", callback=print)
    assert links.route(request, linking) is request


def test_queued_links_on_new_pages_leave_the_queue_when_their_kind_is_given_up() -> None:
    links = router()
    queued = followed(links, page("article/200"), "new", "print/200")
    for number in range(100, 100 + TRIALS):
        visited(links, number)
    assert links.is_pruned(queued[0])
    assert links.held is not None
    assert len(links.held) == 1


def test_stories_below_the_archive_of_their_day_are_no_copies_of_it() -> None:
    links = router()
    for number in range(3 * TRIALS):
        day = f"2024/05/{number:02}"
        kept = followed(links, page(day), "new", f"{day}/story", "about", cluster=f"day {number}")
        assert [request.url.rpartition("example/")[2] for request in kept] == [f"{day}/story", "about"]
        story = page(f"{day}/story", kept[0])  # an agency's story: a copy of one elsewhere
        followed(links, story, "near_duplicate", "about", cluster=f"story {number}")


def test_forms_that_are_near_duplicates_of_each_other_are_given_up() -> None:
    links = router()
    links.learn(links.origin(page("share/1")), verdict("new", "forms", "https://a.example/share/1"))
    found = []
    for number in range(100, 100 + 2 * TRIALS):
        kept = followed(links, page(f"article/{number}"), "new", f"share/{number}", cluster=f"article {number}")
        found.append(len(kept))
        for request in kept:
            response = page(f"share/{number}", request)
            form = msgspec.structs.replace(
                verdict("near_duplicate", "forms", response.url), canonical="https://a.example/share/1"
            )
            links.end(begun(links, response, form))
    assert found == [1] * TRIALS + [0] * TRIALS


@pytest.mark.parametrize("late", [False, True], ids=["its kind is given up", "a late verdict"])
def test_a_queued_link_that_another_page_has_too_stays_in_the_queue(late: bool) -> None:
    links = router()
    [alone] = followed(links, page("article/200"), None if late else "new", "print/200")
    [shared] = followed(links, page("article/201"), None if late else "new", "print/201")
    followed(links, page("list/1"), "new", "print/201")  # Scrapy filters it out: its address is in the queue
    for number in range(100, 100 + TRIALS):
        visited(links, number)
    for request in (alone, shared) if late else ():
        links.learn_late(request.meta[UNJUDGED], links.origin(page("article/200")), verdict("near_duplicate"))
    assert [links.is_pruned(alone), links.is_pruned(shared)] == [True, False]


def test_a_queued_link_stays_if_a_second_page_has_it_whose_verdict_is_late_too() -> None:
    links = router()
    [first] = followed(links, page("article/200"), None, "x/1")
    [second] = followed(links, page("article/201"), None, "x/1")  # Scrapy filters it out
    links.learn_late(first.meta[UNJUDGED], links.origin(page("article/200")), verdict("near_duplicate"))
    links.learn_late(second.meta[UNJUDGED], links.origin(page("article/201")), verdict("new"))
    assert not links.is_pruned(first)


def test_the_number_of_queued_links_that_may_leave_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "MAX_AT_RISK", 10)
    links = router()
    followed(links, page("article/200"), None, *(f"article/{number}" for number in range(30)))
    assert len(links._at_risk) == 10


def test_the_number_of_links_that_left_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "MAX_AT_RISK", 10)
    links = router(links="drop")
    linking = begun(links, page("copy/1"), None, is_awaited=True)
    queued = [links.route(Request(f"https://a.example/article/{number}"), linking) for number in range(30)]
    links.learn_late(linking.number, linking.origin, verdict("near_duplicate"))
    assert all(request is not None and links.is_pruned(request) for request in queued)
    assert len(links._pruned) == 10


def test_a_resumed_crawl_takes_no_numbers_of_the_one_before() -> None:
    assert router().number() != router().number()


def test_a_crawl_that_has_ended_leaves_nothing_in_memory() -> None:
    crawler = get_crawler(Spider)
    router = weakref.ref(router_of(crawler))
    channel = weakref.ref(channel_of(crawler))
    assert router_of(crawler) is router()
    del crawler
    gc.collect()
    assert (router(), channel()) == (None, None)


def test_links_that_are_all_dropped_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    links = router(links="drop")
    assert not followed(links, page("archive/2"), "near_duplicate", "article/7", "archive/3")
    assert caplog.text.count("links of near duplicates are dropped") == 1


def test_a_form_that_goes_to_a_fetched_address_is_another_request_and_waits() -> None:
    links = router()
    followed(links, page("search"), "new")
    linking = begun(links, page("calendar/1"), verdict("near_duplicate"))
    fetched, form = (
        Request("https://a.example/search"),
        Request("https://a.example/search", method="POST", body="2"),
    )
    kept = [links.route(request, linking) for request in (fetched, form)]
    assert (kept[0] is not None, kept[1]) == (True, None)
