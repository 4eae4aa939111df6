"""What all Kafka clients of one log share: settings, the admin client, names, ids, offsets, errors by our names."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # exported undeclared

from stream.errors import BrokerUnreachable, LogError, SettingsError, TopicMissing, TopicRecreated
from stream.log.base import LogOptions, TopicInfo
from stream.log.hints import how_to_create


class Seldom(logging.Filter):
    """Lets a message through once in half a minute: the client repeats itself while a broker is away."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        if record.levelno <= logging.DEBUG:
            return True
        message, now = record.getMessage()[:80], time.monotonic()
        if now - self._last.get(message, -QUIET) < QUIET:
            return False
        if len(self._last) > 1000:
            self._last.clear()
        self._last[message] = now
        return True


QUIET = 30.0
"""Seconds between two log lines of the client that say the same."""
logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())  # without one, the client's warnings would reach stderr
logger.addFilter(Seldom())

_waiting = logging.getLogger("simstream.log")
"""For what a person has to know; where a command configures no logging, Python shows its warnings on stderr."""

PAUSE = 0.1
"""Seconds before a question is asked again that the wrong broker, or one not yet ready, has answered."""
SILENT_AFTER = 3.0
"""Seconds without an answer after which a broker counts as away."""
CHECK_EVERY = 3.0
"""Seconds between two looks at whether the topics are still the same."""
SOCKET_MS = 10_000
"""A broker that is frozen keeps its connections: so long a request waits for it before another one is asked."""
COMMON: Mapping[str, Any] = {
    "socket.timeout.ms": SOCKET_MS,
    "allow.auto.create.topics": False,
    "topic.metadata.refresh.interval.ms": 10_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": True,
}
NOT_YET = frozenset(
    {
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_CONTROLLER,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)
"""Answers of a broker that is not, or not yet, the right one to ask: a moment later it is another, or ready."""
AWAY = NOT_YET | frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""Errors that only say that no broker, or not the right one, answered."""


Which = Literal["first", "end", "open end"]
"""The low watermark; the last stable offset, where committed records end; the end with open transactions."""


class Cluster:
    """One Kafka cluster as one log sees it. Connects when something is asked for; safe between threads."""

    def __init__(self, servers: str, options: LogOptions) -> None:
        self.servers = servers
        self.options = options
        self._admin: AdminClient | None = None
        self._lock = threading.Lock()
        self._told = False

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
            found = self.answer(future)
        except KafkaException as error:
            raise self.named(error, topic) from None
        return TopicInfo(self.name(topic), str(found.topic_id), len(found.partitions))

    def offsets(self, topic: str, which: Which) -> dict[int, int]:
        """Per partition one of the offsets of Which. Two round trips. Raises as `describe`."""
        partitions = range(self.describe([topic])[topic].partitions)
        return self.offsets_of(topic, partitions, which)

    def offsets_of(
        self, topic: str, partitions: Sequence[int], which: Which, timeout: float | None = None
    ) -> dict[int, int]:
        """The same for known partitions, waiting `timeout` seconds instead of the log's patience.

        After a change of leaders the client asks on with what it knew before; it is asked again."""
        patience = self.options.patience if timeout is None else timeout
        end = time.monotonic() + patience
        while True:
            try:
                return self._offsets_once(topic, partitions, which, max(0.5, end - time.monotonic()))
            except KafkaException as error:
                if error.args[0].code() not in NOT_YET or time.monotonic() > end:
                    raise self.named(error, topic) from None
            time.sleep(PAUSE)

    def _offsets_once(self, topic: str, partitions: Sequence[int], which: Which, patience: float) -> dict[int, int]:
        """One question. Raises KafkaException."""
        choose: Any = OffsetSpec.earliest if which == "first" else OffsetSpec.latest
        futures = self.admin().list_offsets(
            {TopicPartition(self.name(topic), partition): choose() for partition in partitions},
            isolation_level=(
                IsolationLevel.READ_UNCOMMITTED if which == "open end" else IsolationLevel.READ_COMMITTED
            ),
            request_timeout=patience,
        )
        return {where.partition: self.answer(future).offset for where, future in futures.items()}

    def answer(self, future: Future[Any]) -> Any:
        """What the broker answers; a long silence is said, the first time. Raises KafkaException."""
        try:
            return future.result(SILENT_AFTER)
        except TimeoutError:
            self.say_waiting()
            return future.result()

    def say_waiting(self) -> None:
        """Say, once, that no broker answers."""
        if not self._told:
            self._told = True
            _waiting.warning("no broker answers at %s; waiting up to %g s", self.servers, self.options.patience)

    def named(self, error: KafkaException, topic: str | None = None) -> LogError:
        """A client's error as one of ours."""
        cause: KafkaError = error.args[0]
        if cause.code() in AWAY:
            return self.unreachable()
        if topic is not None and cause.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return TopicMissing(
                f"there is no topic {self.name(topic)} on {self.servers}",
                f"make it with: {how_to_create(f'kafka://{self.servers}', self.options.prefix)}",
            )
        what = self.name(topic) if topic else self.servers
        return LogError(f"Kafka refused ({what}): {cause.str()}", "look at the broker's log and at [kafka]")

    def unreachable(self) -> BrokerUnreachable:
        """The error for no answer."""
        return BrokerUnreachable(
            f"no Kafka broker answered at {self.servers} within {self.options.patience:g} s",
            "is it running, and is the address right?",
        )


def member_name(cluster: Cluster, role: str) -> str:
    """What a member of a group calls itself: machine and process, for whoever looks at the group."""
    return f"{cluster.options.prefix}-{role}@{socket.gethostname()}:{os.getpid()}"


def make(client: Any, config: dict[str, Any]) -> Any:
    """A client with these settings. Raises SettingsError where it refuses one."""
    try:
        return client(config)
    except (KafkaException, TypeError, ValueError) as error:
        cause = error.args[0]
        what = cause.str() if isinstance(cause, KafkaError) else str(cause)
        raise SettingsError(f"the Kafka client refuses its settings: {what}", "look at [kafka]") from None


def note_error(error: KafkaError) -> None:
    """A client's error callback; without one a fatal error would be raised by whatever call comes next."""
    logger.debug("Kafka client: %s", error.str())


class SameTopics:
    """Watches, without making anyone wait, whether a broker answers and topics are still those of the start."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._topics = topics
        self.infos = cluster.describe(topics)
        self.away = False
        """Whether the last question got no answer within the log's patience."""
        self._no_news_since: float | None = None
        self._asked: dict[str, Future[Any]] = {}
        self._asked_at = 0.0
        self._next = time.monotonic() + CHECK_EVERY

    def check(self) -> None:
        """Raise TopicRecreated, TopicMissing or, until a broker answers again, BrokerUnreachable.

        It asks every few seconds; the client's own reports of lost connections are too rare to rely on.
        """
        now = time.monotonic()
        if self._asked and all(future.done() for future in self._asked.values()):
            asked, self._asked = self._asked, {}
            self._next = now + CHECK_EVERY
            self._compare(asked, self._asked_at)
        if not self._asked and (self.away or now >= self._next):
            self._asked = self._cluster.describe_soon(self._topics)
            self._asked_at = now
        if self.away:
            raise self._cluster.unreachable()

    def answers(self) -> bool:
        """Whether a broker answered the last question, or still has a moment to do so."""
        waiting = self._asked and not all(future.done() for future in self._asked.values())
        return not self.away and not (waiting and time.monotonic() - self._asked_at > SILENT_AFTER)

    def check_now(self) -> None:
        """Raise TopicRecreated or TopicMissing, waiting for the answer."""
        began = time.monotonic()
        self._compare(self._cluster.describe_soon(self._topics), began)

    def _compare(self, asked: Mapping[str, Future[Any]], asked_at: float) -> None:
        """A broker that is not yet ready to say counts as away once it has not been for the log's patience."""
        for topic, future in asked.items():
            try:
                found = self._cluster.described(topic, future)
            except BrokerUnreachable:
                now = time.monotonic()
                self._no_news_since = asked_at if self._no_news_since is None else self._no_news_since
                self.away = now - self._no_news_since >= 0.9 * self._cluster.options.patience
                self._next = now + PAUSE
                return
            if found.id != self.infos[topic].id:
                raise TopicRecreated(
                    f"{found.name} was deleted and made anew while it was in use",
                    "start again to begin with the new topic",
                )
        self.away, self._no_news_since = False, None
