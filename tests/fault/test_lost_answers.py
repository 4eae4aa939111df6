"""Answers that are damaged or lost: the judge waits and says so, no verdict is wrong, and a new start heals it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from simstream.errors import WrongLog
from simstream.judge.answer_book import AnswerBook
from simstream.judge.policy import Policy
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, MATCHES, VERDICTS
from simstream.roles.judge.role import check_kept_answers
from simstream.roles.match.answer_writer import AnswerWriter
from simstream.roles.match.answered_frames import answered_frames, shards_without
from tests.e2e import eventful_pages
from tests.e2e.harness import Program, Service, by_ordinal, naive_verdicts, watching
from tests.kafka_fixtures import TopicPlace
from tests.unit.test_answer_book import answer
from tests.unit.test_judge_role import append_frames, judging, policy, until
from tests.unit.test_shard_worker import log, matching

FRAMES = 40
PAGES = 300
__all__ = ["log", "policy"]


def health(service: Service) -> str:
    """What a service says of its readiness."""
    return service.get("/health/ready")[1]


def judged(log: Log) -> int:
    """How many verdicts there are."""
    return sum(log.end_offsets(VERDICTS).values())


def test_a_damaged_answer_holds_verdicts_back_until_its_matcher_starts_again(
    log: Log, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, damaged = AnswerWriter.write, threading.Event()

    def damage_one(self: AnswerWriter, shard: int, answer: bytes) -> None:
        if shard == 1 and judged(log) == FRAMES and not damaged.is_set():
            damaged.set()
            answer = answer[:-1]
        write(self, shard, answer)

    monkeypatch.setattr(AnswerWriter, "write", damage_one)
    state = tmp_path / "state"
    with judging(log, policy) as judge:
        with matching(log, policy, state):
            append_frames(log, policy, 0, FRAMES)
            until(lambda: judged(log) == FRAMES, "the first frames are judged")
            append_frames(log, policy, FRAMES, 2 * FRAMES)
            until(lambda: "waits for the answer of shard 1" in judge.health.ready()[1], "the judge says so")
            read = judge.metrics.registry.get_sample_value
            assert read("simstream_answers_ignored_total", {"reason": "damaged"}) == 1
            assert judged(log) < 2 * FRAMES
        with matching(log, policy, state):
            until(lambda: judged(log) == 2 * FRAMES, "the shard has answered again")


def test_a_topic_of_answers_that_was_lost_is_refused_by_states_and_filled_again_from_empty_folders(
    program: Program,
) -> None:
    program.good("topics", "create", "--partitions", 1, "--shards", 4)
    with program.place.open() as log, watching(log) as watcher:
        eventful_pages.append(log, eventful_pages.make(PAGES))
        with (
            program.serve("--roles", "match", "--state", "old") as matcher,
            program.serve("--state", "old") as service,
        ):
            watcher.wait(PAGES, service)
            assert service.end() == 0
            assert matcher.end() == 0
        program.place.delete(MATCHES)
        program.good("topics", "create", "--shards", 4)
        wanted = {
            "judge": ("has read answers of another topic", "give judges and matchers empty folders"),
            "match": ("remove the folder",),
        }
        for role, said in wanted.items():
            last = program.refused("--roles", role, "--state", "old")
            assert all(part in last for part in said)
        with program.serve("--state", "new") as service, ExitStack() as stack:
            service.until(lambda: "waits for the answer of shard 0, 1, 2" in health(service), "it names the shards")
            assert "replaying" in health(service)
            stack.enter_context(program.serve("--roles", "match", "--state", "new"))
            service.ready()
            eventful_pages.append(log, eventful_pages.make(PAGES, 2))
            watcher.wait(2 * PAGES, service)
            assert service.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


@pytest.mark.kafka
def test_only_an_answer_that_nobody_gives_again_keeps_a_judge_from_starting(
    kafka_place: TopicPlace, caplog: pytest.LogCaptureFixture
) -> None:
    """Shard 1 has answered the frames from 105 on, then those from 97 on; its earlier answers are gone."""
    log = kafka_place.open()
    log.create_topics(1, 2)
    with AnswerWriter(log) as writer, log.open_appender(FINGERPRINTS) as appender:
        for shard, first in ((0, 90), (0, 100), (1, 90), (1, 105), (1, 97)):
            writer.write(shard, answer(shard, first, first + 10))
        appender.append(b"", partition=0)
    kafka_place.expire(MATCHES, 1, partitions=2)
    assert shards_without(log, lambda header: header.policy == "P", [0, 1], 99) == [0]
    assert shards_without(log, lambda header: header.policy == "P", [1], 97) == []
    assert shards_without(log, lambda header: header.policy == "other", [1], 97) == [1]
    book = AnswerBook("L", "P", 2, 4)
    book.begin(0, 0, [0, 0])
    with pytest.raises(WrongLog, match=r"no answer of shard 0, 1 to frame 0 any more: no matcher gives it again"):
        check_kept_answers(log, book, 0, published=1)
    check_kept_answers(log, book, 0, published=0)
    assert "start the matchers again" in caplog.text
    book.begin(101, 0, [0, 0])
    check_kept_answers(log, book, 101, published=120)
    book.begin(101, 0, [1, 4])
    with pytest.raises(WrongLog, match="ends at offset 3 in partition 1, and the state has read up to 4"):
        check_kept_answers(log, book, 101, published=120)


@pytest.mark.kafka
def test_answers_that_expired_before_they_were_read_are_told_by_status_and_given_again_by_a_new_start(
    on_kafka: Program,
) -> None:
    on_kafka.good("topics", "create", "--partitions", 1, "--shards", 2)
    frames = {"SIMSTREAM_FRAME_MAX_PAGES": "20"}
    with on_kafka.place.open() as log, watching(log) as watcher, ExitStack() as stack:
        matcher = stack.enter_context(on_kafka.serve("--roles", "match", "--state", "own"))
        eventful_pages.append(log, eventful_pages.make(PAGES))
        on_kafka.judge(PAGES, "--state", "own", **frames)
        eventful_pages.append(log, eventful_pages.make(PAGES, 2))
        with on_kafka.serve("--roles", "fingerprint", **frames) as service:
            service.until(lambda: log.source_offsets() == log.end_offsets("pages"), "all is fingerprinted")
            frame = log.end_offsets("fingerprints")[0]
            service.until(lambda: {*answered_frames(log, lambda _: True).values()} == {frame}, "all is answered")
            assert service.end() == 0
        on_kafka.place.expire(MATCHES, partitions=2)
        with on_kafka.serve("--roles", "judge", "--state", "own") as judge:
            judge.until(lambda: "waits for the answer of shard 0, 1" in health(judge), "it waits")
            assert "start the matchers again" in judge.output
            told = on_kafka.on_log("status")
            assert told.returncode == 1
            assert "has no answer to frame" in told.stdout.decode()
            assert matcher.end() == 0
            stack.enter_context(on_kafka.serve("--roles", "match", "--state", "own"))
            watcher.wait(2 * PAGES, judge)
            on_kafka.good("status")
            assert judge.end() == 0
        on_kafka.place.expire(MATCHES, partitions=2)
        assert "no state reaches that far" in on_kafka.refused("--roles", "judge", "--state", "new")
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)
