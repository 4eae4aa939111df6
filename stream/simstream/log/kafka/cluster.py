"""What all Kafka clients of one log share: settings, admin client, names, ids, offsets, error texts."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Literal, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # exported undeclared

from simstream.errors import BrokerUnreachable, LogError, SettingsError, TopicMissing
from simstream.interrupts import interrupts_held, is_interrupt
from simstream.kafka_settings import without_secrets
from simstream.log.base import TopicInfo
from simstream.log.command_hints import remedy_for_missing
from simstream.log.kafka.access_errors import MISSING, Admission, not_permitted
from simstream.log.kafka.client_end import free_clients
from simstream.log.kafka.client_log import logger, note_error
from simstream.log.kafka.tokens import token_settings
from simstream.log.options import LogOptions

_waiting = logging.getLogger("simstream.log")
"""For messages to people. If a command configures no logging, Python shows warnings on stderr."""

GROUP: Mapping[str, Any] = {
    "group.protocol": "classic",
    # The elected member keeps the partition when others join. With `range` the order of random names would decide.
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 2_000,
}
"""How members of a group are configured: fingerprinters, and judges that stand for election."""
PAUSE_S = 0.1
"""Seconds before a request is repeated that met the wrong broker, or one that is not ready."""
MAX_SILENCE_S = 3.0
"""Seconds without an answer after which a broker counts as away."""
GRACE_S = 1.0
"""Seconds to wait beyond a request's own time, so that the client itself ends the request with its own error."""
SOCKET_MS = 10_000
"""Milliseconds that a request waits for one broker: a frozen broker keeps its connections open."""
TRY_S = SOCKET_MS / 1000
"""Seconds of one question. Then it is asked again, of a new client if the present one gets no answers."""
RENEW_S = TRY_S + 2 * GRACE_S
"""Seconds that an admin client without answers is kept before a new one replaces it, and then until it ends.

Longer than a question: if a client ends, its open questions may never get an answer or an error.
"""
GROUP_REQUEST_S = 600.0
"""Seconds until the client itself ends a request of the admin client to a group's coordinator. Whoever asks waits
only for its own patience.

If the client ends such a request while the coordinator is away, it still sends it once the coordinator is back, and
then an assertion (`eonce->refcnt > 0`) ends the whole process (confluentinc/librdkafka, issue 4605). Until this
time has passed, a client without answers has been replaced, and its open requests ended with it.
"""
_FILES: Final = (
    *("ssl.ca.location", "ssl.certificate.location", "ssl.crl.location", "ssl.key.location"),
    "ssl.keystore.location",
)
"""Settings that name a file. Each client reads it, and says of a missing one perhaps only `system lib`."""
COMMON: Mapping[str, Any] = {
    "socket.timeout.ms": SOCKET_MS,
    "allow.auto.create.topics": False,
    "topic.metadata.refresh.interval.ms": 10_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": True,
    "socket.nagle.disable": True,  # a small request must not wait for the acknowledgement of the one before
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
        KafkaError._NOENT,  # "No leaders found" where the client asks for offsets while it knows of no leader
    }
)
"""Answers of a broker that is the wrong one, or not ready: ask again a moment later."""
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
        KafkaError._DESTROY,  # the client was replaced while it was asked
        KafkaError._DESTROY_BROKER,  # the client forgot the broker that it had asked
    }
)
"""Errors that mean only: no broker answered, or the wrong one."""

NO_ID: Final = "A" * 22
"""The id of every topic where brokers give none."""

_descriptions: Final = dict[Future[Any], tuple[AdminClient, int]]()
"""Descriptions of topics that were asked for, each with the client and the process that asked.

The client lives until the first question, to any cluster, after they have ended. A client that is freed before it
has read such an answer ends the whole process, once in some 4,000 times: it uses the memory of a broker that it has
freed (librdkafka 2.16, `rd_kafka_DescribeTopicsResponse_parse`). A forked process frees no client of its parent: it
would wait for ever for threads that it does not have."""


def _take_ended_descriptions() -> list[Any]:
    """Return the clients of this process whose descriptions have ended, and forget them."""
    process = os.getpid()
    ended = [future for future, (_, asker) in list(_descriptions.items()) if asker == process and future.done()]
    return [_descriptions.pop(future, None) for future in ended]


T = TypeVar("T")
Which = Literal["first", "end", "open end"]
"""The low watermark; the last stable offset, behind the committed records; the end, with open transactions."""


