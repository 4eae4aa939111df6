"""Stories as Atom and as JSON Feed: the formats' rules, strangers' titles and addresses, and readers that poll."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ET
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from email.utils import formatdate
from importlib import resources
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import feedparser
import msgspec
import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from simstream.feeds import web_feeds
from simstream.feeds.fold import FoldLimits
from simstream.feeds.records import PageSheet, place
from simstream.feeds.sites import site_of
from simstream.feeds.state import FeedState, take_verdict
from simstream.feeds.syndication import (
    MAX_ENTRIES,
    MAX_FEED_BYTES,
    FeedEntry,
    FeedHead,
    web_address,
    write_atom,
    write_json_feed,
)
from simstream.feeds.web import HEADERS, FeedWeb
from simstream.model import Record
from simstream.telemetry.callers import CallerRules
from simstream.wire.verdict import encode
from tests.unit.test_feed_costs import TIME, verdict

NS = "{http://www.w3.org/2005/Atom}"
BOTH = ("/feed.atom", "/feed.json")
Page = tuple[str, str, int]
"""A page's URL, its title and the number of its story."""


def feed_of(*pages: Page) -> FeedState:
    feed = FeedState(FoldLimits())
    feed.begin({})
    feed.name = "log.news"
    add(feed, *pages)
    asyncio.run(feed.settle())
    return feed


def add(feed: FeedState, *pages: Page) -> None:
    first = len(feed.fold.versions)
    for number, (url, title, cluster) in enumerate(pages, first):
        feed.fold.read(place(0, number), PageSheet(title, TIME + 60_000 * number))
        changes: dict[str, Any] = {"id": url, "url": url, "time": TIME + 60_000 * number}
        feed.fold.apply(msgspec.structs.replace(verdict(number, cluster), **changes))


def ask(
    feed: FeedState, talk: Callable[[TestClient[Any, Any]], Awaitable[Any]], callers: CallerRules | None = None
) -> Any:
    """What a talk with the feed's web comes to."""

    async def compare(a: str, b: str) -> dict[str, Any]:
        raise AssertionError

    async def run() -> Any:
        app = web.Application()
        FeedWeb(feed, compare, callers).serve_on(app)
        async with TestClient(TestServer(app)) as client:
            return await talk(client)

    return asyncio.run(run())


def body(feed: FeedState, path: str, **headers: str) -> bytes:
    async def get(client: TestClient[Any, Any]) -> bytes:
        answer = await client.get(path, headers=headers)
        assert answer.status == 200, await answer.text()
        return await answer.read()

    found: bytes = ask(feed, get)
    return found


def check_atom(text: bytes) -> Any:
    """Hold a feed against the rules of RFC 4287 that concern it, and return what feedparser reads."""
    read = feedparser.parse(text)
    assert (read.bozo, read.version) == (False, "atom10")
    root = ET.fromstring(text)
    assert root.tag == f"{NS}feed"
    ids = []
    for node in (root, *root.iter(f"{NS}entry")):
        for name in ("id", "title", "updated"):
            assert len(node.findall(f"{NS}{name}")) == 1, name
        datetime.fromisoformat(node.findtext(f"{NS}updated") or "")
        ids.append(node.findtext(f"{NS}id"))
        links = [(link.get("rel"), link.get("type")) for link in node.findall(f"{NS}link")]
        assert len([link for link in links if link[0] == "alternate"]) == 1
        assert all(link.get("href", "").startswith("http") for link in node.findall(f"{NS}link"))
    assert len(set(ids)) == len(ids)
    assert all(str(one).startswith("urn:uuid:") for one in ids)
    assert root.findtext(f"{NS}author/{NS}name")
    assert "self" in [link.get("rel") for link in root.findall(f"{NS}link")]
    return read


def check_json_feed(text: bytes) -> Any:
    """Hold a feed against JSON Feed 1.1, and return it."""
    feed = json.loads(text)
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    assert isinstance(feed["title"], str)
    assert all(feed[name].startswith("http") for name in ("home_page_url", "feed_url"))
    for item in feed["items"]:
        assert isinstance(item["id"], str)
        assert item["content_html"]
        for name in ("date_published", "date_modified"):
            datetime.fromisoformat(item[name])
    assert len({item["id"] for item in feed["items"]}) == len(feed["items"])
    return feed


STORIES: tuple[Page, ...] = (
    ("https://a.example/1", "Lighthouse saved", 0),
    ("https://b.example/2", "Bridge opened", 1),
    ("https://www.c.example/3", "The lighthouse is saved", 0),
)


