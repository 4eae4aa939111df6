"""The judge's role over a local log: when it stands for election, and when it steps down."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from simstream.cli.main import invoke
from simstream.errors import SettingsError, WrongLog, WrongRecipe
from simstream.index.index import Index
from simstream.judge.policy import Policy, make_policy
from simstream.log import open_log, options_of
from simstream.log.base import Election, Log, Reader
from simstream.log.command_hints import USUAL_SHARDS
from simstream.log.options import FINGERPRINTS, MATCHES, PAGES, POSITIONS, VERDICTS
from simstream.model import Record
from simstream.roles.context import RoleContext
from simstream.roles.judge.late_share import LATE_PAGES
from simstream.roles.judge.log_follower import MAX_READY_FRAMES, LogFollower, PublishedPositionCheck
from simstream.roles.judge.log_judge import JudgedFrame, LogJudge
from simstream.roles.judge.outbox import VerdictOutbox
from simstream.roles.judge.role import JudgeCandidacy, JudgeRole, open_snapshots
from simstream.roles.judge.snapshots import NoSnapshots, SnapshotKeeper
from simstream.roles.judge.verdict_publisher import VerdictPublisher
from simstream.settings import Settings
from simstream.text.recipe import preset
from simstream.tools.replay.replay import LOOK_EVERY_S, replay
from simstream.wire import frame as frames
from simstream.wire import page_headers
from simstream.wire import position as positions
from simstream.wire.position import Position
from tests.columns import page_columns
from tests.e2e.harness import read_topic
from tests.manual_clock import ManualClock
from tests.role_threads import PATIENCE_S, running
from tests.waiting import until

RECIPE = "0badcafe"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(str(tmp_path / "log")) as opened:
        opened.create_topics(1)
        yield opened


@pytest.fixture
def policy() -> Policy:
    return make_policy(preset("default"), RECIPE)


def append_frames(
    log: Log, policy: Policy, begin: int, end: int, time_ms: int = 0, headers: page_headers.Headers = ()
) -> None:
    """Frames of one page each, which has these headers."""
    source, sketch_words = log.topic(PAGES), policy.sketch_bits // 64
    rng = np.random.default_rng(begin)
    with log.open_appender(FINGERPRINTS) as appender:
        for offset in range(begin, end):
            columns = page_columns(
                [b"page%d" % offset],
                offset=offset,
                identity=rng.integers(1, 1 << 63, (1, 2), np.uint64),
                fingerprint=rng.integers(1, 1 << 63, 1, np.uint64),
                sketch=rng.integers(1, 1 << 63, (1, sketch_words), np.uint64),
                words=100,
                time=time_ms,
            )
            header = frames.FrameHeader(
                policy.recipe_id, source.name, source.id, 0, offset, offset + 1, sketch_words, first=offset == 0
            )
            if headers:
                packed = page_headers.pack({offset: headers}, offset)
                header = msgspec.structs.replace(header, headers=packed)
            appender.append(frames.encode(header, columns), partition=0)


@contextmanager
def judging(log: Log, policy: Policy, state: Path | None = None) -> Iterator[RoleContext]:
    """A judge in a thread, which is asked to end at the end."""
    context = RoleContext(Settings(state=str(state) if state else None))
    with running(JudgeRole(log, policy, context).run, context):
        yield context


def why(context: RoleContext) -> str:
    told = context.health.describe_roles().get("judge")
    return told.why if told else ""


def test_pages_are_looked_up_by_as_many_threads_as_the_setting_says(
    monkeypatch: pytest.MonkeyPatch, log: Log, policy: Policy
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Index, "look_up_by", lambda _, threads: asked.append(threads))
    with judging(log, policy) as context:
        until(lambda: bool(asked), "the judge has its index")
    assert {*asked} == {context.settings.threads}  # a judge that begins anew asks again


@pytest.mark.parametrize(
    ("given", "asked", "topic", "shards"),
    [
        ({"shards": 16}, "shards is 16", "b.matches", 16),
        ({"matches": "answers"}, "matches is answers", "b.answers", USUAL_SHARDS),
        ({"matches": "answers", "shards": 2}, "shards is 2", "b.answers", 2),
    ],
)
def test_a_judge_that_is_told_of_matchers_does_not_start_without_their_topic_and_says_how_to_make_it(
    tmp_path: Path, policy: Policy, given: dict[str, Any], asked: str, topic: str, shards: int
) -> None:
    """Else it would build an index of its own, which one machine may be too small for."""
    settings = Settings(log=str(tmp_path / "log"), publish_to="b", **given)
    with open_log(settings.log, options_of(settings, 1.0)) as log:
        log.create_topics(1)
        judge = JudgeRole(log, policy, RoleContext(settings))
        with pytest.raises(SettingsError) as caught:
            judge._open_book("the log")
        assert caught.value.what == f"{asked}, but there is no topic {topic} in {tmp_path / 'log'}"
        command, _, rest = caught.value.todo.removeprefix("create it with: simstream ").partition(";")
        assert rest.startswith(" or give --shards 0")
        assert invoke(shlex.split(command)) == 0
        assert (log.topic(MATCHES).name, log.shards()) == (topic, shards)
        assert judge._open_book("the log") is not None


@pytest.mark.parametrize("given", [{}, {"matches": "answers", "shards": 0}])
def test_a_judge_that_is_not_told_of_matchers_has_its_own_index(
    log: Log, policy: Policy, given: dict[str, Any]
) -> None:
    assert JudgeRole(log, policy, RoleContext(Settings(**given)))._open_book("the log") is None


def test_a_judge_says_how_many_numbers_its_fullest_table_uses(log: Log, policy: Policy) -> None:
    append_frames(log, policy, 0, 40)
    with judging(log, policy) as context:
        used = partial(context.metrics.registry.get_sample_value, "simstream_numbers_used")
        until(lambda: used() == 40, "each of 40 pages has a row")


def test_a_judge_that_is_far_behind_leaves_the_election_to_one_that_is_close(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 3 * MAX_READY_FRAMES
    append_frames(log, policy, 0, count)
    with judging(log, policy, tmp_path / "close"):
        until(lambda: sum(log.end_offsets(VERDICTS).values()) == count, "all is published")
    step, held = LogFollower._step, threading.Event()

    def slow(self: LogFollower, published: Position | None) -> int:
        """No step further as long as `held` says so, in the judge without a state."""
        if self._context.settings.state is None and not held.wait(0.05):
            return self._behind(published)
        return step(self, published)

    monkeypatch.setattr(LogFollower, "_step", slow)
    append_frames(log, policy, count, count + 1)
    with judging(log, policy) as far:
        until(lambda: f"{count} frames behind" in why(far), "it follows")
        assert log.running().judges == ()
        with judging(log, policy, tmp_path / "close"):
            until(lambda: sum(log.end_offsets(VERDICTS).values()) == count + 1, "the close one publishes")
        held.set()
        append_frames(log, policy, count + 1, count + 2)
        until(lambda: sum(log.end_offsets(VERDICTS).values()) == count + 2, "it catches up and publishes")
    assert [stood.elected for stood in log.running().judges] == []


def test_a_judge_stands_once_it_is_close_and_goes_on_standing(log: Log) -> None:
    context = RoleContext(Settings())
    with JudgeCandidacy(log, context) as candidacy:
        assert not candidacy.is_elected(MAX_READY_FRAMES + 1)
        assert log.running().judges == ()
        assert candidacy.is_elected(MAX_READY_FRAMES)
        assert candidacy.is_elected(MAX_READY_FRAMES + 1)


def test_a_standby_whose_log_leads_to_another_digest_than_the_published_one_stops(log: Log, policy: Policy) -> None:
    append_frames(log, policy, 0, 2)
    other = Position(log.topic(FINGERPRINTS).id, 2, 2, "0" * 16, policy.id)
    with log.open_publisher() as publisher:
        publisher.start()
        publisher.publish([], positions.encode(other))
    context = RoleContext(Settings())
    context.health.expect("judge", 0)
    with LogJudge(policy, context, "judge") as judge, log.open_reader(FINGERPRINTS) as reader:
        check = PublishedPositionCheck(log, policy)
        follower = LogFollower(log, reader, judge, check, NoSnapshots(), context)
        with pytest.raises(WrongLog, match="published is frame 2, ordinal 2 and digest 0000"):
            follower.follow(lambda behind: behind == 0)


class SlowReader:
    """Gives nothing at first, and is at the log's end only afterwards."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._is_asked = reader, False

    def caught_up(self) -> bool:
        return self._is_asked

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        before, self._is_asked = self._is_asked, True
        return self._reader.poll(limit, timeout) if before else []

    def held_back(self) -> str:
        return ""


