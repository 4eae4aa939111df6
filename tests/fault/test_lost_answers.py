"""Answers that are damaged or lost: the judge waits and says so, no verdict is wrong, and a new start heals it."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from simstream.judge.policy import Policy
from simstream.log.base import MATCHES, VERDICTS, Log
from simstream.roles.match.answer_writer import AnswerWriter
from tests.e2e import eventful_pages
from tests.e2e.harness import Program, Service, by_ordinal, naive_verdicts, watching
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
    assert program.place is not None
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
        for role, said in (("judge", "ends at offset 0"), ("match", "remove the folder")):
            with program.serve("--roles", role, "--state", "old") as refused:
                assert refused.wait() == 1
                assert said in refused.output.splitlines()[-1]
        with program.serve("--state", "new") as service, ExitStack() as stack:
            service.until(lambda: "waits for the answer of shard 0, 1, 2" in health(service), "it names the shards")
            assert "replaying" in health(service)
            stack.enter_context(program.serve("--roles", "match", "--state", "new"))
            service.ready()
            eventful_pages.append(log, eventful_pages.make(PAGES, 2))
            watcher.wait(2 * PAGES, service)
            assert service.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)
