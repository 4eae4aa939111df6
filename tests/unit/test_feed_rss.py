"""RSS and Atom feeds as input: what becomes a page, what is asked again, and servers of every bad kind."""

from __future__ import annotations

import asyncio
import errno
import gzip
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.client import URL

from simstream.errors import InputError
from simstream.model import PageKind
from simstream.tools.feed import fetch
from simstream.tools.feed.entries import RssBody, read_entries
from simstream.tools.feed.rss import RssReader
from simstream.wire.page import PageLimits, decode

ITEM = """<item><title>南京市长江大桥</title><link>https://a.example/{n}</link><guid>g{n}</guid>
<description>&lt;p&gt;大桥&lt;b&gt;通车&lt;/b&gt;{more}&lt;/p&gt;&lt;script&gt;x&lt;/script&gt;</description>
<pubDate>Mon, 02 Mar 2026 08:00:00 GMT</pubDate></item>"""


def rss(*items: str, encoding: str = "utf-8", declared: bool = True) -> bytes:
    head = f'<?xml version="1.0" encoding="{encoding}"?>' if declared else ""
    return f'{head}<rss version="2.0"><channel><title>t</title>{"".join(items)}</channel></rss>'.encode(encoding)


def item(number: int, more: str = "") -> str:
    return ITEM.format(n=number, more=more)


