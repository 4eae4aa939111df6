"""Elects a judge on Kafka, by the consumer group `PREFIX.judge` over `fingerprints`, which has one partition.

The member that has the partition is elected. This module reads no records: it pauses the partition at once. A
thread of its own polls the consumer, so that neither a long batch nor a long replay costs the election. The group
says who should publish; the fencing of the publisher alone decides who may.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from simstream.errors import LogError
from simstream.log.base import FINGERPRINTS, Election
from simstream.log.kafka.client_watch import ClientWatch
from simstream.log.kafka.cluster import GROUP, KafkaCluster, logger, make, member_name, note_error

FIXED: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "latest",
    "queued.max.messages.kbytes": 1_024,
}
STEP_S = 0.1
"""Seconds that one poll waits, and that `close` may take to be noticed."""
MAX_LEAVE_S = 10.0
"""Seconds that leaving the group may take; after that the session's end has the same effect."""
REFUSED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INVALID_GROUP_ID,
    }
)
"""Errors that do not go away by waiting."""
_logger = logging.getLogger("simstream.judge")


def group_of(cluster: KafkaCluster) -> str:
    """Return the name of the judges' consumer group."""
    return f"{cluster.options.judged_prefix}.judge"


class KafkaElection(Election):
    """See Election. After a kill the group notices within `session.timeout.ms`, after `close` at once."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Stand for election. Raises TopicMissing, BrokerUnreachable, SettingsError."""
        self._cluster = cluster
        self._name = cluster.describe([FINGERPRINTS])[FINGERPRINTS].name
        self._elected = threading.Event()
        self._was_elected = False
        self._error: LogError | None = None
        self._closing = threading.Event()
        self._consumer = self._stand()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    @property
    def elected(self) -> bool:
        """See Election. Raises LogError if the broker refuses the group, or if polling has ended."""
        if self._error is not None:
            raise self._error
        return self._elected.is_set()

    @property
    def lost(self) -> bool:
        """See Election. Raises LogError if polling has ended: this judge can no longer be elected."""
        if self._error is not None and not self._thread.is_alive():
            raise self._error
        return self._was_elected and not self._elected.is_set()

    def close(self) -> None:
        """See Closing. Leaves the group, so that the next judge is elected at once."""
        self._closing.set()
        self._thread.join(MAX_LEAVE_S)

    def _stand(self) -> Any:
        """Return a new member of the group."""
        self._watch = ClientWatch()
        fixed = {
            **FIXED,
            **self._watch.settings,
            "group.id": group_of(self._cluster),
            "client.id": member_name(self._cluster, "judge"),
            "error_cb": note_error,
        }
        consumer = make(Consumer, self._cluster.config("judge-election", GROUP, fixed))
        consumer.subscribe(
            [self._name], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        return consumer

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                if self._watch.has_lost_brokers:
                    self._consumer.close()
                    self._consumer = self._stand()
                message = self._consumer.poll(STEP_S)
                if message is not None and message.error() is not None:
                    self._on_error(message.error())
        except Exception as error:  # noqa: BLE001  # after any error this judge must not count as elected
            self._error = LogError(
                f"the election in the group {group_of(self._cluster)} failed ({type(error).__name__}: {error})",
                "start this judge again",
            )
        finally:
            self._elected.clear()
            with contextlib.suppress(KafkaException):
                self._consumer.close()

    def _on_error(self, error: KafkaError) -> None:
        """Keep an error that waiting does not mend, and raise it at the next call. An absent broker is not kept."""
        logger.debug("election: %s", error.str())
        if error.fatal() or error.code() in REFUSED:
            group = group_of(self._cluster)
            self._error = self._cluster.make_error(KafkaException(error), FINGERPRINTS, "Read", group)

    def _on_assign(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Note the election if a partition comes. Loads nothing: that would hold up the whole group."""
        where = [TopicPartition(one.topic, one.partition, OFFSET_END) for one in partitions]
        consumer.incremental_assign(where)
        if where:
            consumer.pause(where)
            self._was_elected = True
            self._elected.set()

    def _on_revoke(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Give the partition back in good order: no other member has it yet."""
        if partitions:
            self._elected.clear()
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Note that the group went on without this judge; another may have been elected long ago."""
        if partitions:
            self._elected.clear()
            _logger.warning(
                "the group %s went on without this judge; another may be elected", group_of(self._cluster)
            )
        consumer.incremental_unassign(partitions)
