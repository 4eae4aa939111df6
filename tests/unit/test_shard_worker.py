"""The threads of a matcher's shards, over a local log: how they load states, and where they begin to answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from simstream.judge.policy import Policy
from simstream.log import open_log
from simstream.log.base import FINGERPRINTS, MATCHES, VERDICTS, Log
from simstream.roles.context import RoleContext
from simstream.roles.judge.snapshots import SnapshotKeeper
from simstream.roles.match.role import MatchRole
from simstream.settings import Settings
from simstream.wire.position import Position
from tests.e2e.harness import read_topic
from tests.unit.test_judge_role import PATIENCE_S, append_frames, judging, policy, until

SHARDS = 4
FRAMES = 40
__all__ = ["policy"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log with shards."""
    with open_log(str(tmp_path / "log")) as opened:
        opened.create_topics(1, SHARDS)
        yield opened


@contextmanager
def matching(log: Log, policy: Policy, state: Path) -> Iterator[RoleContext]:
    """A matcher in a thread, which must end well."""
    context = RoleContext(Settings(state=str(state), snapshot_every="100ms"))
    errors: list[BaseException] = []

    def run() -> None:
        try:
            MatchRole(log, policy, context).run()
        except BaseException as error:  # noqa: BLE001  # the test raises it
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: bool(errors) or context.health.ready()[0], "it is ready")
        yield context
    finally:
        context.stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert not errors, errors


def judge_all(log: Log, policy: Policy, state: Path) -> None:
    """Let a judge and a matcher with a folder for its states judge the log."""
    with matching(log, policy, state), judging(log, policy):
        for end in (FRAMES // 2, FRAMES):
            append_frames(log, policy, end - FRAMES // 2, end)
            until(lambda count=end: sum(log.end_offsets(VERDICTS).values()) == count, "all is judged")  # type: ignore[misc]


def test_the_states_of_shards_are_loaded_one_after_the_other(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_all(log, policy, tmp_path / "state")
    load, loading, loaded = SnapshotKeeper.load, threading.Semaphore(), []

    def alone(self: SnapshotKeeper, published: Position | None, log_begins: int) -> bool:
        assert loading.acquire(blocking=False), "two threads load a state at once"
        time.sleep(0.01)
        loaded.append(load(self, published, log_begins))
        loading.release()
        return loaded[-1]

    monkeypatch.setattr(SnapshotKeeper, "load", alone)
    with matching(log, policy, tmp_path / "state"):
        assert len(loaded) == SHARDS


def test_late_answers_of_a_copy_that_is_behind_do_not_hide_how_far_the_shard_has_answered(
    log: Log, policy: Policy, tmp_path: Path
) -> None:
    judge_all(log, policy, tmp_path / "state")
    first = next(record for record in read_topic(log, MATCHES) if record.partition == 0)
    with log.open_appender(MATCHES) as appender:
        for _ in range(100):
            appender.append(first.value, partition=0)
    before = log.end_offsets(MATCHES)[0]
    with matching(log, policy, tmp_path / "state"):
        append_frames(log, policy, FRAMES, FRAMES + 1)
        until(lambda: log.end_offsets(MATCHES)[0] > before, "the shard answers the new frame")
    assert log.end_offsets(FINGERPRINTS)[0] == FRAMES + 1
    assert log.end_offsets(MATCHES)[0] == before + 1, "the shard has answered old frames again"
