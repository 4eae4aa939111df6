"""Spans from pages to verdicts, as a real OTLP receiver gets them."""

from __future__ import annotations

import json
import time

import pytest

from simstream.log.options import PAGES, VERDICTS
from simstream.wire import verdict as wire
from tests.e2e.harness import Program, read_topic, watching
from tests.e2e.otlp import receiving

pytest.importorskip("opentelemetry.sdk.trace")
COUNT = 120
TRACE = "0af7651916cd43dd8448eb211c80319c"


def traceparent(number: int) -> bytes:
    """Every fourth page is sampled; some others are malformed."""
    flags = {0: "01", 1: "00", 2: "zz", 3: "1"}[number % 4]
    return f"00-{TRACE}-{number + 1:016x}-{flags}".encode()


def feed(program: Program) -> None:
    program.good("topics", "create")
    with program.place.open() as log, log.open_appender(PAGES) as appender:
        for number in range(COUNT):
            value = json.dumps({"text": f"page {number} " * 20}).encode()
            appender.append(value, b"%d" % number, [("traceparent", traceparent(number)), ("tracestate", b"a=1")])


def test_each_page_with_a_sampled_trace_gets_one_span_as_child_of_its_own(program: Program) -> None:
    feed(program)
    with receiving() as receiver, program.place.open() as log, watching(log) as watcher:
        with program.serve(SIMSTREAM_OTLP_ENDPOINT=receiver.url) as service:
            watcher.wait(COUNT, service)
            service.until(lambda: len(receiver.spans) >= COUNT // 4, "the spans come")
            assert service.end() == 0, service.output
        records = {one.key: one for one in read_topic(log, VERDICTS)}
    assert len(receiver.spans) == COUNT // 4
    assert receiver.services == {program.place.prefix}
    assert {int.from_bytes(span.parent_span_id, "big") - 1 for span in receiver.spans} == set(range(0, COUNT, 4))
    for span in receiver.spans:
        record = records[b"%d" % (int.from_bytes(span.parent_span_id, "big") - 1)]
        verdict = wire.decode(record.value or b"")
        told = {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
        assert (span.trace_id.hex(), span.trace_state) == (TRACE, "a=1")
        assert span.name == f"process {program.place.prefix}.pages"
        assert (told["simstream.verdict"], told["simstream.ordinal"]) == (verdict.verdict, verdict.ordinal)
        assert told["messaging.kafka.offset"] == verdict.source.offset
        [event] = span.events
        assert 0 < span.start_time_unix_nano <= event.time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano < time.time_ns()


@pytest.mark.parametrize("how", ["silent", "absent"])
def test_a_receiver_that_is_silent_or_absent_costs_no_verdict_and_no_end(on_folder: Program, how: str) -> None:
    feed(on_folder)
    with receiving() as receiver, on_folder.place.open() as log, watching(log) as watcher:
        receiver.answers.clear()
        endpoint = receiver.url if how == "silent" else "http://127.0.0.1:9"
        with on_folder.serve(SIMSTREAM_OTLP_ENDPOINT=endpoint) as service:
            watcher.wait(COUNT, service)
            begun = time.monotonic()
            assert service.end() == 0, service.output
            assert time.monotonic() - begun < 20
        assert len(watcher.rest()) == COUNT


def test_settings_that_can_make_no_spans_are_refused(on_folder: Program) -> None:
    for variables, says in (
        (
            {"SIMSTREAM_OTLP_ENDPOINT": "127.0.0.1:4318"},
            "otlp_endpoint is '127.0.0.1:4318': give an address such as",
        ),
        (
            {"SIMSTREAM_OTLP_ENDPOINT": "http://127.0.0.1:4318", "SIMSTREAM_VERDICT_HEADERS": "tenant"},
            "verdict_headers does not name traceparent: add",
        ),
    ):
        for command in ("config", "serve"):
            done = on_folder.run(command, **variables)
            assert done.returncode == 2
            assert says in done.stderr.decode()
