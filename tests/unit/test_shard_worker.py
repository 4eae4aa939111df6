"""The threads of a matcher's shards, over a local log: how they load states, and where they begin to answer."""

from __future__ import annotations

import gc
import re
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from simstream.errors import DeliveryFailed, StateFull
from simstream.files.snapshot_writing import PreparedSnapshot
from simstream.index.shard import Shard
from simstream.judge.expiry import Beat
from simstream.judge.policy import Policy
from simstream.judge.seen_keys import SeenKeys
from simstream.judge.state import ShardState
from simstream.log import open_log
from simstream.log.base import Appender, Log
from simstream.log.local.log import LocalLog, LocalShardMembership
from simstream.log.local.writing import LocalAppender
from simstream.log.options import FINGERPRINTS, MATCHES, VERDICTS
from simstream.model import Record
from simstream.roles.context import RoleContext
from simstream.roles.judge import snapshots
from simstream.roles.judge.log_follower import PublishedPositionCheck
from simstream.roles.judge.role import JudgeRole
from simstream.roles.judge.snapshots import SnapshotKeeper
from simstream.roles.match import role, shard_worker
from simstream.roles.match.answer_writer import AnswerWriter
from simstream.roles.match.role import MatchRole
from simstream.roles.match.shard_worker import MatcherContext, PositionWatch, ShardWorker
from simstream.settings import Settings
from simstream.wire import answer as answers
from simstream.wire import position as positions
from simstream.wire.position import Position
from tests.e2e.harness import environment, read_topic
from tests.kafka_fixtures import TopicPlace
from tests.role_threads import PATIENCE_S, running
from tests.unit.test_judge_role import append_frames, judging, policy, until

SHARDS = 4
FRAMES = 40
MAX_AHEAD = 600
"""No multiple of the frames that a shard reads at once."""
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
    with running(MatchRole(log, policy, context).run, context) as thread:
        until(lambda: not thread.is_alive() or context.health.ready()[0], "it is ready")
        yield context


