"""Reads offsets and members of consumer groups without joining a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException

from simstream.log.base import MAX_COPIES
from simstream.log.kafka.access_errors import MISSING
from simstream.log.kafka.client_end import end_client
from simstream.log.kafka.client_log import note_error
from simstream.log.kafka.cluster import AWAY, PAUSE_S, KafkaCluster, make
from simstream.log.kafka.election import group_of as judges_of
from simstream.log.kafka.topics import group_state
from simstream.log.options import POSITIONS
from simstream.log.participants import GroupMember, ShardMember

STEP_S = 5.0
"""Seconds that one request may take before it is sent again."""


def ask_group(
    cluster: KafkaCluster, group: str, call: Callable[[Any, float], Any], patience: float | None = None
) -> Any:
    """Return a group's offsets, which `call` asks of a consumer within the given seconds.

    Asks again while the coordinator is not up. The consumer reads nothing. The admin client is not used: if a
    broker goes away meanwhile, an assertion in these calls was seen to end the whole process. Raises LogError, and
    BrokerUnreachable after `patience` (by default the log's).
    """
    end = time.monotonic() + (cluster.options.patience if patience is None else patience)
    fixed = {"group.id": group, "enable.auto.commit": False, "error_cb": note_error}
    while True:
        consumer = make(Consumer, cluster.config("ask", {}, fixed))  # a silent one may have forgotten all brokers
        try:
            return call(consumer, max(0.5, min(STEP_S, end - time.monotonic())))
        except KafkaException as error:
            if error.args[0].code() not in AWAY:
                raise cluster.make_error(error, POSITIONS, "Read", group) from None
            _raise_refusal(cluster, consumer, group)
        finally:
            end_client(consumer.close)
        if time.monotonic() > end:
            raise cluster.unreachable()
        time.sleep(PAUSE_S)


def _raise_refusal(cluster: KafkaCluster, consumer: Any, group: str) -> None:
    """Raise NotPermitted if the coordinator refused. The client only reports it through a callback, and goes on
    asking."""
    message = consumer.poll(0)
    if message is not None and message.error() is not None and message.error().code() in MISSING:
        raise cluster.make_error(KafkaException(message.error()), POSITIONS, "Read", group)


def judges(cluster: KafkaCluster) -> tuple[GroupMember, ...]:
    """Return the judges that stand for election, the elected one first."""
    members = [
        GroupMember(_name(member), bool(member.assignment.topic_partitions))
        for member in group_state(cluster, judges_of(cluster)).members
    ]
    return tuple(sorted(members, key=lambda member: (not member.elected, member.name)))


def stranger_among(members: Sequence[GroupMember]) -> str | None:
    """Return the elected one of these members of the judges' group if it is no judge, by the name that judges give
    themselves (`member_name`)."""
    return next((one.name for one in members if one.elected and "-judge@" not in one.name), None)


def fingerprinters(cluster: KafkaCluster, group: str) -> tuple[str, ...]:
    """Return the members of the fingerprinters' group."""
    members = group_state(cluster, group).members
    return tuple(sorted(map(_name, members)))


def matchers(cluster: KafkaCluster) -> tuple[ShardMember, ...]:
    """Return the matchers of the first MAX_COPIES copies, with the shards that they own, by copy and name.

    One with an `--instance` is called by it: the broker keeps the id and machine of its first process.
    """
    members = [
        ShardMember(
            member.group_instance_id or _name(member),
            tuple(sorted(one.partition for one in member.assignment.topic_partitions)),
            copy,
        )
        for copy in range(1, MAX_COPIES + 1)
        for member in group_state(cluster, cluster.options.matchers_group(copy)).members
    ]
    return tuple(sorted(members, key=lambda member: (member.copy, member.name)))


def _name(member: Any) -> str:
    """Return what people call a member: its client's id, and its machine."""
    return f"{member.client_id} ({member.host.lstrip('/')})"
