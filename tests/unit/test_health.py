"""Health: live while loops turn, ready while every role says so and still turns."""

from __future__ import annotations

import pytest

from simstream.telemetry import health as module
from simstream.telemetry.health import ServiceHealth
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
