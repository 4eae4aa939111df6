"""Which pages get a span, what strangers may write into a traceparent, and what happens without the extra."""

from __future__ import annotations

import sys
import time

import pytest

from simstream.cli.main import invoke
from simstream.errors import SettingsError, Unavailable
from simstream.judge.acceptor import LogPlace
from simstream.model import PageSource, Record, Verdict, VerdictKind
from simstream.roles.judge.log_judge import JudgedFrame
from simstream.roles.judge.verdict_publisher import traced_pages
from simstream.settings import Settings
from simstream.telemetry import tracing
from simstream.telemetry.tracing import MAX_WAITING, PageSpans, TracedPage, check_tracing, is_sampled
from simstream.wire.frame import FrameHeader
from simstream.wire.page_headers import Headers
from tests.e2e.otlp import receiving
from tests.waiting import until

GOOD = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HOSTILE = [
    b"",
    b"\xff" * 55,
    GOOD[:52],
    GOOD[:54],
    GOOD.replace(b"0af7651916cd43dd8448eb211c80319c", b"0" * 32),
    GOOD.replace(b"b7ad6b7169203331", b"0" * 16),
    GOOD.replace(b"00-", b"ff-", 1),
    GOOD.replace(b"-", b"_"),
    GOOD + b"-more",
    b"zz" + GOOD[2:],
    GOOD.upper(),
]


def traced(*headers: tuple[str, bytes]) -> TracedPage:
    return TracedPage(headers, "new", 7, PageSource("p", 0, 1), 1_000, 2_000)


@pytest.mark.parametrize(
    ("flags", "sampled"), [("01", True), ("03", True), ("ff", True), ("00", False), ("02", False)]
)
def test_the_flag_of_the_trace_says_whether_a_page_is_sampled(flags: str, sampled: bool) -> None:
    value = GOOD[:53] + flags.encode()
    assert is_sampled((("tenant", b"x"), ("TraceParent", value))) is sampled
    assert not is_sampled((("tenant", value),))


@pytest.mark.parametrize("value", HOSTILE)
def test_a_traceparent_that_is_none_gives_no_span(value: bytes) -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    is_sampled((("traceparent", value),))
    with receiving() as receiver:
        with PageSpans(receiver.url, "simstream") as spans:
            spans.send([traced(("traceparent", value)), traced(("traceparent", GOOD))], 3_000_000_000)
        [span] = receiver.spans
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (10**9, 3 * 10**9)


@pytest.mark.parametrize("state", [b"\xff\x00", b"a=" + b"x" * 2_000, b"," * 2_000, b"a=1," * 500])
def test_a_hostile_tracestate_costs_no_span(state: bytes) -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    with receiving() as receiver:
        with PageSpans(receiver.url, "simstream") as spans:
            spans.send([traced(("traceparent", GOOD), ("tracestate", state))], 3_000_000_000)
        assert len(receiver.spans) == 1


def test_a_span_does_not_end_before_it_begins_if_the_clocks_disagree() -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    with receiving() as receiver:
        with PageSpans(receiver.url, "simstream") as spans:
            spans.send([traced(("traceparent", GOOD))], 1_500_000)
        [span] = receiver.spans
    assert span.start_time_unix_nano == span.events[0].time_unix_nano == span.end_time_unix_nano == 1_500_000


def test_spans_for_a_silent_receiver_take_bounded_room_and_the_end_waits_a_bounded_time() -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    with receiving() as receiver:
        receiver.answers.clear()
        spans = PageSpans(receiver.url, "simstream")
        begun = time.monotonic()
        spans.send([traced(("traceparent", GOOD))] * (3 * MAX_WAITING), 3_000_000_000)
        assert (
            len(spans._provider._active_span_processor._span_processors[0]._batch_processor._queue) <= MAX_WAITING
        )
        spans.close()
        assert time.monotonic() - begun < 15


def test_a_receiver_that_takes_no_span_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("opentelemetry.sdk.trace")
    monkeypatch.setattr(tracing, "SEND_EVERY_MS", 1)
    monkeypatch.setattr(tracing._RARE_EXPORT_LINES, "_kinds", {})
    with receiving() as receiver:
        receiver.status = 400
        with PageSpans(receiver.url, "simstream") as spans:
            for tries in range(1, 4):
                spans.send([traced(("traceparent", GOOD))], 3_000_000_000)
                until(lambda tries=tries: len(receiver.spans) == tries, "the receiver was asked")  # type: ignore[misc]
    assert len([line for line in caplog.messages if "code: 400" in line]) == 1


def verdict(offset: int) -> Verdict:
    source = PageSource("p", 0, offset)
    kind = VerdictKind.TOO_SHORT
    return Verdict("a", None, kind, None, None, None, None, None, None, (), None, "p", offset, 0, source)


def test_a_page_arrives_when_its_frame_says_so_also_if_the_first_pages_were_judged_before() -> None:
    headers: dict[int, Headers] = dict.fromkeys((1, 3), (("traceparent", GOOD),))
    header = FrameHeader("r", "p", "T", 0, 0, 4, 0, came=((100, 2), (200, 1), (300, 1)))
    judged = [verdict(offset) for offset in (2, 3)]
    frame = JudgedFrame(Record("f", 0, 0, None, b"", (), 900), judged, LogPlace(1, 4, ""), {}, header)
    found = traced_pages(frame, headers)
    assert [(one.source.offset, one.arrived_ms, one.appended_ms) for one in found] == [(3, 300, 900)]
    assert [one.arrived_ms for one in traced_pages(frame._replace(header=None), headers)] == [900]
    assert traced_pages(frame, {3: (("traceparent", GOOD[:53] + b"00"),)}) == []


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(Unavailable, match=r"which is not installed: run pip install 'simstream\[tracing\]'"):
        check_tracing(Settings(otlp_endpoint="http://127.0.0.1:4318"))
    check_tracing(Settings())


@pytest.mark.parametrize(
    "endpoint", ["", "127.0.0.1:4318", "ftp://a", "http://", "http:///v1/traces", "http://[", "http://a:b"]
)
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(SettingsError, match="give an address such as"):
        check_tracing(Settings(otlp_endpoint=endpoint))


@pytest.mark.parametrize("address", ["collector.example:4318/?api-key=mellon", "collector.example:x?key=mellon"])
def test_a_key_in_the_endpoint_is_refused_and_not_shown(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spans go to the path /v1/traces behind the endpoint, which would be a part of the key."""
    monkeypatch.setenv("SIMSTREAM_VERDICT_HEADERS", "traceparent")
    monkeypatch.setenv("SIMSTREAM_OTLP_ENDPOINT", f"http://{address}")
    assert invoke(["config"]) == 2
    said = capsys.readouterr()
    assert "otlp_endpoint" in said.err
    assert "mellon" not in said.out + said.err


@pytest.mark.parametrize("port", ["4318", "x"], ids=["good", "wrong"])
def test_a_password_in_the_endpoint_is_not_shown(
    port: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMSTREAM_VERDICT_HEADERS", "traceparent")
    monkeypatch.setenv("SIMSTREAM_OTLP_ENDPOINT", f"http://user:mellon@collector.example:{port}")
    assert invoke(["config"]) == (2 if port == "x" else 0)
    said = capsys.readouterr()
    assert "otlp_endpoint" in said.out
    assert "otlp_endpoint is (hidden): give" in said.err or port == "4318"
    assert "mellon" not in said.out + said.err
