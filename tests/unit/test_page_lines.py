"""`POST /judge` for bodies of lines: order, streaming, errors of single pages, bounds, clients that leave."""

from __future__ import annotations

import asyncio
import codecs
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from simstream.errors import BrokerUnreachable, UsageError, VerdictLate
from simstream.queries.app import make_app
from simstream.queries.page_lines import AT_ONCE, MAX_LINES
from simstream.queries.server import QueryServer
from simstream.telemetry.metrics import Metrics
from tests.waiting import until

PATIENCE_S = 60


class SlowJudge:
    """Answers at once, but for pages that wait until `released`, and pages whose text names an error."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.seen: list[str] = []
        self.cancelled = 0
        self.most = self.now = 0
        self.down = False

    async def open(self, timeout: float) -> None:
        if self.down:
            raise BrokerUnreachable("no Kafka broker answered", "start it")

    async def judge(self, page: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        self.seen.append(page["id"])
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if page["text"] == "wait":
                while not self.released.is_set():
                    await asyncio.sleep(0.01)
            errors = {"late": VerdictLate("late", "wait"), "bad": UsageError("bad", "mend it")}
            if (error := errors.get(page["text"])) is not None:
                raise error
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        return {"id": page["id"]}

    async def close(self) -> None: ...


@pytest.fixture
def judge() -> SlowJudge:
    return SlowJudge()


@pytest.fixture
def port(judge: SlowJudge) -> Iterator[int]:
    health = SimpleNamespace(ready=lambda *_: (True, ""))
    nothing = cast(Any, None)
    with QueryServer(
        "127.0.0.1", 0, make_app(nothing, nothing, cast(Any, judge), cast(Any, health), Metrics())
    ) as server:
        yield server.port
        judge.released.set()


def asked(port: int, lines: list[Any], kind: str = "application/x-ndjson") -> http.client.HTTPResponse:
    body = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("POST", "/judge", body, {"Content-Type": kind})
    return connection.getresponse()


def page(number: int, text: str = "x") -> dict[str, str]:
    return {"id": str(number), "text": text}


def test_each_line_has_its_answer_in_order_and_a_broken_one_loses_no_other(port: int) -> None:
    first = codecs.BOM_UTF8 + json.dumps(page(1)).encode()
    lines = [first, b"{", page(3, "late"), b" \r", page(5, "bad"), {"id": "6", "more": 1}, page(7), b"[" * 50_000]
    answer = asked(port, lines, "Application/X-NDJSON; charset=utf-8")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    found = [json.loads(line) for line in answer.read().splitlines()]
    assert [one.get("id") for one in found] == ["1", None, None, None, None, "7", None]
    errors = {one["line"]: (one["status"], one["detail"]) for one in found if "line" in one}
    assert {line: status for line, (status, _) in errors.items()} == {2: 422, 3: 504, 5: 400, 6: 422, 8: 422}
    assert errors[3][1] == "late: wait"
    assert "more" not in errors[6][1]
    assert max(len(detail) for _, detail in errors.values()) < 500


def test_a_lone_surrogate_is_taken_in_a_line_as_in_one_page_of_json(port: int) -> None:
    line = b'{"id": "a", "text": "\\ud83d"}'
    for kind in ("application/x-ndjson", "application/json"):
        assert json.loads(asked(port, [line], kind).read())["id"] == "a"
    wrong = json.loads(asked(port, [b'{"id": "\\ud83d", "more": 1}']).read())
    assert (wrong["status"], wrong["detail"][:26]) == (422, "a page has no other fields")
    for encoding in ("utf-16-be", "utf-32-be", "utf-8-sig"):
        other = json.loads(
            asked(port, [page(1), '{"id": "a", "text": "b"}'.encode(encoding)]).read().splitlines()[1]
        )
        assert (other["status"], other["detail"]) == (422, "the page is no JSON")


def test_a_line_that_breaks_off_and_one_of_very_many_values_spoil_no_other(port: int, judge: SlowJudge) -> None:
    many = b'{"id":"a","text":"x","k":[' + b"1," * 100_000 + b"1]}"
    names = b"{" + b",".join(b'"k%d":1' % number for number in range(20_000)) + b"}"
    good = [page(number, "x" * 100) for number in range(900)]
    answer = asked(port, [b'{"id":"broken', many, names, *good])
    assert answer.status == 200
    found = [json.loads(line) for line in answer.read().splitlines()]
    assert [one.get("status") for one in found[:4]] == [422, 422, 422, None]
    assert judge.seen == [str(number) for number in range(900)]


def test_answers_come_while_other_pages_still_wait(port: int, judge: SlowJudge) -> None:
    answer = asked(port, [page(1), page(2), page(3, "wait"), page(4)])
    assert [json.loads(answer.readline())["id"] for _ in range(2)] == ["1", "2"]
    judge.released.set()
    assert [json.loads(line)["id"] for line in answer.read().splitlines()] == ["3", "4"]


def test_pages_are_sent_in_order_and_few_of_a_body_wait_at_once(port: int, judge: SlowJudge) -> None:
    answer = asked(port, [page(number, "wait" if number < 500 else "x") for number in range(MAX_LINES)])
    until(lambda: len(judge.seen) >= AT_ONCE, f"{AT_ONCE} pages are in work")
    time.sleep(0.1)
    assert judge.now == judge.most == AT_ONCE
    judge.released.set()
    found = [json.loads(line)["id"] for line in answer.read().splitlines()]
    assert found == judge.seen == [str(number) for number in range(MAX_LINES)]
    assert judge.most == AT_ONCE


def test_a_body_of_too_many_lines_is_refused_before_a_page_is_sent(port: int, judge: SlowJudge) -> None:
    for lines in ([page(number) for number in range(MAX_LINES + 1)], [b""] * 100_000):
        answer = asked(port, lines)
        assert answer.status == 400
        assert "more than 1,000 lines" in json.loads(answer.read())["detail"]
    assert not judge.seen
    assert asked(port, [b"", b" "]).read() == b""


def test_a_service_that_is_away_is_told_before_the_first_line(port: int, judge: SlowJudge) -> None:
    judge.down = True
    answer = asked(port, [page(1)])
    assert (answer.status, json.loads(answer.read())) == (503, {"detail": "no Kafka broker answered: start it"})


def test_a_client_that_leaves_ends_its_waits(port: int, judge: SlowJudge) -> None:
    answer = asked(port, [page(0), *(page(number, "wait") for number in range(1, MAX_LINES))])
    assert json.loads(answer.readline())["id"] == "0"
    answer.close()
    until(lambda: not judge.now, "no page is in work")
    assert (judge.now, judge.cancelled) == (0, len(judge.seen) - 1)
    assert len(judge.seen) < MAX_LINES


def test_one_page_in_json_is_answered_as_before(port: int, judge: SlowJudge, tmp_path: Path) -> None:
    refused = asked(port, [b'{"id": "1", "more": 1}'], "application/json")
    assert refused.status == 422
    assert "a page has no other fields than" in json.loads(refused.read())["detail"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/openapi.json")
    described = json.loads(connection.getresponse().read())["paths"]["/judge"]["post"]
    assert set(described["requestBody"]["content"]) == {"application/json", "application/x-ndjson"}
    assert set(described["responses"]["200"]["content"]) == {"application/json", "application/x-ndjson"}
