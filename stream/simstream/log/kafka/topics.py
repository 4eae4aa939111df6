"""Creates the topics of a Kafka log, and compares the settings of existing topics."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported undeclared
    ConfigResource,
    NewTopic,
    ResourceType,
)

from simstream.errors import NotPermitted, TopicMissing
from simstream.log.base import (
    DEAD_LETTER_ROOM_BYTES,
    DEAD_LETTERS,
    FINGERPRINTS,
    PAGES,
    POSITIONS,
    TOPICS,
    VERDICTS,
    TopicDifference,
    TopicReport,
    largest_record,
)
from simstream.log.kafka.cluster import AWAY, KafkaCluster

DEFAULT_PARTITIONS = 8
MIN_REPLICAS = 2
MIN_VERDICT_BYTES = 1 << 20
"""More bytes than a verdict can have, but for one that merges a hundred thousand clusters."""
LIMIT = "max.message.bytes"
MAX_LIMIT = 2**31 - 1
"""The greatest limit that a broker knows."""
REPLICAS = "min.insync.replicas"
BROKERS_TIME = {"message.timestamp.type": "LogAppendTime"}
"""With the brokers' time they accept every record; else they refuse a writer whose clock is an hour ahead."""
POLICY = "cleanup.policy"
SOON_S = 0.3
"""Seconds that the first question may take before it is asked again; later questions may take longer."""


def wanted_settings(cluster: KafkaCluster, topic: str, brokers: int) -> dict[str, str]:
    """The settings that a topic is made with; those not named are the broker's.

    `fingerprints` is the only source of truth, so nothing of it may be removed or lost; `verdicts` compacted
    would hide a verdict given twice, `dead-letters` compacted a page that failed twice.
    """
    safe = {REPLICAS: str(MIN_REPLICAS)} if brokers >= 3 and topic != PAGES else {}
    limit = {LIMIT: str(largest_record(topic, cluster.options))}
    if topic == FINGERPRINTS:
        kept = {POLICY: "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        truth = {"unclean.leader.election.enable": "false"}
        return kept | BROKERS_TIME | truth | safe | limit
    if topic == POSITIONS:
        return {POLICY: "compact"} | safe
    if topic == PAGES:
        return limit
    return {POLICY: "delete"} | limit | safe


def create_topics(cluster: KafkaCluster, partitions: int | None) -> list[TopicReport]:
    """Make what is missing, compare what is there. Raises BrokerUnreachable.

    `pages` that exist are the user's: only their number of partitions is compared, and only where it is given.
    Without `partitions` new pages get 8. New `verdicts` get as many as `pages` have.
    """
    brokers = _count_brokers(cluster)
    pages = _create(cluster, PAGES, partitions or DEFAULT_PARTITIONS, brokers)
    there = (partitions or DEFAULT_PARTITIONS) if pages.created else cluster.describe([PAGES])[PAGES].partitions
    if not pages.created and partitions not in (None, there):
        pages = pages._replace(differs=(f"partitions: {there}, not {partitions}",))
    reports = [pages]
    for topic in TOPICS[1:]:
        count = there if topic == VERDICTS else 1
        report = _create(cluster, topic, count, brokers)
        if topic == VERDICTS and partitions is not None:
            count = partitions  # both were meant
        reports.append(
            report if report.created else report._replace(differs=_compare(cluster, topic, count, brokers))
        )
    return reports


def differences(cluster: KafkaCluster, topics: Sequence[str]) -> dict[str, list[TopicDifference]]:
    """See `Log.differences`. Counts the brokers once."""
    brokers = _count_brokers(cluster)
    return {topic: _differences(cluster, topic, brokers) for topic in topics}


def _differences(cluster: KafkaCluster, topic: str, brokers: int) -> list[TopicDifference]:
    try:
        found = topic_settings(cluster, topic)
    except NotPermitted:
        found = {}
    there = cluster.describe([topic])[topic].partitions
    alone = topic in (FINGERPRINTS, POSITIONS) and there != 1
    partitions = [TopicDifference("partitions", str(there), "not 1", breaks=True)] if alone else []
    return partitions + (_unfit(cluster, topic, found, brokers) if found else [])


def _count_brokers(cluster: KafkaCluster) -> int:
    """Return the number of brokers. Raises BrokerUnreachable after the log's patience, NotAdmitted.

    `describe_cluster` is not used: an assertion of the client's ends the whole process if a broker that has just
    started does not yet count itself among the brokers.
    """

    began = time.monotonic()

    def ask(patience: float) -> int:
        waited = time.monotonic() - began  # short at first: no admission is checked meanwhile
        try:
            found = cluster.admin().list_topics(cluster.name(PAGES), timeout=min(patience, max(SOON_S, waited)))
        except KafkaException as error:
            if error.args[0].code() in AWAY:
                cluster.check_admission()
                cluster.say_silence(began)
            raise
        if not found.brokers:
            raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE))
        return len(found.brokers)

    return cluster.asked(ask)


