"""The source of pages on Kafka: which client settings simstream sets, and which the user may set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from simstream.log.base import TopicInfo
from simstream.log.kafka import page_consumer as kafka_source
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.page_consumer import MIN_GATHERED_BYTES, KafkaPageConsumer
from simstream.log.kafka.reader import DEFAULTS
from simstream.log.options import LogOptions

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