def pages(reader: RssReader) -> list[dict[str, Any]]:
    """The pages of one round."""
    return [json.loads(record.value or b"") for record in reader.records()]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (rss(item(1)), None),
        (rss(item(1), encoding="gbk"), None),
        (rss(item(1), encoding="gbk", declared=False), "text/xml; charset=gb2312"),
        (rss(item(1), encoding="utf-16"), None),
        (rss(item(1), "<item><title>broken & not closed <br>"), "text/html"),
    ],
)
def test_an_entry_is_read_in_every_encoding_and_from_broken_xml(body: bytes, content_type: str | None) -> None:
    entry = read_entries(RssBody(body, content_type))[0]
    assert (entry.guid, entry.link, entry.title) == ("g1", "https://a.example/1", "南京市长江大桥")
    assert (entry.text, entry.time) == ("大桥通车", 1_772_438_400_000)


ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title>
<entry><id>urn:1</id><title>One</title><updated>2999-01-01T00:00:00Z</updated>
<link href="javascript:alert(1)"/><content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">Whole
text</div></content><summary>Short</summary></entry>
<entry><title>No id</title></entry>
<entry><id>urn:2</id><title>Only a title</title></entry></feed>"""


def test_an_atom_entry_gives_its_content_and_never_a_time_to_come(tmp_path: Path) -> None:
    path, said = tmp_path / "feed.xml", list[str]()
    path.write_bytes(ATOM)
    second, first = pages(RssReader([str(path)], said.append))
    assert (first["id"], first["title"], first["text"]) == (f"{path}#urn:1", "One", "Whole text")
    assert "url" not in first
    assert time.time() * 1000 - 60_000 < first["time"] <= time.time() * 1000
    assert (second["id"], second["text"]) == (f"{path}#urn:2", "Only a title")
    assert "1 entries have neither link nor id" in said[0]


def test_records_are_pages_that_the_service_can_read(tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(rss(item(1)))
    [record] = RssReader([str(path)], print).records()
    page = decode(record, PageLimits(1 << 20))
    assert (page.kind, page.id, page.url) == (PageKind.READABLE, "https://a.example/1", "https://a.example/1")
    assert page.text == "大桥通车"


BOMB = b"""<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<rss version="2.0"><channel><title>&b;</title></channel></rss>"""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (BOMB, "entities"),
        (BOMB.decode().encode("utf-16"), "entities"),
        (BOMB.lower(), "entities"),
        (b"<html><p>An article</p></html>", "neither RSS nor Atom"),
        (b"", "neither RSS nor Atom"),
        (b"\0" * 5000, "neither RSS nor Atom"),
        (b"<rss version='2.0'><channel><item><title>" + b"<a " * 3_000_000, "too much time"),
    ],
)
def test_what_is_no_feed_or_costs_too_much_is_refused(body: bytes, why: str) -> None:
    began = time.monotonic()
    with pytest.raises(InputError, match=why):
        read_entries(RssBody(body), cpu_s=1)
    assert time.monotonic() - began < 20


def test_a_feed_for_which_no_process_can_start_is_named_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    (feed := tmp_path / "feed.xml").write_bytes(rss(item(1)))
    said: list[str] = []
    reader = RssReader([str(feed)], said.append)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", full)
        assert pages(reader) == []
    why = "no process can be started to read it (Too many open files)"
    assert said == [f"{feed}: {why}: see whether memory, processes and open files last"]
    assert len(pages(reader)) == 1


def test_an_entry_is_sent_once_and_again_if_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(rss(item(2), item(1)))
    reader = RssReader([str(path)], print)
    assert [page["id"][-1] for page in pages(reader)] == ["1", "2"]
    assert pages(reader) == []
    path.write_bytes(rss(item(3), item(2), item(1, "！")))
    assert [page["id"][-1] for page in pages(reader)] == ["1", "3"]


def test_an_entry_of_the_future_and_entries_with_one_link_are_sent_once(tmp_path: Path) -> None:
    path, soon = tmp_path / "feed.xml", formatdate(time.time() + 5 * 3600)
    dated = item(1).replace("Mon, 02 Mar 2026 08:00:00 GMT", soon)
    alike = [item(n, str(n)).replace(f"/{n}</link>", "/status</link>").replace(f"g{n}", "g") for n in (2, 3)]
    path.write_bytes(rss(dated, *alike))
    other = tmp_path / "other.xml"
    other.write_bytes(rss(alike[0], item(4, "shorter")))
    reader = RssReader([str(path), str(other)], print)
    assert len(pages(reader)) == 4
    for number in range(2):
        time.sleep(0.002)
        told = (item(4, "longer"), item(5))[: number + 1]
        path.write_bytes(rss(dated, *(one.replace(">g<", f">g{number}<") for one in alike), *told))
        news = [page["id"][-1] for page in pages(reader)]
        assert news == ["45"[number]], "guids that change at each reading are no news"


def test_entries_that_still_stand_in_a_feed_are_remembered_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simstream.tools.feed.rss.MAX_REMEMBERED", 5)
    quiet, busy = tmp_path / "quiet.xml", tmp_path / "busy.xml"
    quiet.write_bytes(rss(item(1), item(2)))
    busy.write_bytes(rss())
    reader = RssReader([str(quiet), str(busy)], print)
    assert len(pages(reader)) == 2
    for number in range(3, 30, 3):
        busy.write_bytes(rss(*(item(n) for n in range(number, number + 3))))
        assert sorted(page["id"] for page in pages(reader)) == sorted(
            f"https://a.example/{n}" for n in range(number, number + 3)
        )


def test_a_long_base_of_a_feed_makes_no_long_ids(tmp_path: Path) -> None:
    path, said = tmp_path / "feed.xml", list[str]()
    base = f'<rss version="2.0" xml:base="http://a.example/{"a" * 100_000}/">'
    items = "".join(f"<item><title>{n}</title><link>{n}</link></item>" for n in range(100))
    named = "".join(f"<item><link>l</link><guid isPermaLink='false'>{n * 'g'}</guid></item>" for n in (1, 3_000))
    path.write_text(f"{base}<channel><title>t</title>{items}{named}</channel></rss>")
    ids = [page["id"] for page in pages(RssReader([str(path)], said.append))]
    assert sum(map(len, ids)) < 1_000
    assert ids == [f"{path}#g"]
    assert "101 entries have neither link nor id, or too long ones" in said[0]


def test_a_feed_has_at_most_a_thousand_entries() -> None:
    body = rss(*(f"<item><title>{number}</title></item>" for number in range(1_001)))
    assert [entry.title for entry in read_entries(RssBody(body))] == [str(number) for number in range(1_000)]


def test_an_entry_may_write_about_entities() -> None:
    body = rss(
        item(1, '&lt;!ENTITY x "y"&gt;'), "<item><title><![CDATA[Write <!ENTITY x 'y'> there]]></title></item>"
    )
    assert [entry.title for entry in read_entries(RssBody(body))][1] == "Write there"


class FeedServer(ThreadingHTTPServer):
    """A server whose answers a test decides, and the headers that it was asked with."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), FeedHandler)
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[dict[str, str]] = []

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, *_: object) -> None:
        """A client that leaves is no error of the test."""


