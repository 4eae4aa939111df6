"""The reader of a judge without an index: it returns answered frames, pauses shards, and names the missing ones."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

import pytest

from simstream.errors import TopicUnfit
from simstream.judge.answer_book import AnswerBook
from simstream.log.base import Reader
from simstream.model import Record
from simstream.roles.judge import answered_reader
from simstream.roles.judge.answered_reader import AnsweredReader
from simstream.telemetry.metrics import Metrics
from tests.unit.test_answer_book import SHARDS, answer

SOON_S, PATIENCE_S = 0.01, 120.0


class ListReader(Reader):
    """Returns what was put into it, partition by partition, and notes its pauses."""

    def __init__(self) -> None:
        self.ready: dict[int, deque[Record]] = {}
        self.ends: dict[int, int] = {}
        self.paused: set[int] = set()
        self.can_be_reached = True
        self.closed = False

    def put(self, partition: int, *values: bytes) -> None:
        """Append records to a partition."""
        for value in values:
            offset = self.ends.get(partition, 0)
            self.ready.setdefault(partition, deque()).append(Record("t", partition, offset, None, value, (), 0))
            self.ends[partition] = offset + 1

    def poll(self, limit: int, timeout: float) -> list[Record]:
        """See Reader. Never waits."""
        found: list[Record] = []
        for partition in sorted(self.ready.keys() - self.paused):
            while self.ready[partition] and len(found) < limit:
                found.append(self.ready[partition].popleft())
        return found

    def caught_up(self) -> bool:
        """See Reader."""
        return not any(self.ready.values())

    def passed(self, ends: Mapping[int, int]) -> bool:
        """See Reader."""
        return self.caught_up()

    def pause(self, partitions: Collection[int]) -> None:
        """See Reader."""
        self.paused = set(partitions)

    def answers(self) -> bool:
        """See Reader."""
        return self.can_be_reached

    def close(self) -> None:
        """See Closing."""
        self.closed = True


class Stage:
    """A reader over frames and answers that a test puts there."""

    def __init__(self) -> None:
        self.frames, self.answers, self.metrics = ListReader(), ListReader(), Metrics()
        self.book = AnswerBook("L", "P", SHARDS, 4)
        self.book.begin(0, 0, [0] * SHARDS)
        self.reader = AnsweredReader(self.frames, self.answers, self.book, self.metrics)

    def put_frames(self, count: int) -> None:
        self.frames.put(0, *[b"frame"] * count)

    def answer(self, shard: int, *frames: int) -> None:
        """Let a shard answer from each of these frames to the next."""
        self.answers.put(shard, *[answer(shard, begin, end) for begin, end in pairwise(frames)])

    def poll(self, limit: int = 100) -> list[int]:
        """The frames that come at once."""
        return [record.offset for record in self.reader.poll(limit, SOON_S)]

    def poll_all(self, count: int, limit: int) -> Iterator[list[int]]:
        """The frames that come, poll by poll, until there are `count`. They are used once the next ones are asked
        for."""
        while count > 0:
            frames = [record.offset for record in self.reader.poll(limit, PATIENCE_S)]
            assert frames, f"{count} frames did not come"
            yield frames
            count -= len(frames)
            self.book.used(frames[-1] + 1)

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"simstream_{name}", labels) or 0.0


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_only_frames_that_all_shards_have_answered_are_returned_each_once(stage: Stage) -> None:
    stage.put_frames(5)
    assert stage.poll() == []
    stage.answer(0, 0, 4)
    assert stage.poll() == []
    stage.answer(1, 0, 2, 3)
    assert stage.poll() == [0, 1, 2]
    assert stage.poll() == []
    stage.answer(1, 3, 5)
    assert stage.poll() == [3]
    stage.answer(0, 4, 5)
    assert stage.poll() == [4]
    assert stage.metric("answers_total") == 5


def test_answers_may_come_before_their_frames(stage: Stage) -> None:
    for shard in range(SHARDS):
        stage.answer(shard, 0, 3)
    assert stage.poll() == []
    stage.put_frames(3)
    assert stage.poll() == [0, 1, 2]


def test_a_limit_holds_and_the_rest_comes_later(stage: Stage) -> None:
    stage.put_frames(5)
    for shard in range(SHARDS):
        stage.answer(shard, 0, 5)
    assert [stage.poll(2), stage.poll(2), stage.poll(2), stage.poll(2)] == [[0, 1], [2, 3], [4], []]


def test_it_has_not_caught_up_while_frames_wait_for_answers(stage: Stage) -> None:
    stage.put_frames(1)
    stage.answer(0, 0, 1)
    assert stage.poll() == []
    assert not stage.reader.caught_up()
    assert not stage.reader.passed({0: 1})
    stage.answer(1, 0, 1)
    assert stage.poll() == [0]
    assert stage.reader.caught_up()
    assert stage.reader.passed({0: 1})


def test_it_names_the_shards_that_have_not_answered_for_long(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered_reader, "MEASURE_EVERY_S", 0.0)
    stage.put_frames(3)
    stage.answer(0, 0, 2)
    stage.poll()
    assert stage.reader.held_back() == ""
    monkeypatch.setattr(answered_reader, "SLOW_S", 0.0)
    assert stage.reader.held_back() == "frame 0 waits for the answer of shard 1"
    stage.answer(1, 0, 1)
    stage.answer(0, 2, 3)
    assert stage.poll() == [0]
    assert stage.reader.held_back() == "frame 1 waits for the answer of shard 1"
    assert stage.metric("shard_lag_frames", shard="1") == 2
    assert stage.metric("shard_lag_frames", shard="0") == 0
    stage.answer(1, 1, 3)
    assert stage.poll() == [1, 2]
    assert stage.reader.held_back() == ""


def test_lags_of_shards_are_not_measured_at_each_poll(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered_reader, "MEASURE_EVERY_S", PATIENCE_S)
    stage.put_frames(3)
    assert stage.poll() == []
    stage.answer(0, 0, 2)
    assert stage.poll() == []
    assert stage.metric("shard_lag_frames", shard="0") == 3
    stage.reader._next_measure = 0.0
    assert stage.poll() == []
    assert [stage.metric("shard_lag_frames", shard=shard) for shard in "01"] == [1, 3]


def test_a_shard_far_ahead_is_paused_until_its_answers_are_used(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answered_reader, "MIN_SHARE_BYTES", 1_000)
    monkeypatch.setattr(answered_reader, "MAX_ANSWER_BYTES", 1_000)
    stage.put_frames(20)
    stage.answer(0, *range(21))
    for _ in range(3):
        assert stage.poll() == []
    assert stage.answers.paused == {0}
    stage.answer(1, *range(21))
    taken: list[int] = []
    for frames in stage.poll_all(20, limit=3):
        taken += frames
    assert taken == list(range(20))


def test_the_bytes_of_answers_are_bounded_if_all_shards_are_far_ahead_of_the_judge(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answered_reader, "MIN_SHARE_BYTES", 2_000)
    monkeypatch.setattr(answered_reader, "MAX_ANSWER_BYTES", 2_000)
    monkeypatch.setattr(answered_reader, "ANSWERS_A_POLL", 10)
    count = 200
    stage.put_frames(count)
    for shard in range(SHARDS):
        stage.answer(shard, *range(count + 1))
    taken, size = 0, len(answer(0, 0, 1))
    for frames in stage.poll_all(count, limit=1):
        taken += len(frames)
        read = sum(stage.answers.ends.values()) - sum(map(len, stage.answers.ready.values()))
        assert (read - SHARDS * (taken - 1)) * size <= SHARDS * (2_000 + 10 * size)
    assert taken == count


def test_few_frames_wait_at_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered_reader, "MAX_WAITING_FRAMES", 7)
    stage.put_frames(30)
    for _ in range(5):
        assert stage.poll(3) == []
    assert len(stage.frames.ready[0]) == 30 - 7
    monkeypatch.setattr(answered_reader, "MAX_WAITING_BYTES", 1)
    for shard in range(SHARDS):
        stage.answer(shard, 0, 30)
    taken: list[int] = []
    for frames in stage.poll_all(30, limit=3):
        taken += frames
    assert taken == list(range(30))


def test_what_does_not_count_is_counted_and_named_once_a_shard(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.put_frames(1)
    stage.answers.put(0, b"x", b"y", answer(0, 1, 2), answer(1, 0, 1), answer(0, 0, 1), answer(0, 0, 1))
    stage.answers.put(1, b"z", answer(1, 0, 1, policy="Q"), answer(1, 0, 1))
    with caplog.at_level(logging.WARNING, logger="simstream.judge"):
        assert stage.poll() == [0]
    counted = {
        reason: stage.metric("answers_ignored_total", reason=reason)
        for reason in ("damaged", "gap", "other", "repeated")
    }
    assert counted == {"damaged": 3, "gap": 1, "other": 2, "repeated": 1}
    said = sorted(record.getMessage().partition(";")[0] for record in caplog.records)
    assert said == [
        "answer 0 of shard 0 was ignored: damaged",
        "answer 0 of shard 1 was ignored: damaged",
        "answer 1 of shard 1 was ignored: other",
        "answer 2 of shard 0 was ignored: gap",
        "answer 3 of shard 0 was ignored: other",
    ]


def test_it_answers_only_if_both_topics_do_and_closes_both_readers(stage: Stage) -> None:
    assert stage.reader.answers()
    stage.answers.can_be_reached = False
    assert not stage.reader.answers()
    stage.answers.can_be_reached, stage.frames.can_be_reached = True, False
    assert not stage.reader.answers()
    stage.reader.close()
    assert stage.frames.closed
    assert stage.answers.closed


def test_partitions_that_were_added_to_the_topic_of_answers_end_the_reader_by_name(stage: Stage) -> None:
    stage.answers.put(SHARDS, answer(0, 0, 1))
    with pytest.raises(TopicUnfit, match=f"had {SHARDS} partitions"):
        stage.reader.poll(1, SOON_S)
