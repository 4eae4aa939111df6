"""The source of pages on Kafka: which client settings simstream sets, and which the user may set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from simstream.errors import BrokerUnreachable
from simstream.log.base import TopicInfo
from simstream.log.kafka import page_consumer as kafka_source
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.page_consumer import COMMIT_AGAIN_S, MIN_GATHERED_BYTES, KafkaPageConsumer
from simstream.log.kafka.reader import DEFAULTS
from simstream.log.options import PAGES, LogOptions
from tests.manual_clock import ManualClock

LINGER_MS = 15


class KnownCluster(KafkaCluster):
    """A cluster that knows its topics without a broker."""

    def describe(self, topics: Sequence[str]) -> dict[str, TopicInfo]:
        return {topic: TopicInfo(topic, "id", 1) for topic in topics}


def fetches(client: Mapping[str, int], monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    """The least bytes and the wait of a fetch, by a source whose user chose these settings."""
    made: list[dict[str, Any]] = []
    make = kafka_source.make

    def noted(kind: Any, config: dict[str, Any]) -> Any:
        made.append(config)
        return make(kind, config)

    monkeypatch.setattr(kafka_source, "make", noted)
    KafkaPageConsumer(KnownCluster("127.0.0.1:1", LogOptions(client=client)), LINGER_MS).close()
    return made[0].get("fetch.min.bytes"), made[0].get("fetch.wait.max.ms")


@pytest.mark.parametrize(
    ("chosen", "used"),
    [
        ({}, (MIN_GATHERED_BYTES, LINGER_MS)),
        ({"fetch.wait.max.ms": 300}, (None, 300)),
        ({"fetch.min.bytes": 7}, (7, DEFAULTS["fetch.wait.max.ms"])),
        ({"fetch.min.bytes": 7, "fetch.wait.max.ms": 300}, (7, 300)),
    ],
)
def test_a_users_own_wait_for_a_fetch_wins_over_the_linger(
    chosen: dict[str, int], used: tuple[object, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetches(chosen, monkeypatch) == used


class RefusedConsumer(Consumer):
    """A client whose commits a broker refuses."""

    commits: list[dict[int, int]]

    def commit(self, *, offsets: Sequence[TopicPartition], **_: object) -> None:
        self.commits.append({where.partition: where.offset for where in offsets})


def test_a_commit_that_was_refused_is_sent_again_until_it_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, commits = ManualClock(), list[dict[int, int]]()
    monkeypatch.setattr(kafka_source, "time", clock)
    monkeypatch.setattr(kafka_source, "Consumer", RefusedConsumer)
    monkeypatch.setattr(RefusedConsumer, "commits", commits, raising=False)
    source = KafkaPageConsumer(KnownCluster("127.0.0.1:1", LogOptions()), LINGER_MS)
    source._next = {0: 9, 1: 9}
    source.commit({0: 7})
    source.poll(1, 0.0)
    assert commits == [{0: 7}]
    clock.now += COMMIT_AGAIN_S / 2
    source.commit({1: 8})
    clock.now += COMMIT_AGAIN_S / 2
    source.poll(1, 0.0)
    source.poll(1, 0.0)
    assert commits == [{0: 7}, {1: 8}, {0: 7, 1: 8}]
    source._on_commit(None, [TopicPartition(PAGES, 0, 7), TopicPartition(PAGES, 1, 8)])
    clock.now += COMMIT_AGAIN_S
    source.poll(1, 0.0)
    assert len(commits) == 3
    source.close()


def test_without_an_answer_the_lag_of_a_paused_partition_is_that_of_the_last_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Sequence[int]] = []

    def silent(_: KafkaCluster, topic: str, partitions: Sequence[int], *rest: object) -> dict[int, int]:
        asked.append(partitions)
        raise BrokerUnreachable("no broker answered", "bring it back")

    monkeypatch.setattr(KafkaCluster, "offsets_of", silent)
    source = KafkaPageConsumer(KnownCluster("127.0.0.1:1", LogOptions()), LINGER_MS)
    source._next = {0: 9}
    assert (source.lag(), asked) == ({0: 0}, [])
    source._paused, source._long_pause_at = {0}, math.inf
    assert (source.lag(), asked) == ({0: 0}, [])
    source._long_pause_at = 0.0
    assert (source.lag(), asked) == ({0: 0}, [[0]])
    source.close()


def test_what_was_read_before_its_partition_moved_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one poll, partition 0 went and came back, and partition 2 went."""
    source = KafkaPageConsumer(KnownCluster("127.0.0.1:1", LogOptions()), LINGER_MS)
    sought: list[tuple[int, int]] = []
    monkeypatch.setattr(source, "_seek", lambda *place: sought.append(place))
    source._next, source._moved = {0: 30, 1: 7}, {0, 2}
    messages = [
        Message(topic="t", partition=partition, offset=offset, value=b"x", timestamp=(1, 5))
        for partition, offset in ((0, 50), (1, 7), (2, 3))
    ]
    assert [(record.partition, record.offset) for record in source._records(messages)] == [(1, 7)]
    assert source._next == {0: 30, 1: 8}
    assert sought == [(0, 30)]
    source.close()


def test_a_partition_that_went_is_committed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = list[dict[int, int]]()
    monkeypatch.setattr(kafka_source, "Consumer", RefusedConsumer)
    monkeypatch.setattr(RefusedConsumer, "commits", commits, raising=False)
    source = KafkaPageConsumer(KnownCluster("127.0.0.1:1", LogOptions()), LINGER_MS)
    source._next = {0: 9, 1: 9}
    source.commit({0: 7, 1: 8})
    source._forget([0])
    source.close()
    assert commits == [{0: 7, 1: 8}, {1: 8}]


def test_the_confirmation_of_an_earlier_commit_confirms_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = list[dict[int, int]]()
    monkeypatch.setattr(kafka_source, "Consumer", RefusedConsumer)
    monkeypatch.setattr(RefusedConsumer, "commits", commits, raising=False)
    source = KafkaPageConsumer(KnownCluster("127.0.0.1:1", LogOptions()), LINGER_MS)
    source._next = {0: 9}
    source.commit({0: 7})
    source.commit({0: 8})
    source._on_commit(None, [TopicPartition(PAGES, 0, 7)])
    source.close()
    assert commits[2:] == [{0: 8}]
