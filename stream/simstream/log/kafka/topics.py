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
from simstream.log.base import REPLICATION, TopicDifference, TopicReport
from simstream.log.kafka.cluster import AWAY, GROUP_REQUEST_S, KafkaCluster
from simstream.log.options import (
    DEAD_LETTER_ROOM_BYTES,
    DEAD_LETTERS,
    FINGERPRINTS,
    MATCHES,
    PAGES,
    POSITIONS,
    TABLE,
    TOPICS,
    VERDICTS,
    largest_record,
)

DEFAULT_PARTITIONS = 8
MIN_REPLICAS = 2
"""The replicas in sync without which brokers acknowledge nothing."""
WANTED_REPLICAS = 3
"""The replicas of a new topic, if there are as many brokers."""
MIN_VERDICT_BYTES = 1 << 20
"""More bytes than any verdict has, except one that merges a hundred thousand clusters."""
LIMIT = "max.message.bytes"
MAX_LIMIT = 2**31 - 1
"""The greatest limit that a broker knows."""
REPLICAS = "min.insync.replicas"
BROKERS_TIME = {"message.timestamp.type": "LogAppendTime"}
"""With LogAppendTime brokers accept every record; otherwise they refuse a writer whose clock is an hour ahead."""
POLICY = "cleanup.policy"
TABLE_SEGMENT_BYTES = 50 << 20
"""Brokers compact only whole segments; with their default, a start could have to read a GiB of old entries."""
MAX_FIRST_REQUEST_S = 0.3
"""Seconds that the first request may take before it is sent again; later requests may take longer."""


