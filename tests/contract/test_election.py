"""The election of one judge, on a local log and on a real broker."""

from __future__ import annotations

import time
from typing import Any

import pytest

from simstream.errors import LogError, TakenOver, TopicMissing
from simstream.log.base import Election, Log
from simstream.log.kafka.election import KafkaElection
from tests.contract.helpers import batch, writer
from tests.kafka_fixtures import TopicPlace
from tests.waiting import until


def elected(*elections: Election) -> list[int]:
    """Which of them are elected."""
    return [number for number, election in enumerate(elections) if election.elected]


def test_one_is_elected_and_the_next_when_it_steps_down(log: Log) -> None:
    with log.join_election() as first:
        until(lambda: first.elected, "the first is elected")
        with log.join_election() as second:
            first.close()
            until(lambda: second.elected, "the second is elected")
    with log.join_election() as third:
        until(lambda: third.elected, "one that comes later is elected")


def test_the_elected_judge_stays_when_others_come_and_go(log: Log) -> None:
    with log.join_election() as first:
        until(lambda: first.elected, "the first is elected")
        others = [log.join_election() for _ in range(3)]
        for _ in range(3):
            seen = [elected(first, *others) for _ in range(20) if time.sleep(0.05) is None]
            assert seen == [[0]] * 20
            others.pop().close()
        assert not first.lost


def test_in_another_process_too_and_a_killed_one_is_replaced(place: TopicPlace, log: Log) -> None:
    with writer(place, "stand") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        with log.join_election() as election:
            assert not election.elected
            process.kill()
            until(lambda: election.elected, "the killed one is replaced")


def test_reading_the_committed_position_does_not_fence_a_publisher(place: TopicPlace, log: Log) -> None:
    with log.open_publisher() as publisher, place.open().open_publisher() as other:
        assert other.committed() is None
        assert publisher.start() is None
        assert other.committed() is None
        publisher.publish(batch(1), b"one")
        publisher.check()
        until(lambda: other.committed() == b"one", "the position is seen")
        publisher.publish(batch(2), b"two")
        until(lambda: other.committed() == b"two", "the next position is seen")


def test_without_topics_no_judge_stands_for_election(place: TopicPlace) -> None:
    with place.open() as log, pytest.raises(TopicMissing):
        log.join_election()


@pytest.mark.kafka
def test_the_older_hears_of_a_newer_without_publishing(kafka_log: Log, kafka_place: TopicPlace) -> None:
    with kafka_log.open_publisher() as older, kafka_place.open().open_publisher() as newer:
        older.start()
        older.check()
        newer.start()
        with pytest.raises(TakenOver):
            older.check()
        newer.check()
        newer.publish(batch(1), b"one")


@pytest.mark.kafka
def test_an_election_that_the_broker_refuses_is_an_error_and_no_waiting(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    with (
        kafka_place.open(client={"session.timeout.ms": 50, "heartbeat.interval.ms": 10}) as log,
        log.join_election() as election,
        pytest.raises(LogError, match="session"),
    ):
        until(lambda: election.elected, "it is refused")


class BrokenConsumer:
    """A consumer with a poll that fails unexpectedly."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def poll(self, timeout: float) -> None:
        raise RuntimeError("the client broke")

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.kafka
def test_an_election_with_a_dead_thread_reports_it_and_lets_the_next_win(kafka_log: Log) -> None:
    with kafka_log.join_election() as first, kafka_log.join_election() as second:
        assert isinstance(first, KafkaElection)
        until(lambda: first.elected or second.elected, "one is elected")
        broken, other = (first, second) if first.elected else (second, first)
        assert isinstance(broken, KafkaElection)
        broken._consumer = BrokenConsumer(broken._consumer)
        until(lambda: not broken._thread.is_alive(), "its thread ends")
        until(lambda: other.elected, "the other is elected")
        for asked in ("elected", "lost"):
            with pytest.raises(LogError, match=r"failed \(RuntimeError: the client broke\)"):
                getattr(broken, asked)


@pytest.mark.kafka
def test_a_partition_added_to_the_log_elects_nobody_else(kafka_log: Log) -> None:
    with kafka_log.join_election() as election:
        until(lambda: election.elected, "it is elected")
        election._owned |= {1}  # type: ignore[attr-defined]
        assert election.elected
        election._owned = frozenset({1})  # type: ignore[attr-defined]
        assert not election.elected
        assert election.lost
