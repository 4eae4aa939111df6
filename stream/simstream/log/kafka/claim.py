"""Tells which publisher started last, without fencing any publisher: each one leaves a claim to publish.

A fenced producer cannot tell a rival from a transaction of its own that outlived its time: the client reports both
alike. So a publisher commits a sign before it fences its predecessor. The sign is the metadata of an offset of the
group `PREFIX.judge-claim`: a random word, the machine and the process. Reading and writing it fences no publisher.
The publisher that wrote there last has taken over.

The broker forgets such an offset after `offsets.retention.minutes` (a week). If there is no offset, no publisher
started for that long. Then the committed position alone says whether another judge publishes.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition

from simstream.errors import BrokerUnreachable, TakenOver
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.groups import ask_group
from simstream.log.options import POSITIONS

FIRST_TRY_S = 1.0
"""Seconds that the first request may take before it is sent again."""


def claim_group(cluster: KafkaCluster) -> str:
    """Return the name of the group whose offset holds the sign; it has no members."""
    return f"{cluster.options.judged_prefix}.judge-claim"


class PublisherClaim:
    """One publisher's sign; the module's docstring explains it."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._group = claim_group(cluster)
        self._sign = f"{secrets.token_hex(8)} {socket.gethostname()}:{os.getpid()}"

    def make(self) -> None:
        """Write the sign: this publisher is now the last that started.

        Takes a few ms. Raises BrokerUnreachable, LogError.
        """
        mine = [TopicPartition(self._cluster.name(POSITIONS), 0, 0, self._sign)]

        def claim(consumer: Any, timeout: float) -> None:
            # Ask something first that fails quickly: without permission for the group a commit takes most of a
            # minute.
            consumer.committed(self._where(), timeout=min(timeout, FIRST_TRY_S))
            consumer.commit(offsets=mine, asynchronous=False)

        self._ask(claim)

    def check(self) -> None:
        """Raise TakenOver if another publisher started later; write the sign again if none is left.

        Takes a few ms. Also raises BrokerUnreachable, LogError.
        """
        [found] = self._ask(lambda consumer, timeout: consumer.committed(self._where(), timeout=timeout))
        if not found.metadata:
            self.make()
        elif found.metadata != self._sign:
            raise taken_over(self._cluster)

    def look(self, patience: float) -> None:
        """Raise TakenOver if another publisher started later.

        Read-only, and takes a few ms: returns if there is no answer in time. Also raises LogError.
        """
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
    """Return the machine and process of the last publisher that started; None if the broker has forgotten it."""
    where = [TopicPartition(cluster.name(POSITIONS), 0)]
    [found] = ask_group(
        cluster, claim_group(cluster), lambda consumer, timeout: consumer.committed(where, timeout=timeout)
    )
    return (found.metadata or "").partition(" ")[2] or None


def taken_over(cluster: KafkaCluster) -> TakenOver:
    """Return the error for a publisher that another publisher has replaced."""
    return TakenOver(
        f"another judge publishes to {cluster.name(POSITIONS)} now",
        "start this one again if you want a standby: it then waits",
    )
