"""Two judges at once: one is elected, the other follows; never a verdict twice, and none is lost on the way."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy.server_process import freeze
from simstream.log.base import Election, Log
from simstream.log.options import FINGERPRINTS
from simstream.wire import frame as frames
from tests.e2e.harness import QUICK_GROUPS, Program, Service, by_ordinal, naive_verdicts, read_topic, watching
from tests.waiting import until

SMALL = {"SIMSTREAM_FRAME_MAX_PAGES": "20"}
TAKEOVER_S = 10.0
"""Seconds that default settings promise from the death of one judge to the verdicts of the other."""
ELECTED = 'simstream_role_elected{role="judge"}'


def standing_by(service: Service) -> None:
    """Wait until it follows another judge."""
    service.until(lambda: "standby: follows, 0 frames behind" in service.get("/health/ready")[1], "it stands by")


def publishing(service: Service) -> None:
    """Wait until it is the elected one."""
    service.until(lambda: service.metric(ELECTED) == 1, "it is elected")


@contextmanager
def frozen(service: Service) -> Iterator[None]:
    """A service that is stopped for a while, and wakes up without knowing it."""
    freeze(service.process.pid)
    try:
        yield
    finally:
        os.kill(service.process.pid, signal.SIGCONT)


def held(election: Election) -> None:
    """Wait until this process is the elected one."""
    until(lambda: election.elected, "it is elected")


def pages_in(log: Log) -> int:
    """How many pages the log's frames have."""
    return sum(len(frames.decode(record.value or b"").columns) for record in read_topic(log, FINGERPRINTS))


@pytest.mark.kafka
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "asked to end"])
def test_the_second_follows_and_takes_over_from_the_first(on_kafka: Program, how: signal.Signals) -> None:
    on_kafka.good("topics", "create", "--partitions", 2)
    with (
        on_kafka.place.open() as log,
        watching(log) as watcher,
        on_kafka.serve("--roles", "fingerprint", **SMALL) as fingerprinter,
        on_kafka.serve("--roles", "judge") as first,
    ):
        on_kafka.feed(200, seed=1)
        watcher.wait(100, first)
        with on_kafka.serve("--roles", "judge") as second:
            standing_by(second)
            assert second.metric(ELECTED) == 0
            on_kafka.feed(200, seed=2)
            watcher.wait(400, first)
            judged = first.metric("simstream_log_position")
            second.until(lambda: second.metric("simstream_log_position") == judged, "it has followed")
            assert second.metric('simstream_verdicts_total{verdict="new"}') == 0
            ended = time.monotonic()
            first.process.send_signal(how)
            on_kafka.feed(400, seed=3)
            watcher.wait(401, second)
            assert time.monotonic() - ended < TAKEOVER_S
            watcher.wait(800, second)
            assert first.wait() == (-how if how is signal.SIGKILL else 0)
            assert second.metric(ELECTED) == 1
            assert second.get("/health/ready") == (200, "ready\n")
            assert second.end() == 0
        assert fingerprinter.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


@pytest.mark.kafka
@pytest.mark.parametrize("busy", [True, False], ids=["with verdicts to publish", "with nothing to do"])
@pytest.mark.long
def test_the_first_wakes_up_fenced_and_says_so(on_kafka: Program, busy: bool) -> None:
    on_kafka.good("topics", "create", "--partitions", 2)
    with (
        on_kafka.place.open() as log,
        watching(log) as watcher,
        on_kafka.serve("--roles", "fingerprint", **SMALL | QUICK_GROUPS) as fingerprinter,
        on_kafka.serve("--roles", "judge", **QUICK_GROUPS) as first,
        on_kafka.serve("--roles", "judge", **QUICK_GROUPS) as second,
    ):
        on_kafka.feed(200, seed=1)
        watcher.wait(200, second)
        second, first = sorted([first, second], key=lambda service: service.metric(ELECTED))
        if busy:
            on_kafka.feed(2000, seed=2)
            watcher.wait(210, first)
        with frozen(first):
            publishing(second)
            if busy:
                on_kafka.feed(100, seed=3)
                watcher.wait(2300, second)
        assert first.failed().startswith("simstream: another judge publishes")
        on_kafka.feed(100, seed=4)
        watcher.wait(2400 if busy else 300, second)
        assert second.end() == 0
        assert fingerprinter.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