class KafkaCluster:
    """One Kafka cluster as one log sees it. Connects at the first request. Safe between threads."""

    def __init__(self, servers: str, options: LogOptions) -> None:
        self.servers = servers
        self.options = options
        self._admin: AdminClient | None = None
        self._former_admin: AdminClient | None = None
        """The admin client before this one: requests of other threads may still wait for it."""
        self._admin_since = 0.0
        self._is_silent = False
        """Whether the last question got no answer. Then the client may never get one again (see ClientWatch)."""
        self._lock = threading.Lock()
        self._told = False
        self._answered_at = 0.0
        self._telling = threading.Lock()
        self._admission = Admission(servers)

    def name(self, topic: str) -> str:
        """Return the full name of a topic."""
        return self.options.full_name(topic)

    def config(self, role: str, defaults: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Return a client's settings: `defaults`, then the user's over them, then `fixed`, which the rules depend
        on. Raises SettingsError and NotAdmitted: a token of OAuth may have to be fetched first."""
        name = {"bootstrap.servers": self.servers, "client.id": f"{self.options.prefix}-{role}"}
        own = {**self.options.client, **token_settings(self.options.client)}
        return {**COMMON, **name, **defaults, **own, **fixed, "logger": logger}

    def admin(self) -> AdminClient:
        """Return the admin client, made at the first call, and anew if it gets no answers. Raises SettingsError."""
        with self._lock:
            now = time.monotonic()
            if self._admin is None or (self._is_silent and now - self._admin_since > RENEW_S):
                # The admin client is polled rarely and its log lines would pile up, so it makes none.
                fixed = {"error_cb": self._admission.note}
                last_but_one, self._former_admin = [self._former_admin], self._admin
                free_clients(last_but_one)
                self._admin = make(AdminClient, self.config("admin", {"log_level": 0}, fixed))
                self._admin_since = now
            return self._admin

    def close(self) -> None:
        """Free the admin client, with its threads and connections; a later question makes another one."""
        with self._lock:
            clients: list[Any] = [client for client in (self._admin, self._former_admin) if client is not None]
            self._admin = self._former_admin = None
        clients += _take_ended_descriptions()
        free_clients(clients)  # empties the list: the last reference goes in its thread

    def check(self) -> None:
        """Raise SettingsError if any kind of client refuses the settings. Asks no broker."""
        producer = {"enable.idempotence": True, "acks": "all"}
        consumer = {"group.id": f"{self.options.log_prefix}.fingerprint", "enable.auto.commit": False}
        for kind, fixed in ((AdminClient, {}), (Producer, producer), (Consumer, consumer)):
            client = make(kind, self.config("check", {"log_level": 0}, {**fixed, "error_cb": note_error}))
            if kind is Consumer:
                client.close()

    def ask(
        self,
        ask: Callable[[float], T],
        topic: str | None = None,
        patience: float | None = None,
        operation: str = "Describe",
        group: str | None = None,
    ) -> T:
        """Return what `ask` returns; call it again, up to the log's patience, while no broker or the wrong one
        answers.

        `ask` gets the seconds of one try. A request may meet a broker that has just lost its leadership, or a
        client that has forgotten its brokers. `operation` names the permission that the request needs on the topic
        or the group.
        Raises BrokerUnreachable, NotAdmitted, NotPermitted, TopicMissing, LogError.
        """
        end = time.monotonic() + (self.options.patience if patience is None else patience)
        while True:
            try:
                return ask(max(0.1, min(TRY_S, end - time.monotonic())))
            except KafkaException as error:
                if error.args[0].code() not in AWAY or time.monotonic() + PAUSE_S > end:
                    raise self.make_error(error, topic, operation, group) from None
            except SystemError as error:
                if is_interrupt(error):
                    raise KeyboardInterrupt from None
                raise
            self._is_silent = True
            self.check_admission()
            time.sleep(PAUSE_S)

    def describe(self, topics: Sequence[str], patience: float | None = None) -> dict[str, TopicInfo]:
        """Return the names, ids and partitions of these topics. Each question takes up to `patience` seconds, by
        default the log's. Raises TopicMissing, BrokerUnreachable."""
        return {topic: self.ask(partial(self._describe, topic), topic, patience) for topic in topics}

    def _describe(self, topic: str, patience: float) -> TopicInfo:
        return self._info(topic, self.describe_soon([topic], patience)[topic], patience)

    def replicas(self, topic: str) -> int:
        """Return how many replicas a topic has, of the partition with the fewest. Raises what `describe` raises."""

        def ask(patience: float) -> int:
            found = self.answer(self.describe_soon([topic], patience)[topic], patience)
            return min(len(partition.replicas) for partition in found.partitions)

        return self.ask(ask, topic)

    def describe_soon(self, topics: Sequence[str], patience: float | None = None) -> dict[str, Future[Any]]:
        """Ask the same without waiting; `read_descriptions` reads the futures."""
        collection = TopicCollection([self.name(topic) for topic in topics])
        patience = min(TRY_S, self.options.patience if patience is None else patience)
        free_clients(_take_ended_descriptions())
        process = os.getpid()
        client = self.admin()
        client.poll(0)  # its reports would pile up while a broker is away
        with interrupts_held():
            futures = client.describe_topics(collection, request_timeout=patience)
            _descriptions.update(dict.fromkeys(futures.values(), (client, process)))
        return {topic: futures[self.name(topic)] for topic in topics}

    def read_descriptions(self, futures: Mapping[str, Future[Any]]) -> dict[str, TopicInfo]:
        """Return the answers about these topics. Raises what `describe` raises."""
        infos = {}
        for topic, future in futures.items():
            try:
                infos[topic] = self._info(topic, future, TRY_S)
            except KafkaException as error:
                raise self.make_error(error, topic) from None
        return infos

    def _info(self, topic: str, future: Future[Any], patience: float) -> TopicInfo:
        found = self.answer(future, patience)
        if str(found.topic_id) == NO_ID:
            raise LogError(
                f"the brokers at {self.servers} give topics no ids, so one that is created again looks the same",
                "use Kafka 2.8 or newer, with an inter.broker.protocol.version that is no older",
            )
        return TopicInfo(self.name(topic), str(found.topic_id), len(found.partitions))

    def offsets(self, topic: str, which: Which) -> dict[int, int]:
        """Return per partition the offset that `which` names. Two round trips. Raises what `describe` raises."""
        partitions = range(self.describe([topic])[topic].partitions)
        return self.offsets_of(topic, partitions, which)

    def uncommitted(self, topic: str) -> dict[int, int]:
        """Return how many offsets lie behind the first open transaction of each partition that has one."""
        open_ends = self.offsets(topic, "open end")
        ends = self.offsets(topic, "end")  # last: pages that come meanwhile belong to no open transaction
        return {p: open_end - ends[p] for p, open_end in open_ends.items() if p in ends and ends[p] < open_end}

    def offsets_of(
        self, topic: str, partitions: Sequence[int], which: Which, timeout: float | None = None
    ) -> dict[int, int]:
        """Return the same for known partitions, after at most `timeout` seconds instead of the log's patience."""
        return self.ask(partial(self._offsets_once, topic, partitions, which), topic, timeout)

    def _offsets_once(self, topic: str, partitions: Sequence[int], which: Which, patience: float) -> dict[int, int]:
        """Ask once. Raises KafkaException."""
        choose: Any = OffsetSpec.earliest if which == "first" else OffsetSpec.latest
        level = IsolationLevel.READ_UNCOMMITTED if which == "open end" else IsolationLevel.READ_COMMITTED
        wanted = {TopicPartition(self.name(topic), partition): choose() for partition in partitions}
        futures = self.admin().list_offsets(wanted, isolation_level=level, request_timeout=patience)
        offsets = {where.partition: self.answer(future, patience).offset for where, future in futures.items()}
        if any(offset < 0 for offset in offsets.values()):  # seen where a leader had just been killed
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, "a partition has no offset yet"))
        return offsets

    def answer(self, future: Future[Any], patience: float) -> Any:
        """Return the broker's answer within `patience` seconds. A long silence is logged, and its end.

        Raises KafkaException, also if there is no answer in time, and NotAdmitted.
        """
        asked_at = time.monotonic()
        while True:
            try:
                found = future.result(PAUSE_S)
                self._note_answer()
                return found
            except TimeoutError:
                self.check_admission()
            except KafkaException as error:
                self._is_silent = error.args[0].code() in AWAY
                raise
            waited = time.monotonic() - asked_at
            if waited > patience + GRACE_S:
                self._is_silent = True
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the client did not end a request in time"))
            self.say_silence(asked_at)

    def say_silence(self, since: float) -> None:
        """Log, once until a broker answers, that none has for a while; `since` is a time of `time.monotonic`.

        The question of another thread may have got an answer meanwhile.
        """
        with self._telling:
            silent_s = time.monotonic() - max(since, self._answered_at)
            if self.options.logs_silence and silent_s > MAX_SILENCE_S and not self._told:
                self._told = True
                _waiting.warning("no broker answers at %s; waiting up to %g s", self.servers, self.options.patience)

    def _note_answer(self) -> None:
        self._admission.admitted()
        self._is_silent = False
        with self._telling:
            self._answered_at = time.monotonic()
            if self._told:
                self._told = False
                _waiting.info("a broker answers again at %s", self.servers)

    def check_admission(self) -> None:
        """Raise NotAdmitted if the brokers do not let this client in, and never did."""
        self.admin().poll(0)
        self._admission.check()

    def make_error(
        self, error: KafkaException, topic: str | None = None, operation: str = "Describe", group: str | None = None
    ) -> LogError:
        """Return the client's error as an error of our tree. `group` may be a transactional id; see `ask` for
        `operation`."""
        cause: KafkaError = error.args[0]
        if cause.code() in MISSING:
            on_topic = cause.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED or group is None
            name = self.name(topic or "*") if on_topic else group or ""
            return not_permitted(cause, self.options.client, name, operation)
        if cause.code() in AWAY:
            return self.unreachable()
        if topic is not None and cause.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return TopicMissing(
                f"there is no topic {self.name(topic)} on {self.servers}",
                remedy_for_missing(f"kafka://{self.servers}", self.options, topic),
            )
        what = self.name(topic) if topic else self.servers
        if cause.code() == KafkaError.INVALID_TIMESTAMP:
            now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
            return LogError(
                f"Kafka refuses records of {what} for their timestamps; the clock of this machine says {now}",
                "correct the clocks of this machine and of the brokers, or set the topic's "
                "message.timestamp.type to LogAppendTime",
            )
        if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return LogError(f"Kafka refuses a record of {what} for its size", "raise the topic's max.message.bytes")
        if cause.code() == KafkaError.INVALID_RECORD:
            return LogError(
                f"Kafka refuses records of {what} as invalid",
                "run `simstream status`, which names a setting of the topic that does not fit, such as "
                "cleanup.policy; else read the broker's log files",
            )
        if cause.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            return LogError(
                f"another program has joined the group {group}, and shares partitions in another way",
                "stop that program, or give it another group",
            )
        if cause.code() == KafkaError.INVALID_SESSION_TIMEOUT:
            return LogError(
                "the brokers refuse the session.timeout.ms of this service's consumer groups",
                "let it lie between their group.min.session.timeout.ms and group.max.session.timeout.ms, or set it "
                "in [kafka]",
            )
        return LogError(
            f"Kafka refused ({what}): {cause.str()}",
            "read the broker's log files, and check [kafka] in the settings",
        )

    def unreachable(self) -> BrokerUnreachable:
        """Return the error for a broker that did not answer."""
        why = f" ({self._admission.why})" if self._admission.why else ""
        return BrokerUnreachable(
            f"no Kafka broker answered at {self.servers} within {self.options.patience:g} s{why}",
            "check that the broker runs, that --log has its address, and [kafka] in the settings; --log DIRECTORY "
            "works without a broker",
        )


def member_name(cluster: KafkaCluster, role: str) -> str:
    """Return the name of a group's member: role, machine and process, for people who look at the group."""
    return f"{cluster.options.prefix}-{role}@{socket.gethostname()}:{os.getpid()}"


def make(client: Any, config: dict[str, Any]) -> Any:
    """Make a client with these settings. Raises SettingsError if it refuses one."""
    try:
        return client(config)
    except (KafkaException, TypeError, ValueError) as error:
        cause = error.args[0]
        what = without_secrets(cause.str() if isinstance(cause, KafkaError) else str(cause), config)
        files = [name for name in _FILES if _is_unreadable(str(config.get(name, "")).strip())]
        advice = f"name a readable file in {' and '.join(files)}" if files else "correct [kafka] in the settings"
        raise SettingsError(f"the Kafka client refuses its settings: {what}", advice) from None


def _is_unreadable(path: str) -> bool:
    return path not in ("", "probe") and not os.access(path, os.R_OK)