def test_a_replay_waits_for_a_slow_log_and_ends_at_the_published_position(log: Log, policy: Policy) -> None:
    append_frames(log, policy, 0, 3)
    context = RoleContext(Settings())
    with LogJudge(policy, context, "judge") as judge:
        judge.take(read_topic(log, FINGERPRINTS)[:2])
        published = judge.position(log.topic(FINGERPRINTS).id, judge.place)
    with LogJudge(policy, context, "judge") as judge, log.open_reader(FINGERPRINTS) as reader:
        slow: Any = SlowReader(reader)
        check = PublishedPositionCheck(log, policy)
        LogFollower(log, slow, judge, check, NoSnapshots(), context).replay(published)
        assert judge.next_frame == 2, "what it judges beyond that place would never be published"


def test_frames_that_are_judged_together_have_their_own_verdicts(log: Log, policy: Policy) -> None:
    append_frames(log, policy, 0, 3)
    with LogJudge(policy, RoleContext(Settings()), "judge") as judge:
        judged = judge.take(read_topic(log, FINGERPRINTS))
    assert [[verdict.source.offset for verdict in frame.verdicts] for frame in judged] == [[0], [1], [2]]


def test_another_recipe_behind_a_damaged_first_frame_is_refused(log: Log, policy: Policy) -> None:
    with log.open_appender(FINGERPRINTS) as appender:
        appender.append(b"damaged", partition=0)
    append_frames(log, make_policy(preset("default"), "feedbeef"), 0, 1)
    with LogJudge(policy, RoleContext(Settings()), "judge") as judge, pytest.raises(WrongRecipe, match="feedbeef"):
        judge.take(read_topic(log, FINGERPRINTS))


