"""What is counted as dropped at the end: addresses that nothing has fetched, each once, in bounded memory."""

from __future__ import annotations

import pytest
from scrapy import Request, signals
from scrapy.http import HtmlResponse

from simstream.crawlers import dropped_link_counts as dropped_links
from simstream.crawlers.link_router import LinkRouter
from simstream.crawlers.seen_pages import SeenSet
from tests.unit.test_link_kinds import followed, page, router


def fetch(links: LinkRouter, path: str, signal: object = signals.request_reached_downloader) -> None:
    """Tell what Scrapy tells when it fetches an address."""
    request = Request(f"https://a.example/{path}")
    more = {"response": HtmlResponse(request.url)} if signal is signals.response_received else {}
    links._dropped._crawler.signals.send_catch_log(signal, request=request, spider=None, **more)


def counted(links: LinkRouter) -> int:
    """The count at the end of the crawl."""
    links._closed("finished")
    return int(links._dropped._crawler.stats.get_value("simstream/links/dropped", 0))


@pytest.mark.parametrize("how", ["drop", "probe"])
def test_an_address_that_is_fetched_from_elsewhere_is_not_counted_and_any_other_once(how: str) -> None:
    links = router(links=how)
    fetch(links, "article/1")
    fetch(links, "article/2", signals.response_received)  # from a cache
    for number in (2, 3):
        followed(links, page(f"archive/{number}"), "near_duplicate", *(f"article/{one}" for one in range(1, 7)))
    fetch(links, "article/3")
    assert counted(links) == 3


def test_a_link_without_room_is_not_counted_if_it_is_fetched_later() -> None:
    links = router(held=0)
    for number in range(2, 9):
        followed(links, page(f"archive/{number}"), "near_duplicate")
    followed(links, page("archive/9"), "near_duplicate", "archive/20", "archive/21")
    fetch(links, "archive/20")
    assert counted(links) == 1


def test_the_largest_kinds_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    links = router()
    followed(links, page("a/1"), "near_duplicate", "article/1", "article/2", "tag/1")
    assert counted(links) == 3
    assert "3 addresses were not fetched" in caplog.text
    assert "a.example/article #? (2), a.example/tag #? (1)" in caplog.text


def test_the_number_of_remembered_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped_links, "MAX_ADDRESSES", 10)
    links = router(links="drop")
    followed(links, page("a/1"), "near_duplicate", *(f"article/{number}" for number in range(100)))
    assert len(links._dropped._kind_of) == 10
    assert counted(links) == 100


def test_few_addresses_are_taken_for_fetched_ones() -> None:
    fetched = SeenSet()
    names = [str(number).encode() for number in range(20_000)]
    for name in names[:10_000]:
        fetched.add(name)
    assert all(name in fetched for name in names[:10_000])
    assert sum(name in fetched for name in names[10_000:]) < 10
