"""`KafkaLog`: the interface of `log/base` over the topics of a Kafka cluster.

Each module says what can go wrong in its part: `appender` (delivery), `page_consumer` (groups and topic ids),
`election` (who should publish), `shard_membership` (who owns which shard), `publisher` (transactions), `reader`
(markers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from simstream.errors import SettingsError
from simstream.kafka_settings import KAFKA
from simstream.log.base import (
    Appender,
    Election,
    Log,
    PageConsumer,
    Publisher,
    Reader,
    ReaderStart,
    ShardMembership,
    TopicDifference,
    TopicInfo,
    TopicReport,
)
from simstream.log.kafka.appender import KafkaAppender
from simstream.log.kafka.claim import last_claim
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.election import KafkaElection
from simstream.log.kafka.groups import fingerprinters, judges, matchers, stranger_among
from simstream.log.kafka.page_consumer import KafkaPageConsumer, group_of, set_group_offsets, usable_commits
from simstream.log.kafka.publisher import KafkaPublisher
from simstream.log.kafka.reader import KafkaReader
from simstream.log.kafka.shard_membership import KafkaShardMembership
from simstream.log.kafka.topics import create_topics, differences, topic_settings
from simstream.log.options import LogOptions
from simstream.log.participants import LogMembers

_PORT = re.compile(r":([^,:\]]*)(?=,|$)")


class KafkaLog(Log):
    """A log on a Kafka cluster."""

    def __init__(self, servers: str, options: LogOptions) -> None:
        """`servers` is `HOST:PORT,...`. Connects at the first request. Raises SettingsError."""
        if not servers:
            raise SettingsError("the address kafka:// names no broker", "give kafka://HOST:PORT")
        if "@" in unquote(servers):  # the error does not show the address: a password may stand before the @
            raise SettingsError(
                "the address names a user", "give kafka://HOST:PORT, and the user in [kafka] of the settings"
            )
        # the client would take any of these, and wait for a broker there
        for server in servers.split(","):
            host = server.rpartition("://")[2].lstrip()  # the client takes a protocol before it
            if host.count(":") > 1 and not host.startswith("["):
                raise SettingsError(
                    f"the address {KAFKA}{servers} has more than one colon in {server}",
                    "write an IPv6 address in brackets: kafka://[::1]:9092",
                )
        for port in _PORT.findall(servers):
            if not (port.isdecimal() and len(port) < 6 and 0 < int(port) < 1 << 16):
                raise SettingsError(
                    f"the address {KAFKA}{servers} has the port {port}", "name a port from 1 to 65535"
                )
        self._cluster = KafkaCluster(servers, options)

    def check(self) -> None:
        """See Log. Makes each kind of client once, to see whether it accepts the settings."""
        self._cluster.check()

    def create_topics(
        self, partitions: int | None = None, shards: int | None = None, verdict_partitions: int | None = None
    ) -> list[TopicReport]:
        return create_topics(self._cluster, partitions, shards, verdict_partitions)

    def differences(self, topics: Sequence[str]) -> dict[str, list[TopicDifference]]:
        return differences(self._cluster, topics)

    def topic(self, topic: str) -> TopicInfo:
        return self._cluster.describe([topic])[topic]

    def low_watermarks(self, topic: str) -> dict[int, int]:
        return self._cluster.offsets(topic, "first")

    def retention_ms(self, topic: str) -> int | None:
        """See Log. Ignores `retention.bytes`. Raises TopicMissing, BrokerUnreachable."""
        found = topic_settings(self._cluster, topic).get("retention.ms", "-1")
        return None if found == "-1" else int(found)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """See Log. The last offsets before the end may be markers, which no reader sees."""
        return self._cluster.offsets(topic, "end")

    def uncommitted(self, topic: str) -> dict[int, int]:
        """See Log. Raises TopicMissing, BrokerUnreachable."""
        return self._cluster.uncommitted(topic)

    def open_appender(self, topic: str) -> Appender:
        """See Log. Raises TopicMissing, BrokerUnreachable."""
        return KafkaAppender(self._cluster, topic)

    def open_reader(self, topic: str, start: ReaderStart = 0) -> Reader:
        """See Log. Raises TopicMissing, BrokerUnreachable."""
        return KafkaReader(self._cluster, topic, start)

    def open_consumer(self, linger_ms: int = 0) -> PageConsumer:
        """See Log. Raises TopicMissing, BrokerUnreachable."""
        return KafkaPageConsumer(self._cluster, linger_ms)

    def open_publisher(self) -> Publisher:
        return KafkaPublisher(self._cluster)

    def join_election(self) -> Election:
        return KafkaElection(self._cluster)

    def join_matchers(self, instance: str | None, copy: int) -> ShardMembership:
        """See Log. Each copy has a group of its own. Raises SettingsError."""
        return KafkaShardMembership(self._cluster, instance, copy)

    def source_offsets(self) -> dict[int, int]:
        """See Log. Raises TopicMissing, BrokerUnreachable."""
        return usable_commits(self._cluster)

    def running(self) -> LogMembers:
        """See Log. Raises BrokerUnreachable."""
        standing = judges(self._cluster)
        return LogMembers(
            fingerprinters(self._cluster, group_of(self._cluster)),
            standing,
            last_claim(self._cluster),
            matchers(self._cluster) if self.shards() else (),
            stranger_among(standing),
        )

    def set_group_offsets(self, offsets: Mapping[int, int | None]) -> None:
        """See Log. Raises LogLocked while the group has members."""
        set_group_offsets(self._cluster, offsets)

    def close(self) -> None:
        """See Closing. Readers, appenders and publishers must be closed by their owners."""
        self._cluster.close()
