"""Tells which publisher started last, without fencing any publisher: each one leaves a claim to publish.

A fenced producer cannot tell a rival from a transaction of its own that outlived its time: the client reports both
alike. So a publisher commits a sign before it fences its predecessor. The sign is the metadata of an offset of the
group `PREFIX.judge-claim`: a random word, the machine and the process. Reading and writing it fences no publisher.
The publisher that wrote there last has taken over. The offset is the time of the claim in ms, and rises with each
claim; earlier versions wrote 0. An earlier claim in the place of a later one is from an older copy of the brokers.

The broker forgets such an offset after `offsets.retention.minutes` (a week). If there is no offset, no publisher
started for that long. Then the committed position alone says whether another judge publishes.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import TopicPartition

from simstream.errors import BrokerUnreachable, TakenOver, WrongLog
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.groups import ask_group
from simstream.log.options import POSITIONS

FIRST_TRY_S = 1.0
"""Seconds that the first request may take before it is sent again."""
SLACK_MS = 60_000
"""A claim counts as older than another one only by so much: clocks differ, and two judges may start at once."""


def claim_group(cluster: KafkaCluster) -> str:
    """Return the name of the group whose offset holds the sign; it has no members."""
    return f"{cluster.options.judged_prefix}.judge-claim"


class PublisherClaim:
    """One publisher's sign; the module's docstring explains it."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._sign = f"{secrets.token_hex(8)} {socket.gethostname()}:{os.getpid()}"
        self._made_ms = 0

    def make(self) -> None:
        """Write the sign: this publisher is now the last that started.

        Takes a few ms. Raises BrokerUnreachable, LogError.
        """

        def claim(consumer: Any, timeout: float) -> None:
            # Ask something first that fails quickly: without permission for the group a commit takes most of a
            # minute.
            [last] = consumer.committed(_where(self._cluster), timeout=min(timeout, FIRST_TRY_S))
            self._made_ms = max(last.offset + 1, int(time.time() * 1000))
            mine = TopicPartition(last.topic, last.partition, self._made_ms, self._sign)
            consumer.commit(offsets=[mine], asynchronous=False)

        ask_group(self._cluster, claim_group(self._cluster), claim)

    def check(self) -> None:
        """Raise TakenOver if another publisher started later; write the sign again if none is left.

        Takes a few ms. Also raises WrongLog if the brokers were restored, BrokerUnreachable, LogError.
        """
        if not self._is_left():
            self.make()

    def look(self, patience: float) -> None:
        """Raise TakenOver if another publisher started later, and WrongLog if the brokers were restored.

        Read-only, and takes a few ms: returns if there is no answer in time. Also raises LogError.
        """
        with suppress(BrokerUnreachable):
            self._is_left(patience)

    def _is_left(self, patience: float | None = None) -> bool:
        """Return whether the broker still has this publisher's sign.

        Raises TakenOver if it has a later one, WrongLog if it has an earlier one.
        """
        found = _last_claim(self._cluster, patience)
        if found.metadata and found.metadata != self._sign:
            is_older = 0 < found.offset < self._made_ms - SLACK_MS
            raise _restored(self._cluster) if is_older else taken_over(self._cluster)
        return bool(found.metadata)


def last_claim(cluster: KafkaCluster) -> str | None:
    """Return the machine and process of the last publisher that started; None if the broker has forgotten it."""
    return (_last_claim(cluster).metadata or "").partition(" ")[2] or None


def _last_claim(cluster: KafkaCluster, patience: float | None = None) -> Any:
    """Return the last claim as an offset with its metadata, which is empty if the broker has forgotten it."""
    [found] = ask_group(
        cluster,
        claim_group(cluster),
        lambda consumer, timeout: consumer.committed(_where(cluster), timeout=timeout),
        patience,
    )
    return found


def _where(cluster: KafkaCluster) -> list[TopicPartition]:
    return [TopicPartition(cluster.name(POSITIONS), 0)]


def taken_over(cluster: KafkaCluster) -> TakenOver:
    """Return the error for a publisher that another publisher has replaced."""
    return TakenOver(
        f"another judge publishes to {cluster.name(POSITIONS)} now",
        "start this one again if you want a standby: it then waits",
    )


def _restored(cluster: KafkaCluster) -> WrongLog:
    """Return the error for a publisher that finds an earlier claim than its own."""
    return WrongLog(
        f"the last claim to publish to {cluster.name(POSITIONS)} is older than this judge's: the brokers were "
        "restored from an older copy",
        "start this judge again: it goes on from a state that fits, or says what it lacks",
    )