class FeedHandler(BaseHTTPRequestHandler):
    server: FeedServer

    def do_GET(self) -> None:
        self.server.asked.append({name.lower(): value for name, value in self.headers.items()})
        self.server.answers[self.path](self)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with FeedServer() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def giving(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(to: BaseHTTPRequestHandler) -> None:
        to.send_response(status)
        for name, value in headers.items():
            to.send_header(name.replace("_", "-"), value)
        to.end_headers()
        to.wfile.write(body)

    return answer


def test_a_server_is_asked_only_for_changes(server: FeedServer) -> None:
    server.answers["/rss"] = giving(rss(item(1)), ETag='"a"', Last_Modified="Mon, 02 Mar 2026 08:00:00 GMT")
    reader = RssReader([server.address("/rss")], print)
    assert [page["url"] for page in pages(reader)] == ["https://a.example/1"]
    server.answers["/rss"] = giving(b"", 304)
    assert pages(reader) == []
    assert reader.failed == 0
    assert server.asked[0].keys().isdisjoint({"if-none-match", "if-modified-since"})
    assert server.asked[1]["if-none-match"] == '"a"'
    assert server.asked[1]["if-modified-since"] == "Mon, 02 Mar 2026 08:00:00 GMT"


def test_the_secrets_of_an_address_go_to_its_server_alone(server: FeedServer) -> None:
    guid_only = "<item><guid isPermaLink='false'>7</guid><title>no link</title></item>"
    relative = "<item><link>#8</link><title>a link within</title></item>"
    unnamed = "<item><title>neither</title></item>"
    for number in (1, 2):
        server.answers[f"/rss?token=secret{number}"] = giving(rss(guid_only, relative, unnamed))
    at = server.address("/rss").partition("://")[2]
    said: list[str] = []
    inputs = [f"http://me:secret@{at}?token=secret{number}" for number in (1, 2)]
    records = list(RssReader([*inputs, f"http://me:secret@{at}x?token=secret"], said.append).records())
    assert [asked["authorization"] for asked in server.asked[:2]] == ["Basic bWU6c2VjcmV0"] * 2
    assert len(said) == 3
    assert "secret" not in repr((records, said))
    assert {record.topic for record in records} == {f"http://{at}"}
    found = [json.loads(record.value or b"")["id"] for record in records]
    assert len(set(found)) == 3  # the feeds stay apart; a link is one page wherever it stands
    assert all(re.fullmatch(r"http://[\d.:]+/rss#(8|[0-9a-f]{16}#7)", name) for name in found)
    assert found == [json.loads(record.value or b"")["id"] for record in RssReader(inputs, said.append).records()]


@pytest.mark.parametrize("place", ["127.0.0.2", "localhost"])
def test_a_public_feed_leads_to_no_private_address_and_a_private_one_may(
    server: FeedServer, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FeedServer(place) as inner:
        threading.Thread(target=inner.serve_forever, args=(0.01,), daemon=True).start()
        inner.answers["/inner"] = giving(rss(item(1)))
        server.answers["/rss"] = giving(b"", 302, Location=f"http://{place}:{inner.server_port}/inner")
        named = [server.address("/rss")]
        assert len(pages(RssReader(named, print))) == 1
        said, opened = list[str](), iter([True])
        monkeypatch.setattr(fetch, "_is_public", lambda _: next(opened, False))
        reader = RssReader(named, said.append)
        assert pages(reader) == []
        assert "redirects to an address of a private network: give the address of the feed itself" in said[0]
        assert len(inner.asked) == 1
        inner.shutdown()


def test_a_feed_is_not_redirected_from_https_to_http() -> None:
    def answer(url: str, to: str, **headers: str) -> SimpleNamespace:
        return SimpleNamespace(url=URL(url), response=SimpleNamespace(headers={"Location": to} | headers))

    for to in ("https://b.example/", "//b.example/", "/rss"):
        asyncio.run(fetch._Redirects().begin(None, None, answer("https://a.example/", to)))
    asyncio.run(fetch._Redirects().begin(None, None, answer("http://a.example/", "http://b.example/")))
    with pytest.raises(ValueError, match="from https to http"):
        asyncio.run(fetch._Redirects().begin(None, None, answer("https://a.example/", " HTTP://b.example/")))
    with pytest.raises(ValueError, match="from https to http"):
        asyncio.run(fetch._Redirects().begin(None, None, answer("https://a.example/", "", URI="http://b.example/")))


def test_a_refused_address_is_no_reason_once_the_name_has_another() -> None:
    def place(host: str) -> tuple[int, int, int, str, tuple[str, int]]:
        return socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, 80)

    redirects = fetch._Redirects()
    for host in ("192.0.43.8", "10.0.0.1"):  # a name that also has a public address is not private
        redirects.open_socket(place(host)).close()
    redirects._is_redirected = True
    with pytest.raises(PermissionError):
        redirects.open_socket(place("10.0.0.1"))
    assert redirects.refused
    redirects.open_socket(place("192.0.43.8")).close()
    assert not redirects.refused


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
        *("::", "::1", "fe80::1%2", "fec0::1", "fd00::1", "ff0e::1", "::127.0.0.1"),
        *("::ffff:10.0.0.1", "::ffff:100.64.0.1", "::ffff:127.0.0.1"),
        *("64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:7f00:1::"),
    ],
)
def test_addresses_of_private_networks_are_known(host: str) -> None:
    assert not fetch._is_public(host)
    for public in ("192.0.43.8", "2001:4860:4860::8888", "::ffff:192.0.43.8", "64:ff9b::c000:2b08"):
        assert fetch._is_public(public)


