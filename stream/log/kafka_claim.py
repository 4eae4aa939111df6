"""The claim to publish: which publisher started last, where a fenced one can look without fencing anybody.

A producer that was fenced cannot tell a rival from its own transaction that outlived its time: the client reports
both alike. So a publisher, before it fences its predecessor, commits a sign of its own as the metadata of an
offset of the group `PREFIX.judge-claim`. That fences nobody; whoever wrote there last has taken over.

The broker forgets such an offset after `offsets.retention.minutes` (a week). Without one nobody started for that
long, so only the committed position can say, and says, whether somebody else publishes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from stream.errors import TakenOver
from stream.log.base import POSITIONS
from stream.log.kafka_cluster import AWAY, Cluster

PAUSE = 0.1


class Claim:
    """One publisher's sign; see the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._group = f"{cluster.options.prefix}.judge-claim"
        self._sign = secrets.token_hex(8)

    def make(self) -> None:
        """Be the last who started. A few ms. Raises BrokerUnreachable, LogError."""
        admin = self._cluster.admin()
        self._ask(admin.alter_consumer_group_offsets, self._request(0, self._sign))

    def check(self) -> None:
        """Raise TakenOver where another publisher started later; claim anew where no claim is left.

        A few ms. Raises BrokerUnreachable, LogError, too."""
        found = self._ask(self._cluster.admin().list_consumer_group_offsets, self._request())
        if not found.metadata:
            self.make()
        elif found.metadata != self._sign:
            raise taken_over(self._cluster)

    def _request(self, *offset_and_metadata: Any) -> list[ConsumerGroupTopicPartitions]:
        where = TopicPartition(self._cluster.name(POSITIONS), 0, *offset_and_metadata)
        return [ConsumerGroupTopicPartitions(self._group, [where])]

    def _ask(self, call: Callable[..., Mapping[str, Future[Any]]], request: list[Any]) -> TopicPartition:
        """The broker's answer about the one offset; a group whose coordinator is not up yet is asked again."""
        end = time.monotonic() + self._cluster.options.patience
        while True:
            (future,) = call(request, request_timeout=self._cluster.options.patience).values()
            try:
                answer: TopicPartition = future.result().topic_partitions[0]
                if answer.error is not None:
                    raise KafkaException(answer.error)
                return answer
            except KafkaException as error:
                if error.args[0].code() not in AWAY or time.monotonic() > end:
                    raise self._cluster.named(error, POSITIONS) from None
            time.sleep(PAUSE)


def taken_over(cluster: Cluster) -> TakenOver:
    """The error for a publisher that is no longer the one."""
    return TakenOver(
        f"another judge publishes to {cluster.name(POSITIONS)} now", "one judge is enough; this one has stopped"
    )
