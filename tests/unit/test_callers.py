"""Who may ask the API and the news page: no foreign host name, no foreign web page, no caller without the token."""

from __future__ import annotations

import asyncio
import http.client
import json
from base64 import b64encode
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from simstream.errors import SettingsError
from simstream.feeds.fold import FoldLimits
from simstream.feeds.state import FeedState
from simstream.feeds.web import FeedWeb
from simstream.queries import guard
from simstream.queries.guard import CallerGuard
from simstream.queries.server import QueryServer
from simstream.telemetry.callers import CallerRules, callers_of, read_token

TOKEN = "correct-horse-battery"
JSON = {"Content-Type": "application/json"}
Asking = Callable[..., tuple[int, Any, dict[str, str]]]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9470", "localhost", "LocalHost.:80", "[::1]:9470", "10.0.0.7", "", None, "news.example", "news:80"],
)
def test_addresses_localhost_and_the_names_that_were_set_are_answered(host: str | None) -> None:
    assert callers_of("news.example, News", "127.0.0.1", None).check_host(host, None) is None


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9470", "127.0.0.1.evil.example", "[evil]", "a:b:c"])
def test_any_other_name_is_refused(host: str) -> None:
    refusal = callers_of(None, "127.0.0.1", None).check_host(host, None)
    assert refusal is not None
    assert refusal.status == 421
    assert host not in refusal.why


def test_only_pages_of_this_port_or_of_an_allowed_host_may_ask() -> None:
    callers = CallerRules(["news.example"])
    here = "127.0.0.1:8300"
    assert callers.check_host(here, "http://127.0.0.1:8300") is None
    assert callers.check_host(here, "https://news.example") is None  # a proxy that changes Host
    for origin in ("http://evil.example", "http://127.0.0.1:9000", "null", "", "file://127.0.0.1:8300", "http://["):
        assert callers.check_host(here, origin) is not None, origin
    assert callers.check_host("", "http://") is not None


def test_the_name_that_a_port_listens_on_is_its_own() -> None:
    assert callers_of(None, "crawler-7.lan", None).check_host("crawler-7.lan:9470", None) is None


@pytest.mark.parametrize("listens_on", ["127.0.0.1", "0.0.0.0", "crawler-7.lan"])
def test_a_page_of_another_port_of_this_machine_may_not_ask(listens_on: str) -> None:
    callers = callers_of("news.example", listens_on, None)
    assert callers.check_host(f"{listens_on}:9470", f"http://{listens_on}:9470") is None
    for origin in (f"http://{listens_on}:8888", f"http://{listens_on}"):
        refusal = callers.check_host(f"{listens_on}:9470", origin)
        assert refusal is not None
        assert refusal.status == 403


@pytest.mark.parametrize("name", ["https://news.example", "news.example:8443", "news.example/", "two names"])
def test_an_allowed_host_that_no_request_could_name_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="allowed_hosts names"):
        callers_of(f"other.example, {name}", "127.0.0.1", None)


def test_a_token_comes_as_bearer_or_as_the_password_of_basic() -> None:
    callers = CallerRules(token=TOKEN)

    def basic(text: str) -> str:
        return f"Basic {b64encode(text.encode()).decode()}"

    for good in (f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic(f"me:{TOKEN}"), basic(f":{TOKEN}")):
        assert callers.check_token(good) is None
    for bad in (None, "", TOKEN, f"Bearer {TOKEN}x", basic(TOKEN), "Basic ?", "Bearer \xe9", f"Digest {TOKEN}"):
        refusal = callers.check_token(bad)
        assert refusal is not None, bad
        assert refusal.status == 401
        assert TOKEN not in refusal.why
    assert CallerRules().check_token(None) is None


@pytest.mark.parametrize(
    "content", [None, b"", b"short", b"x" * 15, b"x" * 1025, b"x" * 2000, b"\xff" * 20, b"two words of a token"]
)
def test_a_file_without_a_token_is_named_and_not_shown(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match="token_file names") as caught:
        read_token(path)
    assert content is None or len(content) < 4 or content.decode("latin-1") not in str(caught.value)
    for token in (TOKEN, "x" * 16, "x" * 1024):
        path.write_text(f"{token}\n")
        assert read_token(path) == token


