"""The topics of a Kafka log: made with the settings that the rules need, compared where they are there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported undeclared
    ConfigResource,
    NewTopic,
    ResourceType,
)

from stream.errors import TopicMissing
from stream.log.base import (
    FINGERPRINTS,
    PAGES,
    POSITIONS,
    TOPICS,
    VERDICTS,
    TopicReport,
    largest_record,
)
from stream.log.kafka_cluster import Cluster

LEAST_REPLICAS = 2
LIMIT = "max.message.bytes"


def wanted_settings(cluster: Cluster, topic: str, brokers: int) -> dict[str, str]:
    """The settings that a topic is made with; those not named are the broker's.

    `fingerprints` is the only source of truth, so nothing of it may be removed or lost; `verdicts` compacted
    would hide a verdict given twice.
    """
    safe = {"min.insync.replicas": str(LEAST_REPLICAS)} if brokers >= 3 and topic != PAGES else {}
    limit = {LIMIT: str(largest_record(topic, cluster.options))}
    if topic == FINGERPRINTS:
        kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        truth = {"message.timestamp.type": "LogAppendTime", "unclean.leader.election.enable": "false"}
        return kept | truth | safe | limit
    if topic == POSITIONS:
        return {"cleanup.policy": "compact"} | safe
    if topic == VERDICTS:
        return {"cleanup.policy": "delete"} | limit | safe
    return limit | safe


def create_topics(cluster: Cluster, partitions: int) -> list[TopicReport]:
    """Make what is missing, compare what is there. Raises BrokerUnreachable."""
    try:
        brokers = len(cluster.admin().list_topics(timeout=cluster.options.patience).brokers)
    except KafkaException as error:
        raise cluster.named(error) from None
    return [_create(cluster, topic, partitions, brokers) for topic in TOPICS]


def topic_settings(cluster: Cluster, topic: str) -> dict[str, str]:
    """The settings of a topic as the broker has them. Raises TopicMissing, BrokerUnreachable."""
    resource = ConfigResource(ResourceType.TOPIC, cluster.name(topic))
    futures = cluster.admin().describe_configs([resource], request_timeout=cluster.options.patience)
    try:
        (found,) = (future.result() for future in futures.values())
    except KafkaException as error:
        raise cluster.named(error, topic) from None
    return {name: str(entry.value) for name, entry in found.items()}


def admitted_bytes(cluster: Cluster, topic: str) -> int:
    """The largest batch that a topic admits, so the bound of a record with all that goes with it."""
    found = topic_settings(cluster, topic).get(LIMIT, "")
    return int(found) if found.isdigit() else largest_record(topic, cluster.options)


def _create(cluster: Cluster, topic: str, partitions: int, brokers: int) -> TopicReport:
    wanted = wanted_settings(cluster, topic, brokers)
    count = partitions if topic in (PAGES, VERDICTS) else 1
    new = NewTopic(cluster.name(topic), count, min(3, brokers), config=wanted)
    futures = cluster.admin().create_topics([new], request_timeout=cluster.options.patience)
    try:
        futures[cluster.name(topic)].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise cluster.named(error, topic) from None
        return TopicReport(cluster.name(topic), False, _compare(cluster, topic, count, wanted))
    _wait_for(cluster, topic)
    return TopicReport(cluster.name(topic), True)


def _compare(cluster: Cluster, topic: str, count: int, wanted: Mapping[str, str]) -> tuple[str, ...]:
    there = cluster.describe([topic])[topic].partitions
    differs = [] if there == count else [f"partitions: {there}, not {count}"]
    found = topic_settings(cluster, topic)
    for name, value in wanted.items():
        if found.get(name) != value and not _is_enough(topic, name, found.get(name, ""), value):
            differs.append(f"{name}: {found.get(name)}, not {value}")
    return tuple(differs)


def _is_enough(topic: str, name: str, found: str, wanted: str) -> bool:
    """More room than asked for is no difference where the service alone fills the topic."""
    return name == LIMIT and topic != PAGES and int(found or 0) >= int(wanted)


def _wait_for(cluster: Cluster, topic: str) -> None:
    """The controller answers before every broker knows the topic."""
    end = time.monotonic() + cluster.options.patience
    while True:
        try:
            cluster.describe([topic])
            return
        except TopicMissing:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def group_state(cluster: Cluster, group: str) -> Any:
    """The members of a consumer group, as the broker describes them."""
    future = cluster.admin().describe_consumer_groups([group], request_timeout=cluster.options.patience)[group]
    try:
        return future.result()
    except KafkaException as error:
        raise cluster.named(error) from None