def test_an_entry_is_a_story_with_its_versions_and_the_story_that_changed_last_comes_first() -> None:
    feed = feed_of(*STORIES)
    atom = check_atom(body(feed, "/feed.atom"))
    items = check_json_feed(body(feed, "/feed.json"))["items"]
    assert [entry.title for entry in atom.entries] == ["Lighthouse saved", "Bridge opened"]
    first, item = atom.entries[0], items[0]
    assert (first.id, first.published, first.updated) == (
        item["id"],
        item["date_published"],
        item["date_modified"],
    )
    assert datetime.fromisoformat(first.updated).timestamp() * 1000 == TIME + 120_000
    links = [(link.rel, link.href) for link in first.links]
    assert [rel for rel, _ in links] == ["alternate", "via", "related", "related"]
    assert links[0][1].endswith("/#story/0")
    assert [href for _, href in links[1:]] == ["https://a.example/1", "https://a.example/1", STORIES[2][0]]
    assert item["url"].endswith("/#story/0")
    assert item["external_url"] == "https://a.example/1"
    assert item["_simstream"] == {"story": "0", "sites": 2, "versions": 2, "growth": 2}
    for html in (first.content[0].value, item["content_html"]):
        assert "The lighthouse is saved" in html
        assert "c.example" in html


def test_a_new_version_updates_its_entry_and_the_id_stays_over_a_restart() -> None:
    feed = feed_of(*STORIES)
    before = check_atom(body(feed, "/feed.atom")).entries
    add(feed, ("https://d.example/4", "A bridge for all", 1))
    after = check_atom(body(feed, "/feed.atom")).entries
    assert [entry.id for entry in after] == [before[1].id, before[0].id]
    assert after[0].updated > before[1].updated
    assert (after[1].updated, after[0].published) == (before[0].updated, before[1].published)
    again = FeedState(FoldLimits())
    again.begin(feed.fold._table)
    again.name = feed.name
    asyncio.run(again.settle())
    hosted = {"Host": "127.0.0.1"}
    assert body(again, "/feed.atom", **hosted) == body(feed, "/feed.atom", **hosted)


def test_a_story_that_is_found_late_comes_first_and_so_does_one_with_a_late_version() -> None:
    feed = feed_of()

    def judge(number: int, cluster: int, ahead: int = 0) -> None:
        feed.fold.read(place(0, number), PageSheet(f"t{number}", TIME))
        value = encode(verdict(number, cluster, ahead=ahead))
        take_verdict(feed, Record("verdicts", 0, number, None, value, timestamp=TIME + 60_000 * number))

    for number in range(40):
        judge(number, number)
    judge(40, 40, ahead=-36_000_000)
    [late, *_] = check_json_feed(body(feed, "/feed.json"))["items"]
    assert late["title"] == "t40"
    assert late["date_published"] < late["date_modified"]
    judge(41, 0, ahead=-3_600_000)
    judge(41, 0, ahead=-3_600_000)
    for first in (
        check_atom(body(feed, "/feed.atom")).entries[0],
        check_json_feed(body(feed, "/feed.json"))["items"][0],
    ):
        assert first["title"] == "t0"
        updated = datetime.fromisoformat(first.get("date_modified") or first["updated"])
        assert updated.timestamp() * 1000 == TIME + 60_000 * 41


HOSTILE = 'A </title><script>alert(1)</script> & "quoted" ]]> \x00\x0b\ufffe\ud800\u202e end'


def test_titles_and_addresses_of_strangers_stay_text() -> None:
    feed = feed_of(
        ("javascript:alert(1)//https://x.example", HOSTILE.encode("utf-8", "replace").decode(), 0),
        ('https://b.example/"><script>\x01 中文', "", 1),
        ("https://[broken", "x" * 10_000, 2),
    )
    atom, items = check_atom(body(feed, "/feed.atom")), check_json_feed(body(feed, "/feed.json"))["items"]
    last, second, first = items
    assert first["title"].startswith('A </title><script>alert(1)</script> & "quoted" ]]>')
    assert "external_url" not in first
    assert second["title"] == "b.example"
    assert second["external_url"] == "https://b.example/%22%3E%3Cscript%3E%01%20%E4%B8%AD%E6%96%87"
    assert "external_url" not in last
    for item in items:
        assert "<script" not in item["content_html"]
        assert "javascript:" not in item["content_html"]
    assert "javascript:" not in body(feed, "/feed.atom").decode()
    assert [len(entry.links) for entry in atom.entries] == [1, 3, 1]
    assert not any(char in body(feed, "/feed.atom").decode() for char in "\x00\x0b\ufffe\u202e")


