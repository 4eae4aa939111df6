"""What a stranger may ask of the API: bounded in bytes, words, values and seconds, and never many at once."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import re
import socket
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from functools import cache, partial
from pathlib import Path
from sys import getsizeof
from types import SimpleNamespace
from typing import Any, cast
from urllib.request import urlopen

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.judge.lookups import Match
from simstream.queries import words
from simstream.queries.app import make_app
from simstream.queries.connection import MAX_FREE_PIECES, MIN_PIECE_BYTES
from simstream.queries.limits import MAX_TOKEN_BYTES, BodyLimiter, QueryLimits, SlowReaderError
from simstream.queries.request_bodies import has_few_values
from simstream.queries.server import QueryServer
from simstream.roles import query
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.metrics import Metrics
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import PRESETS
from simstream.wire.verdict import Verdict
from tests.unit.test_feed_costs import verdict

Message = MutableMapping[str, Any]
Taking = Callable[[], Coroutine[Any, Any, None]]
JSON = {"Content-Type": "application/json"}


@cache
def operations_of(port: int) -> dict[str, Any]:
    """The operations of the API, by path and method. A number in a path is left out."""
    with urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=60) as answer:
        paths: dict[str, Any] = json.load(answer)["paths"]
    return {path.partition("{")[0]: operations for path, operations in paths.items()}


class HttpAnswer:
    """Status, headers and body of an answer, whose status the API's description must name."""

    def __init__(self, port: int, method: str, path: str, body: Any = None, headers: dict[str, str] = JSON) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()
        connection.close()
        operation = operations_of(port).get(re.sub(r"[?].*|(?<=/cluster/)[^/]+", "", path), {}).get(method.lower())
        assert operation is None or str(self.status) in operation["responses"], f"{method} {path}: {self.status}"

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@pytest.fixture(scope="module")
def health() -> ServiceHealth:
    """Of the role `query` and of a judge beside it."""
    return ServiceHealth()


@pytest.fixture(scope="module")
def served_port(cache: Path, health: ServiceHealth) -> Iterator[int]:
    """An API over no log: what needs the state is not asked."""

    async def close() -> None: ...

    def cluster(number: int, _: int) -> None:
        assert 0 <= number < 1 << 63, "a state has no such number"

    policy = SimpleNamespace(id="p", sketch_bits=64, fingerprints=1)
    nothing = {name: lambda *_: None for name in ("page", "verdict")}
    role = SimpleNamespace(live_pages=1, policy=policy, near=lambda *_: [Match], cluster=cluster, **nothing)
    judge = SimpleNamespace(close=close)
    with (
        Fingerprinter(PRESETS["default"], cache, workers=0) as fingerprinter,
        QueryServer(
            "127.0.0.1", 0, make_app(cast(Any, role), fingerprinter, cast(Any, judge), health, Metrics())
        ) as server,
    ):
        yield server.port


@pytest.fixture
def port(served_port: int, health: ServiceHealth) -> int:
    """The port of the API, whose roles have just turned: after 10 s they would be unready."""
    for role in ("query", "judge"):
        health.turn(role)
    return served_port


def test_questions_are_answered_while_a_judge_of_the_same_process_waits(port: int, health: ServiceHealth) -> None:
    assert HttpAnswer(port, "GET", "/ready").status == HttpAnswer(port, "HEAD", "/ready").status == 200
    health.turn("judge", False, "a gap is open")
    assert HttpAnswer(port, "GET", "/page?id=a").status == 404
    assert HttpAnswer(port, "GET", "/ready").json == {"detail": "not ready: judge: a gap is open"}
    assert HttpAnswer(port, "HEAD", "/ready").status == 503
    health.turn("query", False, "replaying")
    assert HttpAnswer(port, "GET", "/page?id=a").json == {"detail": "not ready: query: replaying"}


@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/swagger/start.js", "/openapi.json", "/page?id=a", "/ready", "/cluster/1", "/judge", "/x"],
)
def test_head_is_answered_as_get_without_the_body(port: int, path: str) -> None:
    whole, head = HttpAnswer(port, "GET", path), HttpAnswer(port, "HEAD", path)
    assert (head.status, head.body) == (whole.status, b"")
    for name in ("content-type", "content-length", "location", "allow"):
        assert head.headers[name] == whole.headers[name]


