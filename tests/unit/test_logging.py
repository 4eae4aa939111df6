"""The service's log: one event a line, fields where they apply, and a flood of one fault is bounded."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simstream.cli import news
from simstream.cli.main import invoke
from simstream.errors import LogError
from simstream.telemetry import logging as module
from simstream.telemetry.logging import _TEXT, JsonFormatter, OneLineFormatter, RepetitionFilter, log_to_stderr
from tests.manual_clock import ManualClock


def logger(formatter: logging.Formatter, *filters: logging.Filter) -> tuple[logging.Logger, io.StringIO]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    for each in filters:
        handler.addFilter(each)
    made = logging.Logger("simstream.judge")
    made.addHandler(handler)
    return made, out


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[ManualClock]:
    clock = ManualClock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_an_event_is_one_line_of_json_with_the_fields_that_apply() -> None:
    log, out = logger(JsonFormatter())
    log.warning("frame %d was ignored: %s", 7, "gap", extra={"frame": 7, "reason": "gap"})
    log.info("第一页 %r", "line\nbreak")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["level"] == "warning"
    assert (first["frame"], first["reason"], first["message"]) == (7, "gap", "frame 7 was ignored: gap")
    assert first["time"].endswith("Z")
    assert "frame" not in second
    assert second["message"].startswith("第一页")


def test_a_name_that_is_not_utf8_loses_no_line_of_json() -> None:
    log, out = logger(JsonFormatter())
    log.warning("cannot write %s", "/data/\udcff", extra={"reason": "\udcff"})
    assert json.loads(out.getvalue()) | {"time": ""} == {
        "time": "",
        "level": "warning",
        "logger": log.name,
        "message": "cannot write /data/\\udcff",
        "reason": "\\udcff",
    }


def test_an_error_keeps_its_traceback_in_one_line_of_json() -> None:
    log, out = logger(JsonFormatter())
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("it failed")
    [line] = out.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["error"]


@pytest.mark.parametrize(
    ("level", "sent"),
    [
        ("debug", ["DEBUG simstream", "INFO simstream", "INFO other", "WARNING other"]),
        ("info", ["INFO simstream", "WARNING other"]),
        ("error", []),
    ],
)
def test_other_packages_are_a_step_quieter(level: str, sent: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    root, own = logging.getLogger(), logging.getLogger("simstream")
    before, handlers, own_level = root.level, root.handlers[:], own.level
    try:
        log_to_stderr("json", level)
        for number in (logging.DEBUG, logging.INFO):
            logging.getLogger("simstream.judge").log(number, "said")
        for number in (logging.DEBUG, logging.INFO, logging.WARNING):
            logging.getLogger("other.client").log(number, "said")
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
        own.setLevel(own_level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [f"{line['level'].upper()} {line['logger'].split('.')[0]}" for line in lines] == sent


def test_news_logs_in_the_format_of_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def noted(kind: str, level: str) -> None:
        asked.append((kind, level))
        raise LogError("it was asked", "ask again")

    monkeypatch.setattr(news, "log_to_stderr", noted)
    monkeypatch.setattr(news.signal, "signal", lambda *_: None)
    monkeypatch.setenv("SIMSTREAM_LOG_FORMAT", "json")
    assert invoke(["news", "--log", str(tmp_path)]) == 1
    assert asked == [("json", "info")]


def test_text_stays_one_line_whatever_a_page_is_called() -> None:
    log, out = logger(OneLineFormatter("%(levelname)s %(message)s"))
    log.warning("the oldest is %s", "a\nERROR b")
    log.warning("the oldest is %s", "\x1b]0;owned\x07\r")
    assert out.getvalue() == "WARNING the oldest is a\\nERROR b\nWARNING the oldest is \ufffd]0;owned\ufffd\ufffd\n"


@pytest.fixture
def far_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine eight hours ahead of UTC."""
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "CST-8")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_zone")
def test_text_and_json_tell_the_time_in_utc() -> None:
    record = logging.makeLogRecord({"created": 0.25, "msecs": 250.0, "levelname": "INFO", "msg": "it began"})
    assert OneLineFormatter(_TEXT).format(record).startswith("1970-01-01 00:00:00,250Z INFO ")
    assert json.loads(JsonFormatter().format(record))["time"] == "1970-01-01T00:00:00.250Z"


def test_a_flood_of_one_fault_is_bounded_and_counted_and_hides_no_other(clock: ManualClock) -> None:
    log, out = logger(OneLineFormatter("%(message)s"), RepetitionFilter(most=3, seconds=60))
    for number in range(500):
        log.warning("frame %d was ignored", number)
    log.warning("another fault")
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["frame 0 was ignored", "frame 1 was ignored"]
    assert lines[2].startswith("frame 2 was ignored (more lines like it")
    assert lines[3:] == ["another fault"]
    clock.now += 61
    log.warning("frame %d was ignored", 500)
    assert out.getvalue().splitlines()[4] == "frame 500 was ignored (and 497 more like it)"


def test_debug_lines_are_all_written() -> None:
    log, out = logger(OneLineFormatter("%(message)s"), RepetitionFilter(most=3, seconds=60))
    log.setLevel("DEBUG")
    for number in range(5):
        log.debug("judged %d pages", number)
    assert len(out.getvalue().splitlines()) == 5


def test_kinds_without_number_take_no_memory_without_bound(clock: ManualClock) -> None:
    quiet = RepetitionFilter(most=1, seconds=60)
    log, out = logger(OneLineFormatter("%(message)s"), quiet)
    for number in range(3 * module.MAX_KINDS):
        log.warning(f"kind {number}")
    assert len(quiet._kinds) <= module.MAX_KINDS
    assert len(out.getvalue().splitlines()) == 3 * module.MAX_KINDS