def test_headers_of_a_page_go_on_to_its_verdict_wherever_its_frame_begins(log: Log, policy: Policy) -> None:
    trace = ("traceparent", b"00-1")
    append_frames(log, policy, 0, 2, headers=(trace,))
    with judging(log, policy):
        until(lambda: sum(log.end_offsets(VERDICTS).values()) == 2, "all is published")
    assert [trace in record.headers for record in read_topic(log, VERDICTS)] == [True, True]


@pytest.mark.parametrize("stops", [False, True], ids=["quiet", "stopped"])
def test_the_position_behind_last_frames_without_verdicts_is_published(
    log: Log, policy: Policy, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    """Once the log is quiet, or by a clean stop, which may come before."""
    judge = VerdictPublisher._judge

    def judged(self: VerdictPublisher, outbox: VerdictOutbox, records: Sequence[Record]) -> None:
        judge(self, outbox, records)
        if stops and records[-1].offset == 1:
            self._context.stop.set()

    monkeypatch.setattr(VerdictPublisher, "_judge", judged)
    append_frames(log, policy, 0, 1)
    with judging(log, policy) as context:
        until(lambda: sum(log.end_offsets(VERDICTS).values()) == 1, "the first frame is judged")
        append_frames(log, policy, 5, 6)
        ignored = context.metrics.frames_ignored.labels("gap")._value
        until(lambda: ignored.get() == 1, "the second frame is ignored")
        if not stops:
            until(lambda: published_frame(log) == 2, "its position is published")
    assert published_frame(log) == 2


def published_frame(log: Log) -> int:
    return positions.decode(read_topic(log, POSITIONS)[-1].value or b"").frame


def test_the_last_snapshot_does_not_hold_the_election_and_is_named_in_health(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may = threading.Event(), threading.Event()

    def slow(self: SnapshotKeeper, frame: int, ordinal: int, published: int) -> None:
        begun.set()
        assert may.wait(PATIENCE_S)

    monkeypatch.setattr(SnapshotKeeper, "finish", slow)
    with judging(log, policy, tmp_path / "state") as context:
        until(lambda: bool(log.running().judges), "it is elected")
        context.stop.set()
        assert begun.wait(PATIENCE_S)
        try:
            next_one: Election
            with log.join_election() as next_one:
                until(lambda: next_one.elected, "the next one is elected meanwhile")
            assert why(context) == "takes a last snapshot"
            assert not context.health.ready()[0]
        finally:
            may.set()


def test_a_replay_waits_for_the_verdicts_of_frames_that_it_judges_at_once(
    log: Log, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_frames(log, policy, 0, 20)
    take = LogJudge.take

    def slow(self: LogJudge, records: Sequence[Record]) -> list[JudgedFrame]:
        """All frames are accepted at once; the replay is asked to end before they have verdicts."""
        judged = take(self, records)
        time.sleep(10 * LOOK_EVERY_S)
        return judged

    monkeypatch.setattr(LogJudge, "take", slow)
    done = replay(log, policy, RoleContext(Settings()), 20, lambda frame: None)
    assert (done.frame, done.ordinal, done.frames) == (20, 20, 20)
    assert sum(log.end_offsets(VERDICTS).values()) == 20


def test_a_gap_is_told_once_it_is_open_for_gap_patience(
    log: Log, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr("simstream.roles.judge.log_judge.time", clock)
    append_frames(log, policy, 0, 1)
    append_frames(log, policy, 5, 6)
    with LogJudge(policy, RoleContext(Settings(gap_patience="1h")), "judge") as judge:
        judge.take(read_topic(log, FINGERPRINTS))
        assert judge.open_gap() is None
        clock.now += 3_599
        assert judge.open_gap() is None
        clock.now += 1
        assert "partition 0 has a gap: the log waits for pages from offset 1 on" in (judge.open_gap() or "")
        append_frames(log, policy, 1, 6)
        judge.take(read_topic(log, FINGERPRINTS)[2:])
        assert judge.open_gap() is None
        append_frames(log, policy, 9, 10)
        judge.take(read_topic(log, FINGERPRINTS)[7:])
        assert judge.open_gap() is None, "another gap has its own time"


def test_a_replay_does_not_count_ignored_frames_again(log: Log, policy: Policy) -> None:
    append_frames(log, policy, 0, 1)
    append_frames(log, policy, 5, 6)
    append_frames(log, policy, 1, 2)
    for counted in (1, 0):
        with judging(log, policy) as context:
            elected = context.metrics.elected.labels("judge")._value
            until(lambda elected=elected: elected.get() == 1, "it publishes")  # type: ignore[misc]
            until(lambda: sum(log.end_offsets(VERDICTS).values()) == 2, "all is published")
        assert context.metrics.frames_ignored.labels("gap")._value.get() == counted


@pytest.mark.parametrize("name", ["judge", "query"])
def test_what_roles_share_logs_under_the_name_of_the_role(
    policy: Policy, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level("INFO", "simstream")
    context = RoleContext(Settings(state=str(tmp_path)))
    with LogJudge(policy, context, name) as judge, open_snapshots(judge, "log", context) as snapshots:
        judge.take([Record(FINGERPRINTS, 0, 0, None, b"damaged")])
        snapshots.load(None, 0)
    assert {record.name for record in caplog.records} == {f"simstream.{name}"}


@pytest.mark.parametrize(("kept", "told"), [(True, []), (False, ["replaying 1 frame of the log"])])
def test_a_restart_says_what_it_replays_only_if_there_is_a_frame(
    log: Log, policy: Policy, tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: bool, told: list[str]
) -> None:
    append_frames(log, policy, 0, 1)
    caplog.set_level("INFO", "simstream.judge")
    for times in (0, 1):
        with judging(log, policy, tmp_path / "state" if kept else None):
            until(lambda: sum(log.end_offsets(VERDICTS).values()) == 1, "all is published")
            until(lambda times=times: "has replayed" in caplog.text or not times, "it goes on")  # type: ignore[misc]
    assert [line for line in caplog.messages if line.startswith("replaying")] == told


def test_late_pages_are_counted_and_asked_about(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    policy = make_policy(preset("default"), RECIPE, window_ms=72 * 3_600_000)
    seconds = 1_795_997_524
    append_frames(log, policy, 0, 1, time_ms=1000 * seconds)
    append_frames(log, policy, 1, 1 + LATE_PAGES, time_ms=seconds)
    with judging(log, policy) as context:
        until(lambda: sum(log.end_offsets(VERDICTS).values()) == 1 + LATE_PAGES, "all is published")
        assert context.metrics.late_pages._value.get() == LATE_PAGES
    [said] = [line for line in caplog.messages if "`time`" in line]
    assert said.startswith("20 of the last 21 pages were older than the window")