def test_a_path_with_a_slash_at_its_end_is_no_redirect(port: int) -> None:
    for method, path in (("POST", "/judge/"), ("POST", "/match/"), ("GET", "/page/?id=a"), ("GET", "/docs/")):
        answer = HttpAnswer(port, method, path, {"id": "a", "text": "x"} if method == "POST" else None)
        assert (answer.status, answer.headers["location"]) == (404, None)


def test_more_text_than_is_cut_at_once_is_refused_with_a_sentence(port: int) -> None:
    for texts in (["x" * (MAX_TOKEN_BYTES + 1)], ["的" * (MAX_TOKEN_BYTES // 12)] * 5):
        answer = HttpAnswer(port, "POST", "/tokens", {"texts": texts})
        assert answer.status == 413
        assert "at most 1048576 are cut at once" in answer.json["detail"]
    whole = HttpAnswer(port, "POST", "/tokens", {"texts": ["x" * MAX_TOKEN_BYTES]})
    assert whole.json == {"results": [["x" * MAX_TOKEN_BYTES]]}
    for mode in ("accurate", "weights"):
        odd = HttpAnswer(port, "POST", "/tokens", b'{"texts": ["a\\ud800b"], "mode": "%s"}' % mode.encode())
        assert odd.status == 200, "no answer holds a lone surrogate"


def test_a_body_is_limited_by_the_needs_of_its_question(port: int) -> None:
    for size in (7, 15):  # the client sends all of it before it looks at the answer
        answer = HttpAnswer(port, "POST", "/tokens", b" " * (size << 20))
        assert (answer.status, answer.json["detail"][:27]) == (413, "the request is larger than ")
    assert HttpAnswer(port, "POST", "/match/fingerprints", b" " * (300 << 10)).status == 413


@pytest.mark.parametrize("mode", ["accurate", "weights"])
def test_an_answer_of_too_many_words_is_not_made(port: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_TOKENS", 6)
    texts = ["one two three", "four five six"]
    answer = HttpAnswer(port, "POST", "/tokens", {"texts": texts, "mode": mode})
    if mode == "weights":
        assert [len(result) for result in answer.json["results"]] == [3, 3]
        answer = HttpAnswer(port, "POST", "/tokens", {"texts": [*texts, "seven"], "mode": mode})
    assert answer.status == 413
    assert "more than 6 words" in answer.json["detail"]


def test_a_question_has_at_most_256_texts(port: int) -> None:
    assert HttpAnswer(port, "POST", "/tokens", {"texts": ["x"] * 256}).json == {"results": [["x"]] * 256}
    for path in ("/tokens", "/match"):
        assert HttpAnswer(port, "POST", path, {"texts": ["x"] * 257}).status == 422


def test_an_answer_lists_a_bounded_number_of_matches(port: int) -> None:
    many = {"fingerprints": [{"fingerprint": "0" * 16}] * 200, "limit": 1000}
    answer = HttpAnswer(port, "POST", "/match/fingerprints", many)
    assert answer.status == 422
    assert "at most 100000 are listed" in answer.json["detail"]


@pytest.mark.parametrize("number", [-1, 1 << 63, 1 << 200])
def test_a_cluster_of_a_number_that_none_can_have_is_not_found(port: int, number: int) -> None:
    assert HttpAnswer(port, "GET", f"/cluster/{number}").status == 404


@pytest.mark.parametrize("wrong", [{"fingerprint": "0" * 32}, {"sketch": ["0" * 16] * 2}])
def test_fingerprints_and_sketches_of_another_policy_are_refused(port: int, wrong: dict[str, Any]) -> None:
    answer = HttpAnswer(port, "POST", "/match/fingerprints", {"fingerprints": [{"fingerprint": "0" * 16} | wrong]})
    assert (answer.status, "has 1 " in answer.json["detail"]) == (422, True)


def test_a_wrong_request_gets_a_short_error_without_its_content(port: int) -> None:
    unknown = {f"k{number}": "secret" for number in range(2_000)} | {"n" * 5_000: 1}
    answer = HttpAnswer(port, "POST", "/tokens", unknown)
    assert answer.status == 422
    assert len(answer.body) < 4_000
    for sent in (b"secret", b"k0", b"nnn"):
        assert sent not in answer.body
    assert answer.json["detail"] == "the fields are texts, mode, hmm, top: leave out all others"


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/match", {"texts": ["a", 5]}, "texts: 1: Input should be a valid string"),
        ("POST", "/match", {"text": "a"}, "the fields are texts, pages, limit: leave out all others"),
        ("POST", "/match", {"pages": [{"body": "a"}]}, "pages: 0: the fields are text, html: leave out all others"),
        ("POST", "/match/fingerprints", {"of": "a"}, "the fields are fingerprints, limit: leave out all others"),
        ("POST", "/match", b'{"texts": [', "JSON decode error"),
        ("POST", "/match", {"texts": []}, "give `texts` or `pages`: there is nothing to match"),
        ("POST", "/match", {"texts": ["a"], "limit": True}, "limit: Input should be a valid integer"),
        ("POST", "/tokens", {"texts": ["a"], "hmm": 0}, "hmm: Input should be a valid boolean"),
        ("POST", "/tokens", {"texts": ["a"], "top": True}, "top: Input should be a valid integer"),
        ("GET", "/page?id=a&limit=0", None, "limit: Input should be greater than or equal to 1"),
        ("GET", "/cluster/x", None, "cluster_id: Input should be a valid integer"),
        ("POST", "/judge?timeout=0", {"id": "a", "text": "x"}, "timeout: Input should be greater than 0"),
    ],
)
def test_each_refusal_has_a_sentence_that_names_the_place(
    port: int, method: str, path: str, body: object, said: str
) -> None:
    answer = HttpAnswer(port, method, path, body)
    assert (answer.status, answer.json["detail"][: len(said)]) == (422, said)


def test_the_description_names_one_form_for_all_refusals(port: int) -> None:
    described = HttpAnswer(port, "GET", "/openapi.json").json
    forms = {
        json.dumps(answer["content"]["application/json"]["schema"])
        for operations in described["paths"].values()
        for operation in operations.values()
        for status, answer in operation["responses"].items()
        if status != "200"
    }
    assert forms == {'{"$ref": "#/components/schemas/ProblemAnswer"}'}


def test_a_question_about_nothing_and_an_unreadable_time_are_refused(port: int) -> None:
    for body in ({}, {"texts": [], "limit": 5}):
        answer = HttpAnswer(port, "POST", "/match", body)
        assert answer.status == 422
        assert "nothing to match" in answer.json["detail"]
    for time in ("yesterday", "2026-13-01", "2026", -5, 10**17):
        answer = HttpAnswer(port, "POST", "/judge", {"id": "a", "text": "x", "time": time})
        assert answer.status == 422
        assert "ISO 8601" in answer.json["detail"]
    for timeout in ("0", "-1", "nan", "61", "soon"):
        assert HttpAnswer(port, "POST", f"/judge?timeout={timeout}", {"id": "a", "text": "x"}).status == 422


def test_a_body_of_very_many_small_values_is_never_read(port: int) -> None:
    for body in (
        b"{" + b",".join(b'"k%d":1' % number for number in range(20_000)) + b"}",
        b'{"texts":[' + b"1," * 100_000 + b"1]}",
    ):
        answer = HttpAnswer(port, "POST", "/tokens", body)
        assert answer.status == 422
        assert "more than 16384 strings, or too many bytes outside of strings" in answer.json["detail"]


def test_a_body_in_utf_16_whose_strings_cannot_be_counted_is_never_read(port: int) -> None:
    text = '{"texts":["\u2200"],"mode":[' + "[]," * 100_000 + "[]]}"
    for encoding in ("utf-16-le", "utf-16-be", "utf-16", "utf-32"):
        answer = HttpAnswer(port, "POST", "/tokens", text.encode(encoding))
        assert (answer.status, "send it in UTF-8" in answer.json["detail"]) == (400, True)


@pytest.mark.parametrize("path", ["/ready", "/page?id=a", "/cluster/1"])
@pytest.mark.parametrize(
    ("body", "status"), [(b"\0", 400), (b"1," * 100_000, 422), (b" " * (QueryLimits().other_body + 1), 413)]
)
def test_the_description_has_the_refusals_of_a_question_that_needs_no_body(
    port: int, path: str, body: bytes, status: int
) -> None:
    assert HttpAnswer(port, "GET", path, body).status == status  # it looks into the description


@pytest.mark.parametrize("path", ["/match", "/match/fingerprints", "/tokens"])
def test_a_compressed_body_is_told_to_have_a_content_encoding(port: int, path: str) -> None:
    body = gzip.compress(b'{"texts":["hello world"]}')
    answer = HttpAnswer(port, "POST", path, body, JSON | {"Content-Encoding": "gzip"})
    assert (answer.status, "send it as it is, without content-encoding" in answer.json["detail"]) == (415, True)


def test_text_with_a_content_encoding_is_not_called_compressed(port: int) -> None:
    body = b'{"texts":["hello"]}'
    plain, named = (
        HttpAnswer(port, "POST", "/tokens", body, JSON | {"Content-Encoding": coding})
        for coding in ("identity", "utf-8")
    )
    assert (plain.status, named.status, b"compressed" in named.body) == (200, 415, False)


def test_a_target_without_a_path_is_no_error_of_the_service(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        wire.sendall(b"GET ?x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        status = int(wire.recv(100).split()[1])
    assert status < 500
    assert not [line for line in caplog.records if line.name.startswith("uvicorn")]


def test_every_answer_limits_what_a_browser_may_do(port: int) -> None:
    for path, status in (("/openapi.json", 200), ("/nothing", 404), ("/judge", 405), ("/swagger/start.js", 200)):
        headers = HttpAnswer(port, "GET", path).headers
        assert HttpAnswer(port, "GET", path).status == status
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["x-content-type-options"] == "nosniff"
    policy = HttpAnswer(port, "GET", "/docs").headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; " in policy
    assert "unsafe-eval" not in policy
    refused = HttpAnswer(port, "GET", "/docs", None, {"Host": "evil.example"})
    assert (refused.status, refused.headers["x-content-type-options"]) == (421, "nosniff")
    page = HttpAnswer(port, "GET", "/docs").body.decode()
    assert not re.search(r"<script(?! src=)|(?:src|href)=\"(?!/|data:,)| on\w+=", page)


def test_the_docs_page_fits_a_phone_and_says_where_the_description_is_without_javascript(port: int) -> None:
    page = HttpAnswer(port, "GET", "/docs").body.decode()
    assert '<meta name="viewport" content="width=device-width' in page
    assert re.search(r'<noscript>[^<]+<a href="/openapi.json">', page)


def test_swagger_ui_is_a_maintained_version(port: int) -> None:
    """Version 4 had holes that are known; 5 is what its makers mend."""
    script = HttpAnswer(port, "GET", "/swagger/swagger-ui-bundle.js").body
    versions = {tuple(map(int, found)) for found in re.findall(rb'"(5)\.(\d+)\.\d+"', script)}
    assert max(versions, default=(0, 0)) >= (5, 31)


def test_the_files_of_the_page_are_whole_for_any_requested_range(port: int) -> None:
    whole = HttpAnswer(port, "GET", "/swagger/swagger-ui-bundle.js")
    ranges = HttpAnswer(port, "GET", "/swagger/swagger-ui-bundle.js", None, {"Range": "bytes=" + "0-," * 50 + "0-"})
    assert (whole.status, ranges.status) == (200, 200)
    assert whole.body == ranges.body
    assert whole.headers["content-type"].startswith("text/javascript")
    for other in ("index.html", "swagger-ui.js", "..%2fswagger-ui.css", "%2e%2e"):
        assert HttpAnswer(port, "GET", f"/swagger/{other}").status == 404


def sent_in_chunks(port: int, chunk: bytes, count: int) -> bytes:
    """What the API answers to a body of so many chunks."""
    head = b"POST /tokens HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):  # it may have answered and hung up
            client.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk) * count + b"2\r\n{}\r\n0\r\n\r\n")
        return b"".join(iter(partial(_received, client), b""))


def _received(client: socket.socket) -> bytes:
    """What comes next; nothing at the end, also where the other side broke off."""
    try:
        return client.recv(1 << 16)
    except OSError:
        return b""


def test_a_body_in_very_many_small_pieces_is_refused_before_it_is_whole(port: int) -> None:
    """Every piece costs the event loop as much as some kilobytes do."""
    assert b"too many small pieces" in sent_in_chunks(port, b" ", MAX_FREE_PIECES + 1)
    assert sent_in_chunks(port, b" ", MAX_FREE_PIECES - 2).startswith(b"HTTP/1.1 422")
    large = sent_in_chunks(port, b" " * (MIN_PIECE_BYTES + 8), 20 * MAX_FREE_PIECES)
    assert b"too many bytes outside of strings" in large  # it was read


class LimitedApplication:
    """An application that answers when it is told to, behind `BodyLimiter`."""

    def __init__(self, limits: QueryLimits, answer: bytes = b"x") -> None:
        self.bounded = BodyLimiter(self._app, limits)
        self.answer = answer
        self.go = asyncio.Event()
        self.inside = 0

    async def _app(self, scope: Message, receive: Any, send: Any) -> None:
        await receive()
        self.inside += 1
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self.answer})

    async def ask(
        self, path: str, body: bytes = b"", takes: Taking | None = None, more: tuple[bytes, ...] = ()
    ) -> Message:
        """The beginning of the answer. `takes` is what the client does before it takes a part of it; `more` are
        further pieces of the body."""
        told: list[Message] = []
        pieces = [body, *more]

        async def receive() -> Message:
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def send(message: Message) -> None:
            told.append(message)
            if takes is not None:
                await takes()

        scope = {"type": "http", "path": path, "headers": [(b"content-type", b"application/json")]}
        await self.bounded(scope, receive, send)
        return told[0]


