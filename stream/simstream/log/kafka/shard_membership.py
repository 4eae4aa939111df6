"""Shares the shards of the index among matchers on Kafka, by the consumer group `PREFIX.matchers` over `matches`.

The member that has a partition owns the shard. Each copy of the index has a group of its own.

A static member says nothing when it closes: the group keeps its shards for it until its session ends. If it comes
back in time, it gets the same shards, and the group does not rebalance.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from simstream.errors import LogError
from simstream.log.base import ShardMembership
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.polled_member import MemberKind, PolledMember
from simstream.log.options import MATCHES

STATIC: Mapping[str, Any] = {"session.timeout.ms": 30_000}
"""The session of a static member: long enough for a restart that loads a snapshot."""
FENCED = "fenced by other consumer with same group.instance.id"
"""What the client says once a member with the same instance has joined. The error itself has no code of its own."""
_logger = logging.getLogger("simstream.match")


class KafkaShardMembership(PolledMember, ShardMembership):
    """See ShardMembership. After a kill the group notices within `session.timeout.ms`."""

    def __init__(self, cluster: KafkaCluster, instance: str | None, copy: int) -> None:
        """Join the matchers of a copy. Raises TopicMissing, BrokerUnreachable, SettingsError."""
        self._instance = instance
        static: Mapping[str, Any] = {} if instance is None else {"group.instance.id": instance}
        super().__init__(
            cluster,
            MemberKind(
                "matcher",
                MATCHES,
                cluster.options.matchers_group(copy),
                "the membership",
                defaults=STATIC if static else {},
                fixed=static,
            ),
        )

    @property
    def owned(self) -> frozenset[int]:
        """See ShardMembership."""
        if self._error is not None:
            raise self._error
        return self._owned

    def _warn_lost(self) -> None:
        _logger.warning(
            "the brokers did not confirm this matcher's place in the group %s in time: others may have its shards",
            self._kind.group,
        )

    def _find_refusal(self, error: KafkaError) -> LogError | None:
        if error.code() == KafkaError._FATAL and FENCED in error.str():
            return LogError(
                f"another matcher of the group {self._kind.group} has the same instance name {self._instance}",
                "give each matcher a name of its own",
            )
        return super()._find_refusal(error)