def judge_all(log: Log, policy: Policy, state: Path) -> None:
    """Let a judge and a matcher with a folder for its states judge the log."""
    judge_on(log, policy, state, FRAMES // 2, FRAMES)


def judge_on(log: Log, policy: Policy, state: Path, *ends: int, time_ms: int = 0) -> None:
    """The same from the end of the log on, in as many steps as there are ends."""
    with matching(log, policy, state), judging(log, policy):
        for end in ends:
            append_frames(log, policy, log.end_offsets(FINGERPRINTS)[0], end, time_ms)
            until(lambda count=end: sum(log.end_offsets(VERDICTS).values()) == count, "all is judged")  # type: ignore[misc]


FIRST_USES = """
import threading, time
import msgspec
from msgspec import _utils
from simstream.files.manifest import ChangingPart, Manifest, ManifestFile
from simstream.roles.match.prepared_types import prepare_types

evaluate = _utils._eval_type

def slow(*given):
    time.sleep(0.002)
    return evaluate(*given)

prepare_types()
_utils._eval_type = slow
file, part = ManifestFile("a", "kind", "a-1.seal", 9, 8, b"12345678"), ChangingPart("b", "kind", {}, ())
data = msgspec.msgpack.encode(Manifest(1, {}, (file,), (part,), ()))
decode = {"target": msgspec.msgpack.decode, "args": (data,), "kwargs": {"type": Manifest}}
threads = [threading.Thread(**decode) for _ in range(30)]
for thread in threads:
    thread.start()
    time.sleep(0.001)
for thread in threads:
    thread.join()
"""
"""Threads that decode a type for the first time, while msgspec prepares its parts slowly."""


def test_threads_of_several_shards_may_decode_a_type_at_once(tmp_path: Path) -> None:
    """Without the preparation the process ends with SIGSEGV. A thread that fails says so on stderr."""
    line = [sys.executable, "-c", FIRST_USES]
    done = subprocess.run(line, env=environment(tmp_path), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_matcher_prepares_the_types_before_its_first_shard(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    run = ShardWorker._run

    def noted(self: ShardWorker) -> None:
        order.append("shard")
        run(self)

    monkeypatch.setattr(role, "prepare_types", lambda: order.append("types"))
    monkeypatch.setattr(ShardWorker, "_run", noted)
    with matching(log, policy, tmp_path / "state"):
        until(lambda: len(order) == 1 + SHARDS, "all shards have begun")
    assert order == ["types"] + ["shard"] * SHARDS


def test_frames_gather_while_a_shard_that_has_answered_waits(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with matching(log, policy, tmp_path / "state"), judging(log, policy):
        for frame in (0, 1):
            append_frames(log, policy, frame, frame + 1)
            until(lambda one=frame: set(log.end_offsets(MATCHES).values()) == {one + 1}, "all answer it")  # type: ignore[misc]
            # not before: the first answer of a process takes longer than this
            monkeypatch.setattr(shard_worker, "ANSWER_GAP_S", 2.0 / SHARDS)
        for frame in (2, 3, 4):
            append_frames(log, policy, frame, frame + 1)
            time.sleep(0.05)  # one poll brings all that was written at once
        until(lambda: sum(log.end_offsets(VERDICTS).values()) == 5, "all is judged")
    assert set(log.end_offsets(MATCHES).values()) == {3}


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


def test_a_matcher_without_a_snapshot_takes_in_what_is_published_and_answers_the_rest(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge_all(log, policy, tmp_path / "state")
    taken: list[int] = []
    take_in = ShardState.take_in

    def noted(self: ShardState, records: Sequence[Record], seen: SeenKeys) -> None:
        taken.append(len(records))
        take_in(self, records, seen)

    monkeypatch.setattr(ShardState, "take_in", noted)
    before = log.end_offsets(MATCHES)
    with matching(log, policy, tmp_path / "state"):
        pass
    assert not taken, "a matcher with a snapshot has taken in frames"
    with matching(log, policy, tmp_path / "empty"):
        until(lambda: sum(taken) == SHARDS * FRAMES, "all shards have all frames")
    assert log.end_offsets(MATCHES) == before, "published frames are answered again"
    taken.clear()
    append_frames(log, policy, FRAMES, FRAMES + 3)
    with matching(log, policy, tmp_path / "another"), judging(log, policy):
        until(lambda: sum(log.end_offsets(VERDICTS).values()) == FRAMES + 3, "the new frames are judged")
    assert sum(taken) <= SHARDS * FRAMES


@pytest.mark.parametrize("filled", [0, 5])
def test_a_topic_of_answers_that_begins_with_later_frames_is_filled_from_the_first(
    log: Log, policy: Policy, tmp_path: Path, filled: int
) -> None:
    """Matchers that ran while it was created again may have answered a frame before they noticed. The matcher that
    began to fill it may have ended behind `filled` answers."""
    judge_all(log, policy, tmp_path / "state")
    by_shard = [[one for one in read_topic(log, MATCHES) if one.partition == shard] for shard in range(SHARDS)]
    TopicPlace(str(tmp_path / "log"), "simstream").delete(MATCHES)
    log.create_topics(1, SHARDS)
    with log.open_appender(MATCHES) as appender:
        for answered in by_shard:
            for one in answered[-5:] + answered[:filled]:
                appender.append(one.value, partition=one.partition)
    with matching(log, policy, tmp_path / "empty"):
        until(lambda: all(end_of(log, shard) == FRAMES for shard in range(SHARDS)), "all frames are answered again")


def test_what_a_matcher_says_of_its_states_has_the_name_of_matchers(
    log: Log, policy: Policy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "simstream")
    with matching(log, policy, tmp_path / "state"):
        pass
    said = [record.name for record in caplog.records if "no state in" in record.getMessage()]
    assert said == ["simstream.match"] * SHARDS


@pytest.mark.parametrize("answered", [FRAMES, FRAMES + 5])
def test_a_state_of_frames_that_the_log_has_lost_answers_none(
    policy: Policy, tmp_path: Path, caplog: pytest.LogCaptureFixture, answered: int
) -> None:
    """The log was restored from an older copy, and other frames took the place of the lost ones. The topic of
    answers may end before the published position."""
    place, half = tmp_path / "log", FRAMES // 2
    with open_log(str(place)) as log:
        log.create_topics(1, SHARDS)
        judge_on(log, policy, tmp_path / "old", half)
    shutil.copytree(tmp_path / "old", tmp_path / "good")
    shutil.copytree(place, tmp_path / "copy")
    with open_log(str(place)) as log:
        judge_on(log, policy, tmp_path / "old", FRAMES - 5)
    shutil.rmtree(place)
    (tmp_path / "copy").rename(place)
    with open_log(str(place)) as log:
        judge_on(log, policy, tmp_path / "good", FRAMES, FRAMES + 5, time_ms=1)
        right = [one for one in read_topic(log, MATCHES) if header_of(one).to_frame <= answered]
        TopicPlace(str(place), "simstream").delete(MATCHES)
        log.create_topics(1, SHARDS)
        with log.open_appender(MATCHES) as appender:
            for one in right:
                appender.append(one.value, partition=one.partition)
        judge_on(log, policy, tmp_path / "old", FRAMES + 8)
    assert "does not belong to this log" in caplog.text
    assert "begins again without it" in caplog.text


@pytest.mark.parametrize("state", ["kept", "empty"])
def test_a_log_that_ends_before_the_published_position_ends_the_matcher(
    log: Log, policy: Policy, tmp_path: Path, state: str
) -> None:
    """The last frames and their answers are lost; other frames would take their places."""
    judge_all(log, policy, tmp_path / "kept")
    lost = Position(log.topic(FINGERPRINTS).id, FRAMES + 1, FRAMES + 1, "0" * 16, policy.id)
    with log.open_publisher() as publisher:
        publisher.start()
        publisher.publish([], positions.encode(lost))
    context = RoleContext(Settings(state=str(tmp_path / state)))
    with (
        pytest.raises(AssertionError, match="the role failed") as caught,
        running(MatchRole(log, policy, context).run, context) as thread,
    ):
        thread.join(PATIENCE_S)
    said = f"the log ends at frame {FRAMES}, but verdicts were published up to frame {FRAMES + 1}"
    assert said in str(caught.value.__cause__)


def test_a_matcher_answers_at_most_max_ahead_frames_past_the_published_position(log: Log, policy: Policy) -> None:
    append_frames(log, policy, 0, MAX_AHEAD + 100)
    context = RoleContext(Settings(max_ahead=MAX_AHEAD))
    with running(MatchRole(log, policy, context).run, context):
        until(lambda: all(end_of(log, shard) >= MAX_AHEAD for shard in range(SHARDS)), "all shards are that far")
    assert {end_of(log, shard) for shard in range(SHARDS)} == {MAX_AHEAD}


def test_a_matcher_that_loses_all_its_shards_keeps_none_of_their_states_but_on_the_disk(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "simstream.match")
    made: list[weakref.ref[ShardState]] = []
    begin = ShardState.__init__

    def noted(self: ShardState, *given: Any, **named: Any) -> None:
        made.append(weakref.ref(self))
        begin(self, *given, **named)

    monkeypatch.setattr(ShardState, "__init__", noted)
    owned: list[frozenset[int]] = [frozenset(range(SHARDS))]
    monkeypatch.setattr(LocalShardMembership, "owned", property(lambda _: owned[0]))
    with matching(log, policy, tmp_path / "state") as context:
        until(lambda: has_loaded(context, SHARDS), "it has all shards")
        owned[0] = frozenset()
        until(lambda: has_loaded(context, 0), "it gave them back")
        owned[0] = frozenset(range(SHARDS))
        until(lambda: has_loaded(context, SHARDS), "it has taken them again")
        gc.collect()
        assert [state() for state in made[:SHARDS]] == [None] * SHARDS
        assert [state() is not None for state in made[SHARDS:]] == [True] * SHARDS
    for shard in range(SHARDS):
        folder = tmp_path / "state" / "shards" / f"{shard}-of-{SHARDS}"
        assert f"gave back shard {shard} of {SHARDS}; its state stays in {folder}" in caplog.messages
        assert folder.is_dir()


def test_a_matcher_whose_disk_takes_no_snapshot_says_so(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_: PreparedSnapshot) -> None:
        raise StateFull("no room to write it", "make room")

    monkeypatch.setattr(snapshots, "RETRY_S", 0.05)
    with monkeypatch.context() as patched, matching(log, policy, tmp_path / "state") as context:
        patched.setattr(PreparedSnapshot, "write", write)
        append_frames(log, policy, 0, 1)
        until(lambda: not context.health.ready()[0], "it is unready")
        assert re.fullmatch(
            rf"match: holds {SHARDS} of {SHARDS} shards; shard \d cannot write a snapshot: no room to write it",
            context.health.ready()[1],
        )
        patched.undo()
        until(lambda: context.health.ready()[0], "it is ready again")


@pytest.mark.parametrize("make", [JudgeRole, MatchRole])
def test_a_role_that_is_asked_to_end_while_it_loads_its_state_ends(
    make: type[JudgeRole | MatchRole], log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, is_over = threading.Event(), threading.Event()

    def load(self: SnapshotKeeper, published: Position | None, log_begins: int, beat: Beat = lambda: None) -> bool:
        """The disk gives a large state, piece by piece."""
        begun.set()
        while not is_over.wait(0.01):
            beat()
        return False

    monkeypatch.setattr(SnapshotKeeper, "load", load)
    context = RoleContext(Settings(state=str(tmp_path / "state")))
    with running(make(log, policy, context).run, context) as thread:
        assert begun.wait(PATIENCE_S)
        context.stop.set()
        thread.join(context.settings.stop_timeout_s / 2)
        ended = not thread.is_alive()
        is_over.set()
    assert ended


def test_a_matcher_is_live_while_a_lost_shard_takes_its_last_snapshot_but_not_for_ever(
    log: Log, policy: Policy
) -> None:
    role, worker, context = role_and_worker(log, policy)
    stuck, give_up = context.settings.stuck_after_s, context.settings.give_up_s
    assert not is_live(role, worker, context, stuck + 1)
    worker.stop()
    assert is_live(role, worker, context, stuck + give_up - 30)
    assert not is_live(role, worker, context, stuck + give_up + 1)


def test_a_matcher_is_live_while_its_shards_wait_for_room_in_the_logs_queue(log: Log, policy: Policy) -> None:
    role, worker, context = role_and_worker(log, policy)
    assert is_live(role, worker, context, context.settings.stuck_after_s + 1, "its queue is full")
    assert context.health.ready() == (False, "match: the log takes no answers: its queue is full")


def test_a_matcher_is_live_while_it_opens_the_topic_of_answers_again(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, proceed = threading.Event(), threading.Event()
    acknowledged, open_appender = LocalAppender.acknowledged, LocalLog.open_appender

    def fail(_: LocalAppender) -> int:
        monkeypatch.setattr(LocalAppender, "acknowledged", acknowledged)
        raise DeliveryFailed("all brokers are away", "mend them")

    def wait(self: LocalLog, topic: str) -> Appender:
        begun.set()
        proceed.wait(PATIENCE_S)
        return open_appender(self, topic)

    with matching(log, policy, tmp_path / "state") as context:
        monkeypatch.setattr(LocalLog, "open_appender", wait)
        monkeypatch.setattr(LocalAppender, "acknowledged", fail)
        try:
            assert begun.wait(PATIENCE_S)
            assert context.health.ready() == (False, "match: the log takes no answers: all brokers are away")
            assert context.health.turn_ages() == {"match": 0.0}  # it may wait
        finally:
            proceed.set()
        until(lambda: context.health.ready()[0], "it is ready again")


def has_loaded(context: RoleContext, shards: int) -> bool:
    """Whether the matcher says that it holds so many shards, and that all are loaded."""
    return context.health.describe_roles()["match"].why == f"holds {shards} of {SHARDS} shards"


def role_and_worker(log: Log, policy: Policy) -> tuple[MatchRole, ShardWorker, RoleContext]:
    """A matcher with one shard, which has its state."""
    context = RoleContext(Settings())
    role, check = MatchRole(log, policy, context), PublishedPositionCheck(log, policy)
    with PositionWatch(log, check) as position, AnswerWriter(log) as writer:
        matcher = MatcherContext(log, check.log_id, policy, position, writer, context)
        worker = role._workers[0] = ShardWorker(matcher, Shard(0, SHARDS))
    worker.loaded = True
    return role, worker, context


def is_live(role: MatchRole, worker: ShardWorker, context: RoleContext, seconds: float, obstacle: str = "") -> bool:
    """Whether the role tells health something although the shard has not turned for so many seconds."""
    context.health.expect("match")
    worker.turned = time.monotonic() - seconds
    role._report_health(SHARDS, obstacle)
    return not context.health.is_starting("match")


def header_of(record: Record) -> answers.AnswerHeader:
    return answers.decode(record.value or b"").header


def end_of(log: Log, shard: int) -> int:
    """The frame behind the answers of a shard that follow each other from the first frame on."""
    end = 0
    for record in read_topic(log, MATCHES):
        header = header_of(record)
        if record.partition == shard and header.frame <= end < header.to_frame:
            end = header.to_frame
    return end