@pytest.mark.kafka
def test_a_judge_that_lost_the_election_but_was_not_fenced_goes_on(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve(**SMALL | QUICK_GROUPS) as judge:
        on_kafka.feed(100, seed=1)
        watcher.wait(100, judge)
        with log.join_election() as rival:
            with frozen(judge):
                held(rival)
            judge.until(lambda: "did not confirm this judge's place" in judge.output, "it notices")
            judge.until(lambda: judge.metric(ELECTED) == 0, "it says so")
            on_kafka.feed(100, seed=2)
            watcher.wait(200, judge)
        publishing(judge)
        assert judge.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


@pytest.mark.long
def test_a_standby_judges_up_to_the_committed_position_and_never_beyond(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    program.feed(200, seed=1)
    program.judge(200, **SMALL)
    with program.place.open() as log, watching(log) as watcher:
        assert len(watcher.rest()) == 200
        published = log.end_offsets(FINGERPRINTS)[0]
        with log.join_election() as election:
            held(election)
            with program.serve(**SMALL) as second:
                standing_by(second)
                program.feed(200, seed=2)
                second.until(lambda: pages_in(log) >= 400, "the log has more frames")
                assert log.end_offsets(FINGERPRINTS)[0] > published
                assert watcher.look(0.5) == 200
                assert second.metric("simstream_log_position") == published
                told = json.loads(second.get("/health")[1])["roles"]["judge"]
                assert told["state"] == "standby"
                election.close()
                watcher.wait(400, second)
                publishing(second)
                assert second.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)


def test_a_standby_ends_at_once_and_leaves_the_elected_one_alone(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.place.open() as log, watching(log) as watcher, program.serve() as first:
        publishing(first)
        with program.serve("--roles", "judge") as second:
            standing_by(second)
            began = time.monotonic()
            assert second.end() == 0
            assert time.monotonic() - began < 9.5
        program.feed(100, seed=1)
        watcher.wait(100, first)
        assert first.metric(ELECTED) == 1
        assert first.end() == 0


@pytest.mark.kafka
@pytest.mark.long
def test_a_judge_of_another_policy_or_recipe_is_refused_and_the_running_one_goes_on(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve() as running:
        on_kafka.feed(100, seed=1)
        watcher.wait(100, running)
        for *wrong, said in (
            ("--distance", "3", "verdicts were published under policy "),
            ("--recipe", "google2007", "the log began under recipe "),
        ):
            assert on_kafka.refused("--roles", "judge", *wrong).startswith(f"simstream: {said}")
        on_kafka.feed(100, seed=2)
        watcher.wait(200, running)
        assert running.end() == 0
        assert len(by_ordinal(watcher.rest())) == 200


def test_on_a_local_log_the_second_takes_over_from_a_killed_first(on_folder: Program) -> None:
    on_folder.good("topics", "create")
    with (
        on_folder.place.open() as log,
        watching(log) as watcher,
        on_folder.serve("--roles", "fingerprint", **SMALL) as fingerprinter,
        on_folder.serve("--roles", "judge") as first,
    ):
        publishing(first)
        with on_folder.serve("--roles", "judge") as second:
            standing_by(second)
            on_folder.feed(2000, seed=1)
            watcher.wait(100, first)
            first.kill()
            watcher.wait(2000, second)
            assert second.end() == 0
        assert fingerprinter.end() == 0
        assert by_ordinal(watcher.rest()) == naive_verdicts(log)