def topic_settings(cluster: KafkaCluster, topic: str) -> dict[str, str]:
    """The settings of a topic as the broker has them. Raises TopicMissing, BrokerUnreachable."""
    resource = ConfigResource(ResourceType.TOPIC, cluster.name(topic))

    def ask(patience: float) -> Any:
        [future] = cluster.admin().describe_configs([resource], request_timeout=patience).values()
        return cluster.answer(future, patience)

    found = cluster.asked(ask, topic, operation="DescribeConfigs")
    return {name: str(entry.value) for name, entry in found.items()}


def admitted_bytes(cluster: KafkaCluster, topic: str) -> int:
    """The largest batch that a topic admits, so the bound of a record with all that goes with it."""
    found = topic_settings(cluster, topic).get(LIMIT, "")
    return int(found) if found.isdigit() else largest_record(topic, cluster.options)


def producer_bytes(admitted: int) -> int:
    """Return a producer's own limit for a topic that admits so many bytes; the client has bounds for it."""
    return min(max(admitted, 1000), 1_000_000_000)


def _create(cluster: KafkaCluster, topic: str, count: int, brokers: int) -> TopicReport:
    """Make it if it is not there."""
    wanted = wanted_settings(cluster, topic, brokers)
    if topic == DEAD_LETTERS:  # a page that is refused for its size still has to fit
        wanted[LIMIT] = str(
            min(max(int(wanted[LIMIT]), admitted_bytes(cluster, PAGES) + DEAD_LETTER_ROOM_BYTES), MAX_LIMIT)
        )
    if topic in (VERDICTS, POSITIONS, DEAD_LETTERS):  # an existing topic may have either
        wanted |= BROKERS_TIME
    new = NewTopic(cluster.name(topic), count, min(3, brokers), config=wanted)
    patience = cluster.options.patience
    futures = cluster.admin().create_topics([new], request_timeout=patience)
    try:
        cluster.answer(futures[cluster.name(topic)], patience)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise cluster.named(error, topic, "Create") from None
        return TopicReport(cluster.name(topic), False)
    _wait_for(cluster, topic, brokers)
    return TopicReport(cluster.name(topic), True)


def _compare(cluster: KafkaCluster, topic: str, count: int, brokers: int) -> tuple[str, ...]:
    """Return the settings of an existing topic that do not fit; more room or more replicas than asked for fit."""
    there = cluster.describe([topic])[topic].partitions
    differs = []
    if there != count and topic != DEAD_LETTERS:
        differs.append(TopicDifference("partitions", str(there), f"not {count}"))
    differs += _unfit(cluster, topic, topic_settings(cluster, topic), brokers)
    return tuple(map(str, differs))


def _unfit(cluster: KafkaCluster, topic: str, found: Mapping[str, str], brokers: int) -> list[TopicDifference]:
    """Return those of the settings `found` that do not fit."""
    if topic == PAGES:
        return []  # the user's own
    wanted = wanted_settings(cluster, topic, brokers)
    if topic == VERDICTS:
        wanted[LIMIT] = str(MIN_VERDICT_BYTES)
    if topic == DEAD_LETTERS:
        wanted[LIMIT] = str(admitted_bytes(cluster, PAGES))
    unfit = []
    for name, value in wanted.items():
        there = found.get(name)
        if name in (LIMIT, REPLICAS):
            if int(there or 0) < int(value):
                unfit.append(TopicDifference(name, there, f"less than {value}"))
        elif there != value:
            breaks = name == POLICY and topic in (FINGERPRINTS, VERDICTS) and "compact" in (there or "")
            unfit.append(TopicDifference(name, there, f"not {value}", breaks))
    return unfit


def _wait_for(cluster: KafkaCluster, topic: str, brokers: int) -> None:
    """The controller answers before every broker knows the topic, and any of them may be asked next."""
    end = time.monotonic() + cluster.options.patience
    known = 0
    while known < 3 * brokers:
        try:
            cluster.describe([topic])
            known += 1
        except TopicMissing:
            known = 0
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def group_state(cluster: KafkaCluster, group: str) -> Any:
    """The members of a consumer group, as the broker describes them."""

    def ask(patience: float) -> Any:
        future = cluster.admin().describe_consumer_groups([group], request_timeout=patience)[group]
        return cluster.answer(future, patience)

    return cluster.asked(ask, group=group)
