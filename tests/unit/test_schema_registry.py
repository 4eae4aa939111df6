"""What the service makes of a registry's answers: each kind from a real server on loopback."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path

import pytest

from simstream.errors import RegistryFailed
from simstream.model import Record
from simstream.registry.client import RegistryClient
from simstream.registry.schemas import SchemaBook
from simstream.roles.fingerprint.schema_wait import SchemaWait
from simstream.setting_groups import RegistrySettings
from simstream.telemetry.metrics import Metrics
from simstream.wire.avro_value import compile_avro
from simstream.wire.bad_value import BadValueError
from tests.waiting import until
from tests.web_server import LoopbackServer, serving

PAGE = json.dumps({"type": "record", "name": "Page", "fields": [{"name": "text", "type": "string"}]})
GONE = 404, b'{"error_code": 40403, "message": "Schema not found"}'


class _Handler(BaseHTTPRequestHandler):
    server: AnsweringServer

    def do_GET(self) -> None:
        status, body = self.server.answer(self.path)
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(status)
        if self.server.is_endless:
            self.end_headers()
            with suppress(ConnectionError):
                while True:
                    self.server.sent_bytes += self.wfile.write(body)
            return
        self.send_header("Content-Length", str(len(body)))
        if self.server.encoding:
            self.send_header("Content-Encoding", self.server.encoding)
        self.end_headers()
        pieces = [body[at : at + 1] for at in range(len(body))] if self.server.pause_s else [body]
        for piece in pieces:
            self.wfile.write(piece)
            time.sleep(self.server.pause_s)

    def do_POST(self) -> None:
        self.server.sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.do_GET()


class AnsweringServer(LoopbackServer):
    """Answers as `answers` says, by path."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.sent: list[dict[str, object]] = []
        """The schemas that were sent."""
        self.pause_s = 0.0
        """Seconds after each byte of an answer."""
        self.is_endless = False
        """Whether an answer repeats its body for ever, and how many bytes of it went out."""
        self.sent_bytes = 0
        self.encoding = ""

    def answer(self, path: str) -> tuple[int, bytes]:
        return self.answers.get(path.partition("?")[0], self.answers.get("*", GONE))

    def has(self, number: int, **schema: object) -> None:
        self.answers[f"/schemas/ids/{number}"] = 200, json.dumps({"schema": PAGE, **schema}).encode()


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    with serving(AnsweringServer()) as running:
        yield running


def client(server: AnsweringServer, **settings: str) -> RegistryClient:
    return RegistryClient(RegistrySettings(url=server.url, **settings))


def book(server: AnsweringServer) -> SchemaBook:
    return SchemaBook(client(server), "AVRO", compile_avro)


def value(number: int, text: str = "abc") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + bytes([2 * len(text)]) + text.encode()


def records(*numbers: int, partition: int = 0) -> list[Record]:
    return [Record("pages", partition, offset, None, value(number)) for offset, number in enumerate(numbers)]


