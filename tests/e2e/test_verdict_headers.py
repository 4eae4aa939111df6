"""Headers of pages come out with the verdicts, once, also if the judge is killed, over both logs."""

from __future__ import annotations

import json
import signal
import time

from simstream.log.base import Log
from simstream.log.options import DEAD_LETTERS, PAGES, VERDICTS
from simstream.wire import verdict as wire
from tests.e2e.harness import QUICK_GROUPS, Program, read_topic, watching

COUNT = 1_000
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-%016x-01"
NAMES = {"SIMSTREAM_VERDICT_HEADERS": "traceparent,tenant,long"}
SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "2"} | QUICK_GROUPS | NAMES


def headers_of(number: int) -> list[tuple[str, bytes]]:
    """What page `number` has: every third page nothing."""
    if number % 3 == 0:
        return []
    own = [("traceparent", TRACE % number), ("Tenant", b"\xff\x00%d" % number), ("long", b"x" * 3_000)]
    return [*own, ("verdict", b"forged"), ("simstream.error", b"forged"), ("other", b"")]


def wanted(number: int) -> dict[str, bytes]:
    return {"traceparent": TRACE % number, "tenant": b"\xff\x00%d" % number} if number % 3 else {}


def append(log: Log, numbers: range) -> None:
    with log.open_appender(PAGES) as appender:
        for number in numbers:
            text = "" if number % 10 == 1 else f"page {number} " * 20
            value = b"{" if number % 10 == 2 else json.dumps({"text": text}).encode()
            appender.append(value, b"%d" % number, headers_of(number))


def test_each_verdict_has_the_headers_of_its_page_also_if_the_service_is_killed(program: Program) -> None:
    program.good("topics", "create")
    with program.place.open() as log, watching(log) as watcher:
        append(log, range(COUNT // 4))
        with program.serve(**SMALL) as service:
            watcher.wait(1, service)
            service.process.send_signal(signal.SIGSTOP)
            append(log, range(COUNT // 4, COUNT))
            service.process.send_signal(signal.SIGCONT)
            time.sleep(0.02)
            service.kill()
        assert len(watcher.rest()) < COUNT, "it was killed on the way"
        with program.serve(**SMALL) as service:
            watcher.wait(COUNT, service)
            service.ready()
            assert service.end() == 0
        verdicts = {record.key: record for record in watcher.rest()}
        assert len(watcher.records) == len(verdicts) == COUNT
        for number in range(COUNT):
            record = verdicts[b"%d" % number]
            kind = wire.decode(record.value or b"").verdict.encode()
            assert record.headers == (("verdict", kind), ("simstream-format", b"1"), *wanted(number).items())
        letter = next(one for one in read_topic(log, DEAD_LETTERS) if one.key == b"2")
        assert list(letter.headers[: len(headers_of(2))]) == headers_of(2)
        assert len(read_topic(log, VERDICTS)) == COUNT
    told = [json.loads(line) for line in program.good("verdicts", "--json", "--headers").splitlines()]
    shown = {one["id"]: one["headers"] for one in told}
    assert shown["1"] == {"traceparent": (TRACE % 1).decode(), "tenant": "\ufffd\x001"}
    assert shown["3"] == {}
    table = program.good("verdicts", "--headers")
    assert f"traceparent: {(TRACE % 1).decode()}\n" in table
    plain = [json.loads(line) for line in program.good("verdicts", "--json").splitlines()]
    assert all("headers" not in one for one in plain)
