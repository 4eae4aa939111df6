"""Joins a consumer group without reading: the member only learns which partitions it owns.

The member pauses its partitions at once. A thread of its own polls the consumer, so that neither a long batch nor a
long replay costs the membership.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from simstream.errors import BrokerUnreachable, LogError
from simstream.log.kafka.access_errors import REFUSED
from simstream.log.kafka.client_end import end_client
from simstream.log.kafka.client_log import logger, note_error
from simstream.log.kafka.client_watch import ClientWatch
from simstream.log.kafka.cluster import GROUP, KafkaCluster, make, member_name
from simstream.log.kafka.topic_identity import KafkaTopicIdentity

FIXED: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "latest",
    "queued.max.messages.kbytes": 1_024,
}
STEP_S = 0.1
"""Seconds that one poll waits, and that `close` may take to be noticed."""
MAX_LEAVE_S = 10.0
"""Seconds that leaving the group may take; after that the session's end has the same effect."""


@dataclass(frozen=True, slots=True)
class MemberKind:
    """What sets one kind of member apart."""

    role: str
    """The process that joins, such as `judge`: a part of the member's name."""
    topic: str
    """The topic whose partitions the group shares."""
    group: str
    purpose: str
    """What the member is in the group for, such as `the election`: a part of errors."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the user may change; they override those of GROUP."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the user may not change, beside FIXED."""


class PolledMember:
    """A membership; `_owned` has its partitions. Subclasses say what a partition means.

    It ends with an error if the topic is deleted or created again: the partitions are others then.
    """

    def __init__(self, cluster: KafkaCluster, kind: MemberKind) -> None:
        """Join the group. Raises TopicMissing, BrokerUnreachable, SettingsError."""
        self._cluster = cluster
        self._kind = kind
        self._same = KafkaTopicIdentity(cluster, [kind.topic])
        self._name = cluster.name(kind.topic)
        self._owned: frozenset[int] = frozenset()
        """Replaced as a whole by the thread that polls; other threads read it."""
        self._error: LogError | None = None
        self._closing = threading.Event()
        self._consumer = self._join()
        self._thread = threading.Thread(target=self._run, name=kind.role, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group at once, except as a static member."""
        self._closing.set()
        self._thread.join(MAX_LEAVE_S)

    def _note_gain(self) -> None:
        """Note that this member has got partitions."""

    def _warn_lost(self) -> None:
        """Warn that this member has lost its place: brokers were away, or the group went on without it."""

    def _find_refusal(self, error: KafkaError) -> LogError | None:
        """Return the error to raise if waiting does not mend this error, else None."""
        if error.fatal() or error.code() in REFUSED:
            return self._cluster.make_error(KafkaException(error), self._kind.topic, "Read", self._kind.group)
        return None

    def _join(self) -> Any:
        """Return a new member of the group."""
        self._watch = ClientWatch()
        fixed = {
            **FIXED,
            **self._kind.fixed,
            **self._watch.settings,
            "group.id": self._kind.group,
            "client.id": member_name(self._cluster, self._kind.role),
            "error_cb": note_error,
        }
        defaults = {**GROUP, **self._kind.defaults}
        consumer = make(Consumer, self._cluster.config(self._kind.role, defaults, fixed))
        consumer.subscribe(
            [self._name], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        return consumer

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                with contextlib.suppress(BrokerUnreachable):  # it stays a member, and asks again
                    self._same.check()
                if self._watch.has_lost_brokers:
                    end_client(self._consumer.close)
                    self._owned = frozenset()
                    self._consumer = self._join()
                message = self._consumer.poll(STEP_S)
                if message is not None and message.error() is not None:
                    self._on_error(message.error())
        except LogError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001  # after any error this member must not count as an owner
            self._error = LogError(
                f"{self._kind.purpose} in the group {self._kind.group} failed ({type(error).__name__}: {error})",
                f"start this {self._kind.role} again",
            )
        finally:
            self._owned = frozenset()
            with contextlib.suppress(KafkaException):
                self._consumer.close()

    def _on_error(self, error: KafkaError) -> None:
        """Keep an error that waiting does not mend, and raise it at the next call. An absent broker is not kept."""
        logger.debug("%s: %s", self._kind.purpose, error.str())
        refusal = self._find_refusal(error)
        if refusal is not None:
            self._error = refusal

    def _on_assign(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Note the partitions that come. Loads nothing: that would hold up the whole group."""
        where = [TopicPartition(one.topic, one.partition, OFFSET_END) for one in partitions]
        consumer.incremental_assign(where)
        if where:
            consumer.pause(where)
        if where and consumer is self._consumer:
            self._owned |= {one.partition for one in where}
            self._note_gain()

    def _on_revoke(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Give partitions back in good order: no other member has them yet."""
        if consumer is self._consumer:  # else it is a client before this one, whose end took long
            self._owned -= {one.partition for one in partitions}
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Note that this member has lost its partitions; others may have them."""
        if partitions and consumer is self._consumer:
            self._owned -= {one.partition for one in partitions}
            self._warn_lost()
        consumer.incremental_unassign(partitions)