def test_control_characters_of_a_title_never_reach_the_xml() -> None:
    for point in (*range(32), 0x7F, 0x85, 0xFFFE, 0xFFFF, 0x1FFFE):
        check_atom(body(feed_of(("https://a.example/1", f"a{chr(point)}b", 0)), "/feed.atom"))


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        "javascript:alert(1)",
        " https://a.example",
        "data:,x",
        "//a.example",
        "https://",
        "ftp://a.example",
        "https://[::1",
        "https://a.example:99999/",
        "https://a.example:0/",
        "https://a.example/" + "x" * 3000,
    ],
)
def test_an_address_that_is_not_one_of_the_web_is_left_out(url: str | None) -> None:
    assert web_address(url) is None


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a.example\\@b.example/x", "http://a.example/@b.example/x"),
        ("http://a.example/x\\y?q=\\#\\", "http://a.example/x/y?q=%5C#%5C"),
        ("http://a.example?\\@b.example/", "http://a.example?%5C@b.example/"),
        ("http://a.example#\\@b.example/", "http://a.example#%5C@b.example/"),
        ("http://a.example@b.example\\@c.example/", "http://a.example@b.example/@c.example/"),
        ("http://a.example%5C@b.example/", "http://a.example%5C@b.example/"),
    ],
)
def test_an_address_leads_to_the_host_that_is_shown(url: str, address: str) -> None:
    assert web_address(url) == address
    assert urlsplit(address).hostname == site_of("", url)