def test_costly_questions_wait_for_a_turn_and_are_told_when_to_ask_again() -> None:
    async def play() -> None:
        stage = LimitedApplication(QueryLimits(wait_s=0.05))
        first = [asyncio.create_task(stage.ask("/match")) for _ in range(2)]
        await asyncio.sleep(0.01)
        late = await stage.ask("/tokens")
        assert (late["status"], dict(late["headers"])[b"retry-after"]) == (503, b"1")
        cheap = asyncio.create_task(stage.ask("/ready"))
        await asyncio.sleep(0.01)
        assert stage.inside == 3
        stage.go.set()
        assert [answer["status"] for answer in [*await asyncio.gather(*first), await cheap]] == [200] * 3
        assert (await stage.ask("/tokens"))["status"] == 200

    asyncio.run(play())


def test_an_answer_gives_its_turn_back_once() -> None:
    async def play() -> None:
        stage = LimitedApplication(QueryLimits(wait_s=0.05, at_once=1))
        stage.go.set()
        assert (await stage.ask("/match"))["status"] == 200
        stage.go.clear()
        first = asyncio.create_task(stage.ask("/match"))
        await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            assert (await stage.ask("/match"))["status"] == 503
        stage.go.set()
        await first

    asyncio.run(play())


def test_a_costly_question_that_fails_gives_its_turn_back() -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("the state cannot be read")

    async def play() -> None:
        limits = QueryLimits(wait_s=0.05, at_once=1)
        stage = LimitedApplication(limits)
        stage.bounded = BodyLimiter(fail, limits)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                await stage.ask("/match")

    asyncio.run(play())