def wanted_settings(cluster: KafkaCluster, topic: str, brokers: int) -> dict[str, str]:
    """Return the settings that a topic is created with; the broker's defaults hold for all others.

    `fingerprints` is the only source of truth, so no record of it may be removed or lost. The same holds for
    `matches`: a judge without a snapshot needs all answers. Compaction of `verdicts` would hide a verdict that came
    twice; compaction of `dead-letters`, a page that failed twice.
    """
    safe = {REPLICAS: str(MIN_REPLICAS)} if brokers >= WANTED_REPLICAS and topic != PAGES else {}
    limit = {LIMIT: str(largest_record(topic, cluster.options))}
    if topic in (FINGERPRINTS, MATCHES):
        kept = {POLICY: "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        truth = {"unclean.leader.election.enable": "false"}
        return kept | BROKERS_TIME | truth | safe | limit
    if topic == POSITIONS:
        return {POLICY: "compact"} | safe
    if topic == TABLE:
        return {POLICY: "compact", "segment.bytes": str(TABLE_SEGMENT_BYTES)} | safe
    if topic == PAGES:
        return limit
    return {POLICY: "delete"} | limit | safe


def create_topics(
    cluster: KafkaCluster, partitions: int | None, shards: int | None, verdict_partitions: int | None
) -> list[TopicReport]:
    """Create the missing topics, and compare the existing ones. Raises BrokerUnreachable.

    An existing `pages` belongs to the user: only its number of partitions is compared, if `partitions` is given. By
    default a new `pages` gets 8. A new `verdicts` gets `verdict_partitions`, or as many as `pages` has. `matches`
    counts only if `shards` is given. A `pages` with the user's own name is never created: raises TopicMissing.
    """
    brokers = _count_brokers(cluster)
    if cluster.options.pages_topic is None:
        pages = _create(cluster, PAGES, partitions or DEFAULT_PARTITIONS, brokers)
    else:
        pages = TopicReport(cluster.describe([PAGES])[PAGES].name, False)
    there = (partitions or DEFAULT_PARTITIONS) if pages.created else cluster.describe([PAGES])[PAGES].partitions
    if not pages.created and partitions not in (None, there):
        pages = pages._replace(differs=(f"partitions: {there}, not {partitions}",))
    reports = [pages]
    for topic in TOPICS[1:]:
        new = expected = 1
        if topic == VERDICTS:
            new = verdict_partitions or there
            expected = verdict_partitions or partitions or new
        report = _create(cluster, topic, new, brokers)
        reports.append(_add_differences(cluster, topic, report, expected, brokers))
    if shards is not None:
        report = _create(cluster, MATCHES, shards, brokers)
        reports.append(_add_differences(cluster, MATCHES, report, shards, brokers))
    return reports


def create_table(cluster: KafkaCluster) -> None:
    """Create the compacted topic TABLE, with one partition, if it is missing. Raises LogError."""
    _create(cluster, TABLE, 1, _count_brokers(cluster))


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

    It avoids `describe_cluster`: an assertion in the client ends the whole process if a broker has just started and
    does not yet list itself.
    """

    began = time.monotonic()

    def ask(patience: float) -> int:
        waited = time.monotonic() - began  # short at first, as it checks no admission meanwhile
        try:
            found = cluster.admin().list_topics(
                cluster.name(PAGES), timeout=min(patience, max(MAX_FIRST_REQUEST_S, waited))
            )
        except KafkaException as error:
            if error.args[0].code() in AWAY:
                cluster.check_admission()
                cluster.say_silence(began)
            raise
        if not found.brokers:
            raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE))
        return len(found.brokers)

    return cluster.ask(ask)


def topic_settings(cluster: KafkaCluster, topic: str) -> dict[str, str]:
    """Return the settings of a topic as the broker has them. Raises TopicMissing, BrokerUnreachable."""
    resource = ConfigResource(ResourceType.TOPIC, cluster.name(topic))

    def ask(patience: float) -> Any:
        [future] = cluster.admin().describe_configs([resource], request_timeout=patience).values()
        return cluster.answer(future, patience)

    found = cluster.ask(ask, topic, operation="DescribeConfigs")
    return {name: str(entry.value) for name, entry in found.items()}


def admitted_bytes(cluster: KafkaCluster, topic: str) -> int:
    """Return the largest batch in bytes that a topic admits: the limit of a record with its overhead."""
    found = topic_settings(cluster, topic).get(LIMIT, "")
    return int(found) if found.isdigit() else largest_record(topic, cluster.options)


def _page_bytes(cluster: KafkaCluster) -> int:
    """Return the largest batch of `pages` in bytes. On a topic of the user's own, DescribeConfigs may be missing:
    then a page has at most `max_record_bytes`."""
    try:
        return admitted_bytes(cluster, PAGES)
    except NotPermitted:
        if cluster.options.pages_topic is None:
            raise
        return largest_record(PAGES, cluster.options)


def producer_bytes(admitted: int) -> int:
    """Return a producer's own limit for a topic with this limit, within the client's bounds."""
    return min(max(admitted, 1000), 1_000_000_000)


def _create(cluster: KafkaCluster, topic: str, count: int, brokers: int) -> TopicReport:
    """Create the topic if it does not exist."""
    wanted = wanted_settings(cluster, topic, brokers)
    if topic == DEAD_LETTERS:  # a page that is later refused for its size still has to fit
        room = _page_bytes(cluster) + DEAD_LETTER_ROOM_BYTES
        wanted[LIMIT] = str(min(max(int(wanted[LIMIT]), room), MAX_LIMIT))
    if topic in (VERDICTS, POSITIONS, DEAD_LETTERS):  # an existing topic may have either
        wanted |= BROKERS_TIME
    new = NewTopic(cluster.name(topic), count, min(WANTED_REPLICAS, brokers), config=wanted)

    def ask(patience: float) -> bool:
        [future] = cluster.admin().create_topics([new], request_timeout=patience).values()
        try:
            cluster.answer(future, patience)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    created = cluster.ask(ask, topic, operation="Create")
    _wait_for(cluster, topic, brokers)
    return TopicReport(cluster.name(topic), created)


def _add_differences(
    cluster: KafkaCluster, topic: str, report: TopicReport, count: int, brokers: int
) -> TopicReport:
    """Return the report with what differs, if the topic existed."""
    return report if report.created else report._replace(differs=_compare(cluster, topic, count, brokers))


def _compare(cluster: KafkaCluster, topic: str, count: int, brokers: int) -> tuple[str, ...]:
    """Return the settings of an existing topic that do not fit. More room or more replicas than wanted fit."""
    there = cluster.describe([topic])[topic].partitions
    differs = []
    if there != count and topic != DEAD_LETTERS:
        differs.append(TopicDifference("partitions", str(there), f"not {count}"))
    differs += _unfit(cluster, topic, topic_settings(cluster, topic), brokers)
    return tuple(map(str, differs))


def _unfit(cluster: KafkaCluster, topic: str, found: Mapping[str, str], brokers: int) -> list[TopicDifference]:
    """Return the settings in `found` that do not fit."""
    if topic == PAGES:
        return []  # the user's own
    wanted = wanted_settings(cluster, topic, brokers)
    if topic == VERDICTS:
        wanted[LIMIT] = str(MIN_VERDICT_BYTES)
    if topic == DEAD_LETTERS:
        wanted[LIMIT] = str(_page_bytes(cluster))
    unfit = []
    for name, value in wanted.items():
        there = found.get(name)
        if name == REPLICAS:
            replicas, is_less = cluster.replicas(topic), int(there or 0) < int(value)
            # two that must both be in sync are a choice; without this setting, one that is lost may cost records
            if replicas < MIN_REPLICAS or (is_less and replicas < WANTED_REPLICAS):
                unfit.append(TopicDifference(REPLICATION, str(replicas), f"less than {WANTED_REPLICAS}"))
            elif is_less:
                unfit.append(TopicDifference(name, there, f"less than {value}"))
        elif name == LIMIT:
            if int(there or 0) < int(value):
                unfit.append(TopicDifference(name, there, f"less than {value}"))
        elif there != value:
            breaks = name == POLICY and topic in (FINGERPRINTS, MATCHES, VERDICTS) and "compact" in (there or "")
            unfit.append(TopicDifference(name, there, f"not {value}", breaks))
    return unfit


def _wait_for(cluster: KafkaCluster, topic: str, brokers: int) -> None:
    """Wait until every broker knows the topic: the controller answers earlier, and the next request may go to any
    broker."""
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
    """Return the members of a consumer group, as the broker describes them."""

    def ask(patience: float) -> Any:
        future = cluster.admin().describe_consumer_groups([group], request_timeout=GROUP_REQUEST_S)[group]
        return cluster.answer(future, patience)

    return cluster.ask(ask, group=group)
