"""The claim to publish: which publisher started last, read without fencing anybody.

A producer that was fenced cannot tell a rival from its own transaction that outlived its time: the client reports
both alike. So a publisher, before it fences its predecessor, commits a sign of its own as the metadata of an
offset of the group `PREFIX.judge-claim`: a random word, and its machine and process for whoever looks there. That
fences nobody; whoever wrote there last has taken over.

The broker forgets such an offset after `offsets.retention.minutes` (a week). Without one nobody started for that
long, so only the committed position can say, and says, whether somebody else publishes.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition

from simstream.errors import BrokerUnreachable, TakenOver
from simstream.log.base import POSITIONS
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.groups import ask_group

FIRST_TRY_S = 1.0
"""Seconds that a first question may take before it is asked again."""


def claim_group(cluster: KafkaCluster) -> str:
    """The group whose offset holds the sign; it has no members."""
    return f"{cluster.options.judged_prefix}.judge-claim"


class PublisherClaim:
    """One publisher's sign; see the module."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._group = claim_group(cluster)
        self._sign = f"{secrets.token_hex(8)} {socket.gethostname()}:{os.getpid()}"

    def make(self) -> None:
        """Be the last who started. A few ms. Raises BrokerUnreachable, LogError."""
        mine = [TopicPartition(self._cluster.name(POSITIONS), 0, 0, self._sign)]

        def claim(consumer: Any, timeout: float) -> None:
            # First something that ends in time: a commit waits most of a minute where the group is forbidden.
            consumer.committed(self._where(), timeout=min(timeout, FIRST_TRY_S))
            consumer.commit(offsets=mine, asynchronous=False)

        self._ask(claim)

    def check(self) -> None:
        """Raise TakenOver where another publisher started later; claim anew where no claim is left.

        A few ms. Raises BrokerUnreachable, LogError, too."""
        [found] = self._ask(lambda consumer, timeout: consumer.committed(self._where(), timeout=timeout))
        if not found.metadata:
            self.make()
        elif found.metadata != self._sign:
            raise taken_over(self._cluster)

    def look(self, patience: float) -> None:
        """Raise TakenOver where another publisher started later. Writes nothing; no answer in time is no news.

        A few ms. Raises LogError, too."""
        try:
            [found] = self._ask(
                lambda consumer, timeout: consumer.committed(self._where(), timeout=timeout), patience
            )
        except BrokerUnreachable:
            return
        if found.metadata and found.metadata != self._sign:
            raise taken_over(self._cluster)

    def _where(self) -> list[TopicPartition]:
        return [TopicPartition(self._cluster.name(POSITIONS), 0)]

    def _ask(self, call: Callable[[Any, float], Any], patience: float | None = None) -> Any:
        return ask_group(self._cluster, self._group, call, patience)


def last_claim(cluster: KafkaCluster) -> str | None:
    """Who claimed last: machine and process; None where nobody did for long."""
    where = [TopicPartition(cluster.name(POSITIONS), 0)]
    [found] = ask_group(
        cluster, claim_group(cluster), lambda consumer, timeout: consumer.committed(where, timeout=timeout)
    )
    return (found.metadata or "").partition(" ")[2] or None


def taken_over(cluster: KafkaCluster) -> TakenOver:
    """The error for a publisher that is no longer the one."""
    return TakenOver(
        f"another judge publishes to {cluster.name(POSITIONS)} now", "one judge is enough; this one has stopped"
    )
