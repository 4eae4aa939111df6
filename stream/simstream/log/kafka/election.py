"""Elects a judge on Kafka, by the consumer group `PREFIX.judge` over `fingerprints`, which has one partition.

The member that has this partition is elected, also where an operator has added others. The group says who should
publish; the fencing of the publisher alone decides who may.
"""

from __future__ import annotations

import logging

from simstream.log.base import Election
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.polled_member import MemberKind, PolledMember
from simstream.log.options import FINGERPRINTS

_logger = logging.getLogger("simstream.judge")


def group_of(cluster: KafkaCluster) -> str:
    """Return the name of the judges' consumer group."""
    return f"{cluster.options.judged_prefix}.judge"


class KafkaElection(PolledMember, Election):
    """See Election. After a kill the group notices within `session.timeout.ms`, after `close` at once."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Stand for election. Raises TopicMissing, BrokerUnreachable, SettingsError."""
        self._was_elected = False
        super().__init__(cluster, MemberKind("judge", FINGERPRINTS, group_of(cluster), "the election"))

    @property
    def elected(self) -> bool:
        """See Election. Raises LogError if the broker refuses the group, or if polling has ended."""
        if self._error is not None:
            raise self._error
        return 0 in self._owned

    @property
    def lost(self) -> bool:
        """See Election. Raises LogError if polling has ended: this judge can no longer be elected."""
        if self._error is not None and not self._thread.is_alive():
            raise self._error
        return self._was_elected and 0 not in self._owned

    def _note_gain(self) -> None:
        self._was_elected |= 0 in self._owned

    def _warn_lost(self) -> None:
        _logger.warning(
            "the brokers did not confirm this judge's place in the group %s in time: another may be elected",
            self._kind.group,
        )
