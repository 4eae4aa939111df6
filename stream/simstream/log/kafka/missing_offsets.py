"""Waits where a broker says that it has no next offset: a new leader learns late what all replicas have."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import KafkaError

from simstream.errors import BrokerUnreachable, LogError
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.topic_identity import KafkaTopicIdentity

OUT_OF_RANGE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
"""The errors of a message in place of the next offset."""
MAX_LEADER_CHANGE_S = 2.0
"""Seconds for which a partition may end before the next offset."""
MAX_QUESTION_S = 2.0
"""Seconds that a question to a broker may take within a poll."""


class MissingOffsets:
    """The partitions of a topic in which the broker has no next offset. The client reads nothing of them until a
    seek."""

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        same: KafkaTopicIdentity,
        gone: Callable[[int, int, int], LogError],
    ) -> None:
        """`gone` makes the error for a partition, an offset that it no longer has, and its low watermark."""
        self._cluster, self._topic, self._same, self._gone = cluster, topic, same, gone
        self._since: dict[int, float] = {}

    def note(self, partition: int) -> None:
        """Note that the client has stopped in this partition."""
        self._since.setdefault(partition, time.monotonic())

    def forget(self, partition: int) -> None:
        """Forget a partition that is read elsewhere, or that was sought already."""
        self._since.pop(partition, None)

    def look(self, wanted: Mapping[int, int]) -> list[int]:
        """Return the partitions whose leader has the `wanted` offset after all; seek there.

        Waits some MAX_QUESTION_S for each of two answers. Raises LogError for an offset that was removed, or is
        beyond the end for MAX_LEADER_CHANGE_S.
        """
        if not self._since:
            return []
        missing, now = list(self._since), time.monotonic()
        try:
            lows = self._cluster.offsets_of(self._topic, missing, "first", MAX_QUESTION_S)
            ends = self._cluster.offsets_of(self._topic, missing, "open end", MAX_QUESTION_S)
        except BrokerUnreachable:
            self._since = dict.fromkeys(missing, now)  # silence is no answer
            return []
        self._same.check_now()  # a topic that was created again may have other records there
        found = []
        for partition in missing:
            offset = wanted[partition]
            if lows[partition] <= offset <= ends[partition]:
                found.append(partition)
                self.forget(partition)
            elif offset < lows[partition] or now - self._since[partition] >= MAX_LEADER_CHANGE_S:
                raise self._gone(partition, offset, lows[partition])
        return found
