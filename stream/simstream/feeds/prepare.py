"""Creates what Faust needs before it starts: its table's topic, and a first offset for every partition.

A partition without an offset would lose records: while Faust reads its table, it drops records of other topics, and
goes back only to committed offsets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exported undeclared

from simstream.errors import LogLocked
from simstream.log import options_of
from simstream.log.base import VERDICTS
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.groups import ask_group
from simstream.log.kafka.topics import group_state
from simstream.settings import Settings

SESSION_S = 10.0
"""A member of the news page's group that is silent for so long leaves the group."""
PAUSE_S = 0.2
_logger = logging.getLogger("simstream.news")


def cluster_of(settings: Settings) -> KafkaCluster:
    """Return the brokers that the settings name."""
    return KafkaCluster(settings.log.removeprefix("kafka://"), options_of(settings, settings.give_up_s))


def make_table_topic(cluster: KafkaCluster, name: str) -> int:
    """Create the table's compacted topic if it is missing, with as many replicas as `verdicts`. Returns the number.

    Raises LogError if the topic cannot be created.
    """
    known = cluster.ask(lambda left: cluster.admin().list_topics(cluster.name(VERDICTS), left), VERDICTS)
    replicas = len(known.topics[cluster.name(VERDICTS)].partitions[0].replicas)
    new = NewTopic(name, 1, replicas, config={"cleanup.policy": "compact"})
    future = cluster.admin().create_topics([new], request_timeout=cluster.options.patience)[name]
    try:
        cluster.answer(future, cluster.options.patience)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise cluster.make_error(error, VERDICTS, "Create") from None
    return replicas


def wait_alone(cluster: KafkaCluster, group: str, patience: float) -> None:
    """Wait until the group has no members. A killed member counts for SESSION_S.

    Raises LogLocked after `patience` seconds: two processes would each read a part, and show a part of each story.
    """
    end, told = time.monotonic() + patience, False
    while members := group_state(cluster, group).members:
        if time.monotonic() > end:
            hosts = ", ".join(sorted({member.host.lstrip("/") for member in members}))
            raise LogLocked(
                f"another process shows the stories of this log (on {hosts})", "stop that process first"
            )
        if not told:
            told = True
            _logger.info(
                "another process shows the stories of this log, or was killed just now: waiting %.0f s for it",
                patience,
            )
        time.sleep(PAUSE_S)


def begin_everywhere(cluster: KafkaCluster, group: str, topics: Sequence[str]) -> None:
    """Commit the first offset of each partition without an offset. Raises BrokerUnreachable, LogError."""
    for topic in topics:
        firsts = cluster.offsets(topic, "first")
        name = cluster.name(topic)

        def begin(consumer: Any, left: float, name: str = name, firsts: dict[int, int] = firsts) -> None:
            known = consumer.committed([TopicPartition(name, partition) for partition in firsts], timeout=left)
            unknown = [
                TopicPartition(name, one.partition, firsts[one.partition]) for one in known if one.offset < 0
            ]
            if unknown:
                consumer.commit(offsets=unknown, asynchronous=False)

        ask_group(cluster, group, begin)