def endless(to: BaseHTTPRequestHandler) -> None:
    giving(b"")(to)
    while True:
        to.wfile.write(b"<rss>" * 100_000)


def dripping_head(to: BaseHTTPRequestHandler) -> None:
    drip(to, b"HTTP/1.1 200 OK\r\n")


def dripping_body(to: BaseHTTPRequestHandler) -> None:
    drip(to, b"HTTP/1.1 200 OK\r\n\r\n<rss>")


def drip(to: BaseHTTPRequestHandler, first: bytes) -> None:
    to.wfile.write(first)
    for _ in range(50):
        to.wfile.write(b"x")
        time.sleep(0.1)


def silent(to: BaseHTTPRequestHandler) -> None:
    time.sleep(5)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (giving(b"", 500), "answers 500"),
        (giving(b"", 302, Location="/bad"), "TooManyRedirects"),
        (giving(b"", 302, Location="file:///etc/passwd"), "cannot be asked"),
        (giving(gzip.compress(rss(item(1))), Content_Encoding="gzip"), "compresses"),
        (giving(b"<html>"), "neither RSS nor Atom"),
        (giving(b"<html>", Content_Type="text/xml; charset=\xff"), "neither RSS nor Atom"),
        (endless, "more than 10 MB"),
        (dripping_head, "takes more than"),
        (dripping_body, "takes more than"),
        (silent, "takes more than"),
    ],
)
def test_a_bad_server_costs_little_and_other_feeds_are_sent(
    server: FeedServer,
    answer: Callable[[BaseHTTPRequestHandler], None],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch, "FETCH_S", 1.0)
    server.answers |= {"/bad": answer, "/good": giving(rss(item(1)))}
    said: list[str] = []
    reader = RssReader([server.address("/bad"), server.address("/good"), "http://[broken/"], said.append)
    assert [page["url"] for page in pages(reader)] == ["https://a.example/1"]
    assert reader.failed == 2
    assert len(said) == 2
    assert re.search(why, said[0]), said
