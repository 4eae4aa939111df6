"""What all Kafka clients of one log share: settings, the admin client, names, ids, offsets, errors by our names."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # exported undeclared

from stream.errors import BrokerUnreachable, LogError, SettingsError, TopicMissing, TopicRecreated
from stream.log.base import LogOptions, TopicInfo

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())  # without one, the client's warnings would reach stderr

CHECK_EVERY = 3.0
"""Seconds between two looks at whether the topics are still the same."""
COMMON: Mapping[str, Any] = {
    "allow.auto.create.topics": False,
    "topic.metadata.refresh.interval.ms": 10_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": True,
}
AWAY = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""Errors that only say that no broker, or not the right one, answered."""


class Cluster:
    """One Kafka cluster as one log sees it. Connects when something is asked for; safe between threads."""

    def __init__(self, servers: str, options: LogOptions) -> None:
        self.servers = servers
        self.options = options
        self._admin: AdminClient | None = None
        self._lock = threading.Lock()

    def name(self, topic: str) -> str:
        """The full name."""
        return f"{self.options.prefix}.{topic}"

    def config(self, role: str, defaults: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a client: ours, the user's over them, then those that rules depend on."""
        name = {"bootstrap.servers": self.servers, "client.id": f"{self.options.prefix}-{role}"}
        return {**COMMON, **name, **defaults, **self.options.client, **fixed, "logger": logger}

    def admin(self) -> AdminClient:
        """The admin client, made at the first call. Raises SettingsError."""
        with self._lock:
            if self._admin is None:
                # Nobody polls it, so its log lines would pile up: none are made.
                self._admin = make(AdminClient, self.config("admin", {"log_level": 0}, {}))
            return self._admin

    def describe(self, topics: Sequence[str]) -> dict[str, TopicInfo]:
        """Names, ids and partitions. Raises TopicMissing, BrokerUnreachable."""
        futures = self.describe_soon(topics)
        return {topic: self.described(topic, future) for topic, future in futures.items()}

    def describe_soon(self, topics: Sequence[str]) -> dict[str, Future[Any]]:
        """The same without waiting; `described` makes something of the futures."""
        collection = TopicCollection([self.name(topic) for topic in topics])
        futures = self.admin().describe_topics(collection, request_timeout=self.options.patience)
        return {topic: futures[self.name(topic)] for topic in topics}

    def described(self, topic: str, future: Future[Any]) -> TopicInfo:
        """The answer about one topic."""
        try:
            found = future.result()
        except KafkaException as error:
            raise self.named(error, topic) from None
        return TopicInfo(self.name(topic), str(found.topic_id), len(found.partitions))

    def offsets(self, topic: str, which: Literal["first", "end"]) -> dict[int, int]:
        """Per partition the low watermark, or the last stable offset. One round trip. Raises as `describe`."""
        partitions = range(self.describe([topic])[topic].partitions)
        return self.offsets_of(topic, partitions, which)

    def offsets_of(
        self,
        topic: str,
        partitions: Sequence[int],
        which: Literal["first", "end"],
        timeout: float | None = None,
    ) -> dict[int, int]:
        """The same for known partitions, waiting `timeout` seconds instead of the log's patience."""
        choose: Any = OffsetSpec.earliest if which == "first" else OffsetSpec.latest
        spec = choose()
        futures = self.admin().list_offsets(
            {TopicPartition(self.name(topic), partition): spec for partition in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self.options.patience if timeout is None else timeout,
        )
        try:
            return {where.partition: future.result().offset for where, future in futures.items()}
        except KafkaException as error:
            raise self.named(error, topic) from None

    def named(self, error: KafkaException, topic: str | None = None) -> LogError:
        """A client's error as one of ours."""
        cause: KafkaError = error.args[0]
        if cause.code() in AWAY:
            return self.unreachable()
        if topic is not None and cause.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return TopicMissing(
                f"there is no topic {self.name(topic)} on {self.servers}",
                f"make it with: simstream --log kafka://{self.servers} topics create",
            )
        what = self.name(topic) if topic else self.servers
        return LogError(f"Kafka refused ({what}): {cause.str()}", "look at the broker's log and at [kafka]")

    def unreachable(self) -> BrokerUnreachable:
        """The error for no answer."""
        return BrokerUnreachable(
            f"no Kafka broker answered at {self.servers} within {self.options.patience:g} s",
            "is it running, and is the address right?",
        )


def make(client: Any, config: dict[str, Any]) -> Any:
    """A client with these settings. Raises SettingsError where it refuses one."""
    try:
        return client(config)
    except (KafkaException, TypeError, ValueError) as error:
        cause = error.args[0]
        what = cause.str() if isinstance(cause, KafkaError) else str(cause)
        raise SettingsError(f"the Kafka client refuses its settings: {what}", "look at [kafka]") from None


class Away:
    """Since when no broker answers a client; its `on_error` is the client's error callback."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._since: float | None = None
        self._next = 0.0

    def on_error(self, error: KafkaError) -> None:
        """The client's error callback."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._since is None:
            self._since = time.monotonic()
        logger.debug("Kafka client: %s", error.str())

    def now(self) -> bool:
        """Whether no broker is known to answer."""
        return self._since is not None

    def heard(self) -> None:
        """Something came from a broker."""
        self._since = None

    def check(self, client: Any) -> None:
        """Raise BrokerUnreachable where none has answered for the log's patience; asks again once a second."""
        since = self._since
        if since is None or time.monotonic() < self._next:
            return
        try:
            client.list_topics(timeout=0.5)
            self._since = None
        except KafkaException:
            self._next = time.monotonic() + 1.0
            if time.monotonic() - since > self._cluster.options.patience:
                raise self._cluster.unreachable() from None


class SameTopics:
    """Watches whether topics are still those of the start, without making anyone wait."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._topics = topics
        self.infos = cluster.describe(topics)
        self._asked: dict[str, Future[Any]] = {}
        self._next = time.monotonic() + CHECK_EVERY

    def check(self) -> None:
        """Raise TopicRecreated or TopicMissing where they are not; asks every few seconds."""
        now = time.monotonic()
        if self._asked and all(future.done() for future in self._asked.values()):
            asked, self._asked = self._asked, {}
            self._next = now + CHECK_EVERY
            self._compare(asked)
        elif not self._asked and now >= self._next:
            self._asked = self._cluster.describe_soon(self._topics)

    def check_now(self) -> None:
        """The same, waiting for the answer."""
        self._compare(self._cluster.describe_soon(self._topics))

    def _compare(self, asked: Mapping[str, Future[Any]]) -> None:
        for topic, future in asked.items():
            try:
                found = self._cluster.described(topic, future)
            except BrokerUnreachable:
                continue  # whoever reads or writes notices that too, and has the patience for it
            if found.id != self.infos[topic].id:
                raise TopicRecreated(
                    f"{found.name} was deleted and made anew while it was in use",
                    "start again to begin with the new topic",
                )
