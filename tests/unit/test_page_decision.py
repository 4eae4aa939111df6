"""What a verdict means for a page's links, and the Scrapy settings that say so."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from scrapy import Request
from scrapy.exceptions import DontCloseSpider
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings

from simstream.crawlers.middleware import SKIP, VERDICT, FrontierMiddleware, page_of
from simstream.crawlers.options import CrawlOptions, options_of
from simstream.crawlers.origin import origin_of
from simstream.crawlers.page_decision import LinkDecision, decide, is_duplicate
from simstream.crawlers.waiting_links import WaitingLinks
from simstream.errors import SettingsError
from tests.bare_crawler import bare_crawler
from tests.unit.test_link_kinds import verdict


def test_links_of_a_near_duplicate_wait_or_are_dropped() -> None:
    assert decide(True, 0, CrawlOptions()) == LinkDecision(True, 1, priority=-100)
    assert decide(True, 0, CrawlOptions(links="drop")) == LinkDecision(True, 1, drop=True)


def test_a_page_without_a_verdict_is_kept() -> None:
    assert decide(None, 2, CrawlOptions()) == LinkDecision(False, 2)


def test_the_items_of_a_page_fetched_again_are_those_of_a_duplicate_only_if_it_was_one() -> None:
    again = verdict("unchanged", page_id="b")
    assert is_duplicate(msgspec.structs.replace(again, canonical="a"))
    assert not is_duplicate(msgspec.structs.replace(again, canonical="b"))
    assert is_duplicate(verdict("near_duplicate"))
    assert not is_duplicate(verdict("new"))


def test_a_new_page_ends_a_chain_and_one_with_nothing_to_compare_does_not() -> None:
    assert decide(False, 3, CrawlOptions()).chain == 0
    assert decide(None, 3, CrawlOptions()).chain == 3


def test_a_chain_may_be_followed_to_a_depth() -> None:
    options = CrawlOptions(links="drop", duplicate_depth=2)
    drops = [decide(True, chain, options).drop for chain in range(4)]
    assert drops == [False, False, True, True]


def test_links_may_lose_priority_with_each_duplicate_in_a_row() -> None:
    options = CrawlOptions(links="deprioritize", priority=-10, duplicate_depth=1)
    found = [decide(True, chain, options) for chain in range(3)]
    assert [(decision.drop, decision.priority) for decision in found] == [(False, 0), (False, -10), (False, -20)]


def test_links_that_are_fetched_last_wait_whatever_the_priority() -> None:
    assert decide(True, 0, CrawlOptions(links="deprioritize", priority=0)).priority == -1


def test_links_of_near_duplicates_may_be_followed() -> None:
    assert decide(True, 5, CrawlOptions(links="follow")) == LinkDecision(True, 6)


def test_settings_are_read_with_their_types() -> None:
    settings = Settings({"SIMSTREAM_WAIT": "0.5", "SIMSTREAM_DROP_ITEMS": "1", "SIMSTREAM_LINKS": "follow"})
    assert options_of(settings) == CrawlOptions(wait=0.5, drop_items=True, links="follow")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LINKS", "perhaps"),
        ("WAIT", "soon"),
        ("WAIT", "-1"),
        ("WAIT", "nan"),
        ("IN_FLIGHT", "0"),
        ("PRIORITY", "x"),
        ("HELD", float("inf")),
        ("LINK", "drop"),
        ("MADE_UP", "1"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str | float) -> None:
    with pytest.raises(SettingsError, match=f"SIMSTREAM_{name}"):
        options_of(Settings({f"SIMSTREAM_{name}": value}))


def test_a_response_becomes_a_page_as_it_was_fetched() -> None:
    response = HtmlResponse(
        "https://a.example/1#top", headers={"Content-Type": "Text/HTML; charset=GBK"}, body="页".encode("gbk")
    )
    page = page_of(response)
    assert page is not None
    assert (page.url, page.body, page.status) == ("https://a.example/1", "页".encode("gbk"), 200)
    assert page.content_type == "text/html; charset=GBK"


@pytest.mark.parametrize(
    ("date", "flags", "time"),
    [
        ("Mon, 02 Mar 2026 08:00:00 GMT", ["cached"], datetime(2026, 3, 2, 8, tzinfo=UTC)),
        ("Mon, 02 Mar 2026 08:00:00 GMT", [], None),
        ("Mon, 02 Mar 99999999999999999999 08:00:00 GMT", ["cached"], None),
        ("soon \xff", ["cached"], None),
        ("", ["cached"], None),
        (None, ["cached"], None),
    ],
)
def test_a_page_from_scrapys_cache_has_the_time_at_which_it_was_fetched(
    date: str | None, flags: list[str], time: datetime | None
) -> None:
    headers = {} if date is None else {"Date": date.encode("latin-1")}
    page = page_of(HtmlResponse("https://a.example/1", headers=headers, flags=flags, body=b"page"))
    assert page is not None
    assert page.time == time


def test_what_is_no_text_or_empty_is_not_sent() -> None:
    assert page_of(Response("https://a.example/1.png", headers={"Content-Type": "image/png"}, body=b"\x89")) is None
    assert page_of(HtmlResponse("https://a.example/1", body=b"")) is None
    assert page_of(HtmlResponse("https://a.example/1", body=b"", status=500)) is None


def test_the_answer_to_a_form_is_no_page_but_that_of_a_renderer_is() -> None:
    for url, is_page in (("https://a.example/1", False), ("http://renderer.example/", True)):
        response = HtmlResponse("https://a.example/1", body=b"page", request=Request(url, method="POST"))
        assert (page_of(response) is not None) == is_page


def middleware_over(**options: Any) -> FrontierMiddleware:
    """A middleware whose channel sends nothing."""
    channel = SimpleNamespace(options=CrawlOptions(**options), count=lambda _: None)
    router: Any = SimpleNamespace(channel=channel)
    return FrontierMiddleware(router)


def test_a_response_that_its_spider_skips_is_not_sent() -> None:
    request = Request("https://a.example/1", meta={SKIP: True})
    response = HtmlResponse(request.url, body=b"page", request=request)
    origin = origin_of(response, "kind")
    assert asyncio.run(middleware_over()._judge(response, origin, 1)) == (None, False)
    assert response.meta[VERDICT] is None


@pytest.mark.parametrize("drop_items", [False, True])
def test_items_of_near_duplicates_are_dropped_only_where_this_is_asked(drop_items: bool) -> None:
    middleware = middleware_over(drop_items=drop_items)
    assert middleware._item("item", verdict("near_duplicate")) == (None if drop_items else "item")
    assert middleware._item("item", verdict("new")) == middleware._item("item", None) == "item"


@pytest.mark.parametrize("status", [404, 410])
def test_a_page_that_is_gone_is_sent_without_a_body(status: int) -> None:
    page = page_of(HtmlResponse("https://a.example/1", body=b"", status=status))
    assert page is not None
    assert page.status == status


def held(
    most: int = 10,
    trials: Callable[[str], int] = lambda _: 10,
    kind_now: Callable[[Request], str] | None = None,
) -> WaitingLinks:
    return WaitingLinks(bare_crawler(), most, trials, kind_now)


def link(number: int, **more: bool) -> Request:
    return Request(f"https://a.example/{number}", **more)  # type: ignore[arg-type]


def taken(links: WaitingLinks) -> list[str]:
    return [request.url.rpartition("/")[2] for request in links.take(10)]


def test_links_that_are_held_come_after_the_fewest_duplicates_in_a_row_and_once() -> None:
    links = held()
    for number, chain in ((1, 2), (2, 1), (3, 2), (1, 3), (3, 1), (2, 1)):
        assert links.hold(link(number), chain)
    assert len(links) == 3
    assert taken(links) == ["2", "3", "1"]
    assert taken(links) == []


def test_a_link_that_goes_its_usual_way_is_not_held_any_more() -> None:
    links = held()
    links.hold(link(1), 1)
    links.hold(link(2), 1)
    links.forget(link(1))
    links.forget(link(3))
    assert taken(links) == ["2"]


def test_links_wait_with_the_kind_that_they_have_when_they_are_taken() -> None:
    now = dict.fromkeys("1234", "fresh")
    trials = {"fresh": 1, "seen": 1, "given up": 0}
    links = held(9, trials.__getitem__, lambda request: now[request.url[-1]])
    for number in now:
        links.hold(link(int(number)), 0, now[number])
    now |= dict.fromkeys("23", "seen")
    assert taken(links) == ["1", "2"]
    trials["fresh"] = 0
    assert taken(links) == ["3"]
    now["4"] = "given up"
    assert taken(links) == []
    now["4"] = "seen"  # also a link that waits with a kind that is given up
    assert taken(links) == ["4"]
    assert len(links) == 0


def test_no_kind_gets_more_links_than_trials_when_others_join_it() -> None:
    links = held(9, lambda _: 4, lambda request: "b")
    for number in range(9):
        links.hold(link(number), 0, "b" if number < 6 else "a")
    assert len(links.take(9)) == 4


def test_held_links_are_bounded() -> None:
    links = held(1)
    assert links.hold(link(1), 2)
    assert not links.hold(link(2), 1)
    assert links.hold(link(1), 1), "it has its place"


def test_a_spider_stays_open_exactly_while_waiting_links_are_given_to_it() -> None:
    links, given = held(), list[Request]()
    links._crawler.engine = SimpleNamespace(crawl=given.append)
    links._crawler.stats = SimpleNamespace(inc_value=lambda *_: None)
    links.hold(link(1), 1)
    with pytest.raises(DontCloseSpider):
        links._idle()
    links._idle()
    assert len(given) == 1


SPIDER = """
import scrapy
class Small(scrapy.Spider):
    name = "small"
    start_urls = ["data:text/html,x"]
    custom_settings = {"SPIDER_MIDDLEWARES": {"simstream.crawlers.FrontierMiddleware": 500}}
"""


def test_a_wrong_setting_ends_a_crawl_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SPIDER)
    line = [sys.executable, "-m", "scrapy", "runspider", "small.py", "-s", "SIMSTREAM_LINKS=no"]
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "stream")}
    done = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if "SIMSTREAM_LINKS" in line and "ERROR" in line]
    assert len(said) == 1
    assert said[0].endswith("SIMSTREAM_LINKS is 'no': use probe, drop, deprioritize or follow")


def test_a_link_that_scrapy_has_taken_up_before_is_given_to_it_past_its_filter() -> None:
    links = held()
    links.hold(link(1, dont_filter=True), 2)
    links.hold(link(1), 1)
    links.hold(link(2), 1)
    assert [request.dont_filter for request in links.take(10)] == [True, False]


def test_of_each_kind_as_many_links_are_taken_as_it_has_trials() -> None:
    trials = {"poor": 0, "fair": 2, "rich": 9}
    links = held(trials=trials.__getitem__)
    for number, kind in enumerate(("poor", "fair", "rich") * 3):
        links.hold(link(number), 1, kind)
    assert sorted(taken(links)) == ["1", "2", "4", "5", "8"]
    assert sorted(kind for kind, _ in links.links()) == ["fair", "poor", "poor", "poor"]