def asked(port: int, method: str, path: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
    """Status, JSON and headers of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", "2" if method == "POST" else "0")
    connection.endheaders(b"{}" if method == "POST" else None)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body), {name.lower(): value for name, value in answer.getheaders()}


def test_the_api_refuses_foreign_hosts_and_origins_and_requires_the_token_for_changes() -> None:
    reached: list[str] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            reached.append(scope["path"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

    with QueryServer("127.0.0.1", 0, app, callers=CallerRules(token=TOKEN)) as server:
        status, answer, _ = asked(server.port, "GET", "/ready", Host="rebound.evil.example")
        assert status == 421
        assert "allowed_hosts" in answer["detail"]
        assert asked(server.port, "POST", "/judge", Origin="http://evil.example")[0] == 403
        status, _, headers = asked(server.port, "POST", "/judge")
        assert (status, headers["www-authenticate"][:5]) == (401, "Basic")
        assert asked(server.port, "POST", "/judge/")[0] == 401
        assert reached == []
        assert asked(server.port, "POST", "/judge", Authorization=f"Bearer {TOKEN}", **JSON)[0] == 200
        assert asked(server.port, "POST", "/match")[0] == 200
        assert reached == ["/judge", "/match"]


def over_the_feed(callers: CallerRules, play: Callable[[Asking], None]) -> None:
    """Run `play`, which asks the news page's port."""

    async def compare(a: str, b: str) -> dict[str, Any]:
        return {}

    async def serve() -> None:
        feed = FeedState(FoldLimits())
        feed.begin({})
        await feed.settle()
        app = web.Application()
        FeedWeb(feed, compare, callers).serve_on(app)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        try:
            await asyncio.to_thread(play, lambda path, **headers: asked(port, "GET", path, **headers))
        finally:
            await runner.cleanup()

    asyncio.run(serve())


def test_the_body_of_a_refused_request_is_read_before_the_answer() -> None:
    """A connection that is closed on unread bytes is reset, and the client loses the answer."""
    told: list[str] = []
    parts = iter([{"body": b"x" * 70_000, "more_body": True}] * 3 + [{"body": b"end", "more_body": False}])

    async def receive() -> Any:
        told.append("read")
        return {"type": "http.request", **next(parts)}

    async def send(message: Any) -> None:
        told.append(message["type"])

    async def app(*_: Any) -> None:
        raise AssertionError("the request is refused")

    scope = {"type": "http", "path": "/judge", "headers": [(b"host", b"localhost")]}
    asyncio.run(CallerGuard(app, CallerRules(token=TOKEN))(scope, receive, send))
    assert told == ["read"] * 4 + ["http.response.start", "http.response.body"]


def test_a_refused_body_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "DROP_S", 0.05)
    told: list[str] = []

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        told.append(message["type"])

    scope = {"type": "http", "path": "/judge", "headers": [(b"host", b"localhost")]}
    asyncio.run(CallerGuard(receive, CallerRules(token=TOKEN))(scope, receive, send))
    assert told == ["http.response.start", "http.response.body"]


def test_the_news_page_turns_away_foreign_names_and_pages() -> None:
    def play(get: Asking) -> None:
        status, answer, headers = get("/api/stories", Host="rebound.evil.example")
        assert status == 421
        assert "evil" not in answer["error"]
        assert "content-security-policy" in headers
        assert get("/api/stories", Origin="http://evil.example")[0] == 403
        assert get("/api/stories")[0] == 200

    over_the_feed(CallerRules(), play)


def test_the_news_page_asks_for_its_token_and_probes_know_none() -> None:
    def play(get: Asking) -> None:
        status, answer, headers = get("/api/stories")
        assert (status, headers["www-authenticate"][:5]) == (401, "Basic")
        assert "token_file" in answer["error"]
        assert get("/nothing")[0] == 401
        given = f"Basic {b64encode(f'reader:{TOKEN}'.encode()).decode()}"
        assert get("/api/stories", Authorization=given)[0] == 200
        assert get("/health/nothing")[0] == 404

    over_the_feed(CallerRules(token=TOKEN), play)