def test_looks_at_clusters_wait_for_one_another_and_not_for_texts() -> None:
    async def play() -> None:
        stage = LimitedApplication(QueryLimits(wait_s=0.05))
        texts = [asyncio.create_task(stage.ask(path)) for path in ("/match", "/match/fingerprints")]
        looks = [asyncio.create_task(stage.ask(path)) for path in ("/cluster/17", "/cluster/19")]
        await asyncio.sleep(0.01)
        late, page = [asyncio.create_task(stage.ask(path)) for path in ("/cluster/18", "/page")]
        await asyncio.sleep(0.01)
        assert stage.inside == 5
        assert (await late)["status"] == 503
        stage.go.set()
        assert [answer["status"] for answer in await asyncio.gather(*texts, *looks, page)] == [200] * 5

    asyncio.run(play())


def test_a_client_that_reads_slowly_keeps_no_costly_question_waiting() -> None:
    async def play() -> None:
        stage = LimitedApplication(QueryLimits(wait_s=0.05, at_once=1))
        stage.go.set()
        stuck = asyncio.Event()

        async def never() -> None:
            await stuck.wait()

        slow = asyncio.create_task(stage.ask("/tokens", takes=never))
        await asyncio.sleep(0.01)
        assert (await stage.ask("/tokens"))["status"] == 200
        stuck.set()
        await slow

    asyncio.run(play())