def test_a_feed_has_few_entries_and_few_bytes_whatever_strangers_send() -> None:
    feed = feed_of(*((f"https://s{n}.example/", f"title {n}", n) for n in range(2 * MAX_ENTRIES)))
    assert len(check_atom(body(feed, f"/feed.atom?per_page={MAX_ENTRIES}")).entries) == MAX_ENTRIES
    long = "https://a.example/" + "&" * 2_000
    huge = feed_of(*((f"{long}{n}", "&" * 300, n // 10) for n in range(1_000)))
    for path, check in ((f"{BOTH[0]}?per_page=100", check_atom), (f"{BOTH[1]}?per_page=100", check_json_feed)):
        text = body(huge, path)
        check(text)
        assert MAX_FEED_BYTES / 2 < len(text) < MAX_FEED_BYTES + 2_000


def test_one_entry_that_is_larger_than_a_feed_may_be_is_still_told() -> None:
    head = FeedHead("n", "t", "http://h/", "http://h/feed", 0)
    entry = FeedEntry("urn:uuid:1", "t", "http://h/#1", None, 0, 0, (), "x" * 2 * MAX_FEED_BYTES, {})
    two = [entry, replace(entry, id="urn:uuid:2")]
    assert len(feedparser.parse(write_atom(head, two)).entries) == 1
    assert len(json.loads(write_json_feed(head, two))["items"]) == 1


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("words=lighthouse", ["Lighthouse saved"]),
        ("site=b.example", ["Bridge opened"]),
        ("site=www.C.example", ["Lighthouse saved"]),
        ("site=m.c.example&words=saved", ["Lighthouse saved"]),
        ("site=c.example&words=bridge", []),
        ("sites=2", ["Lighthouse saved"]),
        ("since=" + str(TIME + 90_000), ["Lighthouse saved"]),
        ("site=%00&words=%ff%3C", []),
    ],
)
def test_filters_of_the_list_hold_for_feeds_and_each_choice_is_a_feed_of_its_own(
    query: str, titles: list[str]
) -> None:
    feed = feed_of(*STORIES)
    read = check_atom(body(feed, f"/feed.atom?{query}"))
    assert [entry.title for entry in read.entries] == titles
    assert [item["title"] for item in check_json_feed(body(feed, f"/feed.json?{query}"))["items"]] == titles
    assert read.feed.id != check_atom(body(feed, "/feed.atom")).feed.id
    assert query.split("=")[0] in read.feed.links[0].href


@pytest.mark.parametrize("path", BOTH)
def test_a_feed_without_stories_is_a_whole_feed(path: str) -> None:
    text = body(feed_of(), path)
    assert not (check_atom(text).entries if path == BOTH[0] else check_json_feed(text)["items"])


@pytest.mark.parametrize("path", BOTH)
def test_a_reader_that_has_the_feed_gets_304_until_a_story_changes(path: str) -> None:
    feed = feed_of(*STORIES)

    async def talk(client: TestClient[Any, Any]) -> None:
        async def get(**headers: str) -> ClientResponse:
            return await client.get(path, headers={name.replace("_", "-"): text for name, text in headers.items()})

        tag = (await get()).headers["ETag"]
        for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            answer = await get(If_None_Match=known)
            assert (answer.status, await answer.read()) == (304, b"")
        assert (await get(If_None_Match='"x"')).status == 200
        add(feed, ("https://e.example/5", "Another", 3))
        changed = await get(If_None_Match=tag)
        assert (changed.status, changed.headers["ETag"] == tag) == (200, False)

    ask(feed, talk)


@pytest.mark.parametrize("path", ["/api/stories", "/api/stories/0"])
def test_a_list_or_story_that_has_not_changed_is_304_also_behind_a_proxy_that_weakens_tags(path: str) -> None:
    feed = feed_of(*STORIES)

    async def talk(client: TestClient[Any, Any]) -> list[int]:
        tag = (await client.get(path)).headers["ETag"]
        return [
            (await client.get(path, headers={"If-None-Match": known})).status
            for known in (tag, f"W/{tag}", f'"x", {tag}', '"x"', "x")
        ]

    assert ask(feed, talk) == [304, 304, 304, 200, 200]


def test_a_reader_without_tags_goes_by_the_second_of_the_last_change_and_misses_nothing() -> None:
    feed, clock = feed_of(*STORIES), [1_000_000_000.9]

    async def talk(client: TestClient[Any, Any]) -> None:
        async def get(**headers: str) -> ClientResponse:
            return await client.get("/feed.atom", headers={"If-Modified-Since": headers.get("since", "")})

        first = (await get()).headers["Last-Modified"]
        assert (await get(since=first)).status == 304
        add(feed, ("https://e.example/5", "In the same second", 3))
        hurried = await get(since=first)
        assert hurried.status == 200
        assert "Last-Modified" not in hurried.headers
        clock[0] += 1
        second = (await get()).headers["Last-Modified"]
        assert second > first
        assert (await get(since=second)).status == 304
        assert (await get(since=first)).status == 200
        assert (await get(since="no date")).status == 200
        assert (await get(since=f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT")).status == 200
        clock[0] += 7200  # the reader's clock is fast, or this one is set back
        ahead = formatdate(clock[0] + 3600, usegmt=True)
        assert (await get(since=ahead)).status == 200

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web_feeds, "time", SimpleNamespace(time=lambda: clock[0]))
        ask(feed, talk)


def test_links_lead_to_the_address_that_the_reader_asked() -> None:
    feed = feed_of(*STORIES)
    for protocols in ("https", "https, http"):
        headers = {"Host": "127.0.0.1", "X-Forwarded-Proto": protocols}
        proxied = check_json_feed(body(feed, "/feed.json", **headers))
        assert proxied["home_page_url"] == "https://127.0.0.1/"
        assert proxied["feed_url"] == "https://127.0.0.1/feed.json"

    async def get(client: TestClient[Any, Any]) -> int:
        return (await client.get("/feed.atom", headers={"Host": '127.0.0.1:1"><b>'})).status

    assert ask(feed, get) == 400


def test_a_token_is_asked_for_all_but_probes_and_metrics() -> None:
    token = "a token of some length"

    async def get(client: TestClient[Any, Any]) -> dict[str, tuple[int, int]]:
        paths = ("/", "/api/stories", "/feed.atom", "/metrics", "/metrics/", "/health/live", "/health/ready")
        known = {"Authorization": f"Bearer {token}"}
        return {
            path: ((await client.get(path)).status, (await client.get(path, headers=known)).status)
            for path in paths
        }

    found = ask(feed_of(*STORIES), get, CallerRules(token=token))
    assert {path: without for path, (without, _) in found.items() if without != 401} == {
        "/metrics": 200,
        "/health/live": 200,
        "/health/ready": found["/health/ready"][1],
    }
    assert 401 not in [status for _, status in found.values()]


def test_an_answer_about_an_error_has_the_headers_of_every_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(client: TestClient[Any, Any]) -> None:
        refused = await client.post("/api/stories")
        assert (refused.status, refused.headers["Allow"]) == (405, "GET,HEAD")
        failed = await client.get(f"/api/compare?a={STORIES[0][0]}&b={STORIES[1][0]}")  # for a mistake of `ask`
        assert (failed.status, (await failed.json())["code"]) == (500, "failed")
        for answer in (refused, failed, await client.get("/nothing")):
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS

    ask(feed_of(*STORIES), talk)
    assert "AssertionError" in caplog.text


def test_the_page_names_its_feeds() -> None:
    page = (resources.files("simstream.feeds") / "static" / "index.html").read_text(encoding="utf-8")
    for path, kind in zip(BOTH, ("application/atom+xml", "application/feed+json"), strict=True):
        assert f'<link rel="alternate" type="{kind}"' in page
        assert f'href="{path}"' in page