@pytest.mark.parametrize(
    "answer",
    [
        (500, b""),
        (503, b"<html>busy</html>"),
        (401, b'{"error_code": 401, "message": "Unauthorized"}'),
        (404, b"<html>no such page</html>"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (302, b""),
        (200, b""),
        (200, b"<html>hello</html>"),
        (200, b"[]"),
        (200, b"7"),
        (200, b'{"schema": 7}'),
        (200, b"{}"),
        (200, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        (200, json.dumps({"schema": PAGE, "schemaType": 5}).encode()),
        (200, json.dumps({"schema": PAGE, "references": [{"name": ["x"], "subject": "s", "version": 1}]}).encode()),
    ],
)
def test_an_improper_answer_is_the_registrys_fault(server: AnsweringServer, answer: tuple[int, bytes]) -> None:
    server.answers["*"] = answer
    with pytest.raises(RegistryFailed, match="the schema registry http://127") as failed:
        client(server).fetch(7)
    assert len(server.asked) == 1
    assert ("is /apis/ccompat/v7 missing in registry.url?" in failed.value.what) == (answer[0] == 404)


def test_no_schema_is_what_the_registry_itself_says(server: AnsweringServer) -> None:
    assert client(server).fetch(7) is None


def test_user_and_token_come_from_files(server: AnsweringServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass:word\n")
    server.has(7)
    client(server, user="u", password_file=str(secret)).fetch(7)
    client(server, token_file=str(secret)).fetch(7)
    assert [given for _, given in server.asked] == ["Basic dTpwYXNzOndvcmQ=", "Bearer pass:word"]


def needs(*names: str) -> list[dict[str, object]]:
    """References to schemas with these names."""
    return [{"name": name, "subject": name, "version": 1} for name in names]


def test_a_schema_may_need_a_hundred_others_and_no_more(server: AnsweringServer) -> None:
    names = [f"s{number}" for number in range(101)]
    for name, further in pairwise(names):
        body = {"subject": name, "version": 1, "id": 1, "schema": name, "references": needs(further)}
        server.answers[f"/subjects/{name}/versions/1"] = 200, json.dumps(body).encode()
    server.has(7, references=needs("s0"))
    with pytest.raises(BadValueError, match="needs more than 100 others") as caught:
        client(server).fetch(7)
    assert caught.value.reason == "bad_schema"
    assert len(server.asked) == 101
    server.has(8, references=needs("s1"))
    server.answers["/subjects/s100/versions/1"] = 200, b'{"subject":"s100","version":1,"id":1,"schema":"x"}'
    found = client(server).fetch(8)
    assert found is not None
    assert len(found.references) == 100


def test_references_are_fetched_before_the_schema_and_only_once(server: AnsweringServer) -> None:
    server.has(7, references=needs("a", "b"))
    for name, more in (("a", ("b",)), ("b", ())):
        body = {"subject": name, "version": 1, "id": 1, "schema": name, "references": needs(*more)}
        server.answers[f"/subjects/{name}/versions/1"] = 200, json.dumps(body).encode()
    found = client(server).fetch(7)
    assert found is not None
    assert found.references == (("b", "b"), ("a", "a"))
    del server.answers["/subjects/b/versions/1"]
    with pytest.raises(BadValueError, match="needs b"):
        client(server).fetch(7)


def test_schemas_that_need_one_another_are_fetched_once(server: AnsweringServer) -> None:
    server.has(7, references=needs("a"))
    for name, other in (("a", "b"), ("b", "a")):
        body = {"subject": name, "version": 1, "id": 1, "schema": name, "references": needs(other)}
        server.answers[f"/subjects/{name}/versions/1"] = 200, json.dumps(body).encode()
    found = client(server).fetch(7)
    assert found is not None
    assert found.references == (("b", "b"), ("a", "a"))


def test_no_more_is_fetched_of_a_schema_that_is_too_large_already(server: AnsweringServer) -> None:
    names = [f"s{number}" for number in range(9)]
    server.has(7, references=needs(*names))
    for name in names:
        body = {"subject": name, "version": 1, "id": 1, "schema": name * (400 << 10)}
        server.answers[f"/subjects/{name}/versions/1"] = 200, json.dumps(body).encode()
    with pytest.raises(BadValueError, match="more than 1,048,576 bytes"):
        client(server).fetch(7)
    assert len(server.asked) == 3


def test_a_schema_of_ten_megabytes_or_of_another_kind_makes_pages_unreadable(server: AnsweringServer) -> None:
    server.has(1, schema="x" * (10 << 20))
    server.has(2, schemaType="JSON")
    server.has(3, schema='{"type": "record"}')
    pages = book(server)
    server.has(4, schema="x" * (2 << 20))
    for number, said in (
        (1, "more than 4,194,304 bytes"),
        (2, "a schema of JSON"),
        (3, "malformed"),
        (4, "more than 1,048,576 bytes"),
    ):
        for _ in range(2):
            with pytest.raises(BadValueError, match=said) as caught:
                pages.read(value(number))
            assert caught.value.reason == "bad_schema"
    assert len(server.asked) == 4


@pytest.mark.parametrize(("status", "error"), [(200, BadValueError), (404, RegistryFailed), (500, RegistryFailed)])
def test_an_answer_that_never_ends_is_read_to_a_limit(
    server: AnsweringServer, status: int, error: type[Exception]
) -> None:
    server.is_endless = True
    server.answers["*"] = status, b" " * 65_536
    with pytest.raises(error, match=r"4,194,304 bytes|does not end"):
        client(server).fetch(7)
    assert server.sent_bytes < 40 << 20, "the rest is what the kernel holds"


def test_a_compressed_answer_is_not_unpacked(server: AnsweringServer) -> None:
    server.answers["*"] = 200, gzip.compress(b" " * (100 << 20))
    server.encoding = "gzip"
    with pytest.raises(RegistryFailed, match="compressed"):
        client(server).fetch(7)


def test_a_known_schema_is_asked_for_once(server: AnsweringServer) -> None:
    server.has(7)
    pages = book(server)
    assert [pages.read(value(7)) for _ in range(3)] == [{"text": "abc"}] * 3
    assert len(server.asked) == 1


def test_the_readers_that_are_kept_are_bounded(server: AnsweringServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simstream.registry.schemas.MAX_KEPT_BYTES", 5_000)
    for number in range(20):
        server.has(number)
    pages = book(server)
    for number in range(20):
        pages.begin()
        pages.read(value(number))
    assert len(pages._kept) <= 4
    pages.begin()
    assert pages.unknown_of(value(0)) == 0
    assert pages.unknown_of(value(19)) is None


@contextmanager
def waiting(server: AnsweringServer, give_up_s: float = 60.0) -> Iterator[SchemaWait]:
    wait = SchemaWait(book(server), Metrics(), give_up_s)
    yield wait
    wait.forget()


def admitted(wait: SchemaWait, given: list[Record]) -> list[Record]:
    out, end = [*wait.admit(given)], time.monotonic() + 120
    while wait.is_waiting and time.monotonic() < end:
        wait.wait(0.05)
        out += wait.admit()
    return out


def test_records_wait_for_their_schemas_and_keep_their_order(server: AnsweringServer) -> None:
    server.has(1)
    server.has(2)
    with waiting(server) as wait:
        first = records(1, 2, 9, 1)
        assert wait.admit(first) == ()
        assert wait.partitions == {0}
        assert admitted(wait, []) == first
        assert wait.admit(records(1, 2, 1)) == records(1, 2, 1)
    assert sorted(path for path, _ in server.asked) == [f"/schemas/ids/{number}" for number in (1, 2, 9)]


def test_a_look_at_records_takes_those_whose_schemas_are_soon_known_and_holds_none(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simstream.roles.fingerprint.schema_wait.MAX_FIRST_WAIT_S", 0.5)
    server.has(1)
    with waiting(server) as wait:
        assert wait.admit_soon(records(1, 1)) == records(1, 1)
        server.answers["*"] = 503, b""
        assert wait.admit_soon(records(2)) == []
        assert not wait.is_waiting
        assert wait.admit(records(1)) == records(1)


def test_more_schemas_than_memory_is_to_hold_are_asked_for_in_several_rounds(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("registry.schemas", "roles.fingerprint.schema_wait"):
        monkeypatch.setattr(f"simstream.{module}.MAX_KEPT_BYTES", 3_000, raising=False)
    for number in range(1, 30):
        server.has(number)
    ids = [20, 1, 20, *range(2, 12), 99, 1, 98, *range(15, 6, -1)]
    given, late, out = records(*ids), records(25, 3, partition=1), []
    with waiting(server) as wait:
        assert wait.admit(given) == ()
        fresh = [*wait.admit(late)]
        end = time.monotonic() + 120
        while (wait.is_waiting or fresh) and time.monotonic() < end:
            asked = len(server.asked)
            for one in fresh:
                if one.value not in (value(98), value(99)):
                    assert wait._book.read(one.value) == {"text": "abc"}  # type: ignore[union-attr,arg-type]
            assert not fresh or len(server.asked) == asked
            out += fresh
            assert len(wait._book._asked) <= 2 * 3  # type: ignore[union-attr]
            wait.wait(0.05)
            fresh = [*wait.admit()]
        assert out == given + late


def test_reading_without_rounds_keeps_no_more_schemas_than_memory_is_to_hold(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simstream.registry.schemas.MAX_KEPT_BYTES", 3_000)
    pages = book(server)
    for number in range(20):
        server.has(number)
        assert pages.read(value(number)) == {"text": "abc"}
        assert len(pages._asked) <= 4


def test_an_unknown_id_is_asked_for_again_after_later_pages_were_read(server: AnsweringServer) -> None:
    with waiting(server) as wait:
        assert len(admitted(wait, records(5, 5, 5))) == 3
        with pytest.raises(BadValueError, match="no schema 5"):
            wait._book.read(value(5))  # type: ignore[union-attr]
        server.has(5)
        assert len(admitted(wait, records(5))) == 1
        assert wait._book.read(value(5)) == {"text": "abc"}  # type: ignore[union-attr]
    assert len(server.asked) == 2


def test_a_schema_that_the_user_may_not_read_stops_no_other_pages(server: AnsweringServer) -> None:
    server.has(1)
    server.answers["/schemas/ids/7"] = 403, b'{"error_code": 40301, "message": "User is denied operation Read"}'
    with waiting(server) as wait:
        assert wait.admit(records(7)) == ()  # perhaps the user may read none
        until(lambda: "answers 403" in wait.trouble, "it is refused")
        wait.forget()
        assert len(admitted(wait, records(1))) == 1
        assert len(admitted(wait, records(7, 1))) == 2
        with pytest.raises(BadValueError, match="does not let simstream read schema 7"):
            wait._book.read(value(7))  # type: ignore[union-attr]
        server.has(7)
        assert len(admitted(wait, records(7))) == 1
        assert wait._book.read(value(7)) == {"text": "abc"}  # type: ignore[union-attr]


def test_ids_that_a_stranger_makes_up_cost_at_most_100_requests_a_second(server: AnsweringServer) -> None:
    with waiting(server) as wait:
        began = time.monotonic()
        assert len(admitted(wait, records(*range(1, 60), *range(1, 60)))) == 118
        assert time.monotonic() - began > 0.5
    assert len(server.asked) == 59


def test_records_that_come_meanwhile_wait_for_a_round_of_their_own(server: AnsweringServer) -> None:
    server.has(1)
    server.answers["*"] = 500, b""
    with waiting(server) as wait:
        assert wait.admit(records(2)) == ()
        assert wait.admit(records(1, partition=1)) == ()
        assert wait.partitions == {0, 1}
        until(lambda: wait.trouble, "there is trouble")
        assert "answers 500" in wait.trouble
        wait.drop(0)
        server.answers["*"] = GONE
        assert admitted(wait, []) == records(1, partition=1)


def test_nothing_is_asked_once_the_records_are_dropped(server: AnsweringServer) -> None:
    server.answers["*"] = 500, b""
    with waiting(server) as wait:
        assert wait.admit(records(1)) == ()
        inquiry = wait._inquiry
        assert inquiry is not None
        wait.forget()
        inquiry.outcome.result(30)


def test_each_silence_of_the_registry_is_told_once(
    server: AnsweringServer, caplog: pytest.LogCaptureFixture
) -> None:
    with waiting(server) as wait:
        for number in (1, 2):
            server.answers["*"] = 500, b""
            assert wait.admit(records(number)) == ()
            until(lambda: wait.trouble, "there is trouble")
            for _ in range(3):
                assert wait.admit() == ()
            server.has(number)
            assert admitted(wait, []) == records(number)
    told = [line.getMessage() for line in caplog.records if "no page is read" in line.getMessage()]
    assert len(told) == 2


def test_a_registry_that_fails_for_too_long_ends_the_role(server: AnsweringServer) -> None:
    server.answers["*"] = 500, b""
    with waiting(server, give_up_s=0.2) as wait, pytest.raises(RegistryFailed, match="answers 500"):
        admitted(wait, records(1))


def test_pages_wait_while_a_password_is_changed_and_the_new_one_is_read(
    server: AnsweringServer, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text("old")
    server.answers["*"] = 401, b""
    pages = SchemaBook(client(server, user="u", password_file=str(secret)), "AVRO", compile_avro)
    wait = SchemaWait(pages, Metrics(), 60.0)
    assert wait.admit(records(1)) == ()
    until(lambda: "answers 401" in wait.trouble, "it is refused")
    secret.write_text("new")
    until(lambda: server.asked[-1][1] == "Basic dTpuZXc=", "it asks by the new secret")
    server.has(1)
    assert admitted(wait, []) == records(1)


def test_a_registry_that_answers_one_byte_at_a_time_is_trouble_and_ends_the_role(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server.has(1)
    server.pause_s = 0.5
    with waiting(server) as wait:
        assert wait.admit(records(1)) == ()
        assert wait.trouble == ""
        monkeypatch.setattr("simstream.roles.registry_inquiry.SILENT_S", 0.2)
        until(lambda: wait.admit() == () and "has not answered for" in wait.trouble, "it is silent")
        assert wait.admit() == ()
        assert [line.getMessage() for line in caplog.records if "no page is read" in line.getMessage()]
        wait._give_up_s = 0.0
        with pytest.raises(RegistryFailed, match="has not answered for"):
            admitted(wait, [])
        server.pause_s = 0.0


def test_a_failure_late_in_a_long_round_does_not_end_the_role(server: AnsweringServer) -> None:
    asked = []

    def answer(path: str) -> tuple[int, bytes]:
        asked.append(path)
        return (500, b"") if "/280" in path and sum("/280" in one for one in asked) == 1 else GONE

    server.answer = answer  # type: ignore[method-assign]
    with waiting(server, give_up_s=2.5) as wait:
        began = time.monotonic()
        assert len(admitted(wait, records(*range(1, 301)))) == 300
        assert time.monotonic() - began > 2.5
    assert len(asked) == 301
