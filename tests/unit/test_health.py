"""Health: live while loops turn, ready while every role says so and still turns."""

from __future__ import annotations

import ast
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from simstream.telemetry import health as module
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.http import HttpServer
from simstream.telemetry.metrics import Metrics
from tests.manual_clock import ManualClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.mark.usefixtures("clock")
def test_nothing_is_ready_before_a_role_is_known() -> None:
    assert ServiceHealth().ready() == (False, "starting")
    assert ServiceHealth().live() == (True, "live")


@pytest.mark.usefixtures("clock")
def test_a_ready_standby_also_says_what_it_does() -> None:
    health = ServiceHealth()
    health.expect("judge")
    health.turn("judge", False, "standby: follows, 900 frames behind", module.STANDBY)
    assert health.ready() == (False, "judge: standby: follows, 900 frames behind")
    health.turn("judge", True, "standby: follows, 0 frames behind", module.STANDBY)
    assert health.ready() == (True, "ready; judge: standby: follows, 0 frames behind")
    assert health.describe_roles()["judge"].state == module.STANDBY
    assert not health.is_starting("judge")


@pytest.mark.usefixtures("clock")
def test_all_roles_must_be_ready_and_each_says_why_it_is_not() -> None:
    health = ServiceHealth()
    health.expect("fingerprint")
    health.expect("judge")
    health.turn("fingerprint")
    assert health.ready() == (False, "judge: starting")
    health.turn("judge", False, "replaying")
    assert health.ready() == (False, "judge: replaying")
    health.turn("judge")
    assert health.ready() == (True, "ready")


@pytest.mark.usefixtures("clock")
def test_one_role_may_be_ready_while_another_is_not() -> None:
    health = ServiceHealth()
    health.expect("judge")
    assert health.ready("query") == (False, "starting")
    health.turn("query", True, "follows")
    assert health.ready("query") == (True, "ready; query: follows")
    assert not health.ready()[0]


def test_a_role_that_no_longer_turns_is_first_unready_and_then_stuck(clock: ManualClock) -> None:
    health = ServiceHealth()
    health.expect("judge", patience_s=60)
    health.turn("judge")
    clock.now += module.UNREADY_AFTER_S + 1
    assert health.ready() == (False, "judge: waits for an answer")
    assert health.live() == (True, "live")
    clock.now += 60
    assert health.live() == (False, "stuck: judge")
    health.turn("judge")
    assert health.ready()[0]
    assert health.live()[0]


def test_a_beat_keeps_a_role_live_and_as_it_was(clock: ManualClock) -> None:
    health = ServiceHealth()
    health.expect("judge", patience_s=60)
    health.turn("judge", False, "replaying")
    for _ in range(5):
        clock.now += 50
        health.beat("judge")
    assert health.live()[0]
    assert health.ready() == (False, "judge: replaying")


@pytest.mark.usefixtures("clock")
def test_health_is_started_once_every_role_has_begun() -> None:
    health = ServiceHealth()
    assert health.started() == (False, "starting")
    health.expect("fingerprint")
    health.expect("judge")
    health.turn("judge", False, "replaying, 9 frames to go", module.REPLAYING)
    assert health.started() == (False, "starting: fingerprint")
    health.turn("fingerprint", False, "the log does not answer")
    assert health.started() == (True, "started")


def test_the_patience_with_a_loop_can_be_set(clock: ManualClock) -> None:
    health = ServiceHealth(patience_s=5)
    health.expect("judge", patience_s=60)
    clock.now += 64
    assert health.live()[0], "a start may take longer"
    health.turn("judge")
    clock.now += 6
    assert health.live() == (False, "stuck: judge")


def test_a_role_that_waits_is_unready_says_why_and_is_not_stuck_before_its_time(clock: ManualClock) -> None:
    health = ServiceHealth(60.0)
    health.turn("judge")
    health.note_wait("judge", "takes a last snapshot", 30.0)
    assert health.ready() == (False, "judge: takes a last snapshot")
    clock.now += 89.0
    assert health.live()[0]
    clock.now += 2.0
    assert health.live() == (False, "stuck: judge")
    health.turn("judge")
    assert health.ready()[0]
    clock.now += 61.0
    assert not health.live()[0]


def test_the_age_of_a_turn_counts_from_the_last_sign_or_from_the_end_of_a_wait(clock: ManualClock) -> None:
    health = ServiceHealth()
    health.expect("judge", patience_s=300)
    ages = []
    for step in (
        lambda: health.beat("judge"),
        lambda: health.note_wait("judge", "stands for election", 60),
        lambda: health.turn("judge"),
    ):
        clock.now += 100
        ages.append(health.turn_ages()["judge"])
        step()
    assert [*ages, health.turn_ages()["judge"]] == [0, 100, 40, 0]


def test_prometheus_reads_the_age_of_each_roles_turn(clock: ManualClock) -> None:
    health = ServiceHealth()
    health.turn("judge")
    health.turn("query")
    clock.now += 90
    health.beat("query")
    with (
        HttpServer("127.0.0.1", 0, Metrics(), health) as server,
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer,
    ):
        ages = [line.split()[1:] for line in answer if line.startswith(b"simstream_turn_age_seconds")]
    assert ages == [[b"90.0"], [b"0.0"]]


def _name(node: ast.AST) -> str:
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _reasons(tree: ast.AST) -> Iterator[str]:
    """The words, up to the first value, of each reason in a role: what it tells health, or assigns to `why`."""
    for node in ast.walk(tree):
        found: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found = list(node.args) if node.func.attr in ("note_wait", "turn") else []
        elif isinstance(node, ast.Assign) and _name(node.targets[0]).lstrip("_") == "why":
            found = [node.value]
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            found = list(node.value.elts)
        for each in found:
            parts = [each.body, each.orelse] if isinstance(each, ast.IfExp) else [each]
            for part in parts:
                text = part.values[0] if isinstance(part, ast.JoinedStr) else part
                if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value:
                    yield text.value.strip(" ,")


def test_the_runbook_has_a_row_for_each_reason_of_a_role() -> None:
    root = Path(module.__file__).parents[1] / "roles"
    reasons = {reason for file in root.rglob("*.py") for reason in _reasons(ast.parse(file.read_text("utf-8")))}
    assert {"stands for election", "the log does not answer", "replaying", "follows"} <= reasons
    runbook = Path(__file__).parents[2].joinpath("docs/operate/runbook.md").read_text("utf-8")
    table = runbook.partition("| it says |")[2].partition("\n\n")[0]
    for reason in reasons | {module.STARTING, "waits for an answer", "has a gap"}:
        assert reason.partition(":")[0] in table, reason
