"""Matchers share the shards of the index: on a local log one owns all, on a real broker all have a part."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import pytest

from simstream.errors import LogError, TopicMissing, TopicRecreated
from simstream.log.base import Log, ShardMembership
from simstream.log.kafka.shard_membership import KafkaShardMembership
from simstream.log.options import MATCHES
from tests.contract.helpers import writer
from tests.kafka_fixtures import TopicPlace
from tests.waiting import until

SHARDS = 8
ALL = frozenset(range(SHARDS))


@pytest.fixture
def log(log: Log) -> Log:
    """Both logs by turns, with shards."""
    log.create_topics(shards=SHARDS)
    return log


@pytest.fixture
def kafka_log(kafka_log: Log) -> Log:
    """A log on the broker, with shards."""
    kafka_log.create_topics(shards=SHARDS)
    return kafka_log


def shared(*members: ShardMembership) -> bool:
    """Whether each shard has one owner, and each member about as many shards."""
    parts = [member.owned for member in members]
    return (
        frozenset().union(*parts) == ALL
        and sum(map(len, parts)) == SHARDS
        and min(map(len, parts)) >= SHARDS // len(parts)
    )


def owns_all(member: ShardMembership) -> bool:
    """Whether this member owns all shards."""
    return member.owned == ALL


def test_one_matcher_owns_all_shards_until_it_closes(log: Log) -> None:
    with log.join_matchers(None, 1) as member:
        until(lambda: owns_all(member), "it owns all")
    assert member.owned == frozenset()
    member.close()


def test_a_second_matcher_shares_or_waits_and_gets_all_when_the_first_closes(place: TopicPlace, log: Log) -> None:
    with log.join_matchers(None, 1) as first:
        until(lambda: owns_all(first), "the first owns all")
        with place.open().join_matchers(None, 1) as second:
            if place.is_local:
                assert [second.owned for _ in range(5) if time.sleep(0.05) is None] == [frozenset()] * 5
                assert owns_all(first)
            else:
                until(lambda: shared(first, second), "they share")
            first.close()
            until(lambda: owns_all(second), "the second owns all")


def test_a_killed_matcher_is_replaced(place: TopicPlace, log: Log) -> None:
    with writer(place, "own") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{SHARDS}\n"
        with log.join_matchers(None, 1) as member:
            process.kill()
            until(lambda: owns_all(member), "it owns all")


def test_each_copy_of_the_index_has_its_own_matchers(log: Log) -> None:
    with log.join_matchers("a", 1) as one, log.join_matchers("a", 2) as two:
        until(lambda: owns_all(one) and owns_all(two), "both own all")


def test_the_log_says_which_matcher_owns_what(place: TopicPlace, log: Log) -> None:
    assert log.running().matchers == ()
    with log.join_matchers(None, 1) as one, log.join_matchers(None, 3) as three:
        until(lambda: owns_all(one) and owns_all(three), "both own all")
        until(lambda: all(m.shards for m in log.running().matchers), "the broker knows it")
        found = log.running().matchers
    assert [(member.copy, member.shards) for member in found] == [
        (1, tuple(range(SHARDS))),
        (3, tuple(range(SHARDS))),
    ]
    assert all(("process" if place.is_local else "matcher@") in member.name for member in found)


def test_without_shards_no_matcher_joins_or_runs(place: TopicPlace) -> None:
    with place.open() as log:
        log.create_topics(1)
        assert log.running().matchers == ()
        with pytest.raises(TopicMissing, match=r"matches .*topics create .*--shards"):
            log.join_matchers(None, 1)


class CountingMembership(KafkaShardMembership):
    """Counts the rebalances: the group calls each member, also one that keeps all it has."""

    rebalances = 0

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        self.rebalances += 1
        super()._on_assign(consumer, partitions)


def join(log: Log, instance: str | None) -> CountingMembership:
    """A member of the first copy."""
    return CountingMembership(log._cluster, instance, 1)  # type: ignore[attr-defined]  # a Kafka log has one


def until_quiet(member: CountingMembership) -> None:
    """Wait until a member has heard of no rebalance for ten heartbeats. It may hear of the last one late."""
    heard, since = member.rebalances, time.monotonic()
    while time.monotonic() - since < 1.0:
        time.sleep(0.05)
        if member.rebalances != heard:
            heard, since = member.rebalances, time.monotonic()


@pytest.mark.kafka
@pytest.mark.parametrize("leader", [True, False], ids=["the leader of the group", "another one"])
def test_a_static_member_that_restarts_keeps_its_shards_and_moves_none(
    kafka_place: TopicPlace, kafka_log: Log, leader: bool
) -> None:
    with kafka_place.open(client={"heartbeat.interval.ms": 100}) as log, ExitStack() as stack:
        first = stack.enter_context(join(log, "a"))
        until(lambda: owns_all(first), "the first owns all")
        second = stack.enter_context(join(log, "b"))
        until(lambda: shared(first, second), "they share")
        goes, stays = (first, second) if leader else (second, first)
        until_quiet(stays)
        before, rebalances = (goes.owned, stays.owned), stays.rebalances
        goes.close()
        time.sleep(0.5)  # five heartbeats: one would tell of a rebalance
        back = stack.enter_context(join(log, "a" if leader else "b"))
        until(lambda: bool(back.owned), "it is back")
        assert [member.name for member in log.running().matchers] == ["a", "b"]
        time.sleep(0.5)
        assert (back.owned, stays.owned) == before
        assert stays.rebalances == rebalances
        third = stack.enter_context(join(log, None))
        until(lambda: third.owned and not third.owned & (back.owned | stays.owned), "a third gets a part")


@pytest.mark.kafka
def test_a_new_matcher_counts_as_a_rebalance(kafka_log: Log) -> None:
    with join(kafka_log, "a") as stays:
        until(lambda: owns_all(stays), "it owns all")
        before = stays.rebalances
        with join(kafka_log, "b") as comes:
            until(lambda: shared(stays, comes), "they share")
            assert stays.rebalances > before


@pytest.mark.kafka
def test_a_static_member_that_stays_away_loses_its_shards_after_its_session(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    with kafka_place.open(client={"session.timeout.ms": 6_000}) as short, join(short, "a") as stays:
        goes = join(short, "b")
        until(lambda: shared(stays, goes), "they share")
        goes.close()
        closed_at = time.monotonic()
        until(lambda: owns_all(stays), "it owns all")
        assert time.monotonic() - closed_at > 3


@pytest.mark.kafka
def test_two_matchers_with_one_name_are_an_error_of_the_older(kafka_log: Log) -> None:
    with kafka_log.join_matchers("a", 1) as older:
        until(lambda: owns_all(older), "the older owns all")
        with kafka_log.join_matchers("a", 1) as newer:
            until(lambda: owns_all(newer), "the newer owns all")
            with pytest.raises(LogError, match=r"same instance name a: give each"):
                until(lambda: not older.owned, "the older notices")


@pytest.mark.kafka
def test_a_matcher_that_the_broker_refuses_is_an_error_and_no_waiting(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    with (
        kafka_place.open(client={"session.timeout.ms": 50, "heartbeat.interval.ms": 10}) as log,
        log.join_matchers(None, 1) as member,
        pytest.raises(LogError, match="session"),
    ):
        until(lambda: bool(member.owned), "it is refused")


@pytest.mark.kafka
def test_a_topic_of_answers_that_is_created_again_ends_the_membership_by_name(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    """Else idle matchers would go on, and answer later frames into a topic that lacks the earlier ones."""
    with kafka_log.join_matchers(None, 1) as member:
        until(lambda: owns_all(member), "it owns all")
        kafka_place.delete(MATCHES)
        kafka_place.open().create_topics(shards=SHARDS)
        with pytest.raises((TopicRecreated, TopicMissing)):
            until(lambda: member.owned is None, "it raises")