def test_a_client_that_takes_nothing_is_left() -> None:
    async def play() -> None:
        stage = LimitedApplication(QueryLimits(send_s=0.05))
        stage.go.set()
        with pytest.raises(SlowReaderError):
            await stage.ask("/tokens", takes=lambda: asyncio.sleep(60))

    asyncio.run(play())


def test_bodies_of_all_clients_together_are_bounded() -> None:
    async def play() -> None:
        stage = LimitedApplication(QueryLimits(held_bytes=25))
        held = [asyncio.create_task(stage.ask("/judge", b"0123456789")) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert (await stage.ask("/judge", b"0123456789"))["status"] == 503
        stage.go.set()
        await asyncio.gather(*held)
        assert (await stage.ask("/judge", b"0123456789"))["status"] == 200

    asyncio.run(play())


def test_a_refused_body_is_read_to_a_limit() -> None:
    pieces = iter([{"type": "http.request", "body": bytes(10), "more_body": True}] * 20)

    async def receive() -> Message:
        return next(pieces)

    async def send(_: Message) -> None: ...

    bounded = BodyLimiter(cast(Any, None), QueryLimits(other_body=15, read_bytes=100))
    asyncio.run(bounded({"type": "http", "path": "/x", "method": "POST", "headers": []}, receive, send))
    assert len(list(pieces)) == 9


def test_refused_bodies_take_no_room_from_others() -> None:
    async def play() -> None:
        stage = LimitedApplication(QueryLimits(bodies={"/judge": 15}, held_bytes=25))
        stage.go.set()
        for _ in range(3):
            assert (await stage.ask("/judge", b"0123456789", more=(b"0123456789",)))["status"] == 413
        assert (await stage.ask("/judge", b"0123456789"))["status"] == 200

    asyncio.run(play())


def test_answers_that_clients_have_not_taken_count_among_the_bodies() -> None:
    async def play() -> None:
        stage = LimitedApplication(QueryLimits(held_bytes=25), answer=bytes(20))
        stage.go.set()
        taken = asyncio.Event()
        steps = iter((asyncio.sleep(0), taken.wait()))  # of the head and of the answer's body

        async def take() -> None:
            await next(steps)

        slow = asyncio.create_task(stage.ask("/judge", takes=take))
        await asyncio.sleep(0.01)
        assert (await stage.ask("/judge", b"0123456789"))["status"] == 503
        taken.set()
        await slow
        assert (await stage.ask("/judge", b"0123456789"))["status"] == 200

    asyncio.run(play())


VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('a\\"b{:,\n', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a\\"', max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(value=VALUES, indent=st.none() | st.just(2))
def test_strings_and_bytes_outside_are_counted_as_json_reads_them(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    strings = outside = at = 0
    while at < len(text):
        if text[at] == '"':
            _, at = json.decoder.scanstring(text, at + 1)
            strings += 1
        else:
            at, outside = at + 1, outside + 1
    for fewer_strings, fewer_bytes in ((0, 0), (1, 0), (0, 1)):
        few = has_few_values(text.encode(), strings - fewer_strings, outside - fewer_bytes)
        assert few is (fewer_strings == fewer_bytes == 0)


def test_recent_verdicts_are_bounded_in_number_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_RECENT", 100)
    monkeypatch.setattr(query, "MAX_RECENT_BYTES", 1 << 20)
    recent = query.RecentVerdicts()
    short = verdict(0, 0)
    recent.add([msgspec.structs.replace(short, id=str(number % 101)) for number in range(250)])
    assert sum(recent.get(str(number)) is not None for number in range(101)) == 100
    merged = tuple(map(str, range(100)))
    longs = [
        msgspec.structs.replace(short, id=f"{number:2000}", url="x" * 8000, merged_clusters=merged)
        for number in range(90)
    ]
    recent.add(longs)
    recent.add(longs)
    kept = [one for one in longs if recent.get(one.id) is not None]
    assert kept == longs[-len(kept) :]
    assert 500_000 < len(kept) * 17_700 < 1 << 20
    assert recent.get("5") is None


def test_recent_verdicts_that_were_answered_take_no_more_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_RECENT_BYTES", 1 << 20)
    recent, kept = query.RecentVerdicts(), list[Verdict]()
    for number in range(300):
        kept.append(msgspec.structs.replace(verdict(0, 0), id=f"ж{number:999}", url="ж" * 4000 + str(number)))
        recent.add(kept[-1:])
        msgspec.json.encode(kept[-1])
    kept = [one for one in kept if recent.get(one.id) is not None]
    assert len(kept) > 5
    assert sum(getsizeof(one.id) + getsizeof(one.url) for one in kept) < 1 << 20
