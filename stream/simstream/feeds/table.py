"""Keeps the fold's entries on Kafka, in a compacted topic of one partition, and how far both topics were read.

Changes and the progress that they stand for are one transaction. A process that begins fences every earlier one: a
process that was frozen, or cut off, can write nothing more.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from simstream.closing import Closing
from simstream.errors import BrokerUnreachable, LogDamaged, LogLocked, NotPermitted, StateDamaged
from simstream.log import KAFKA, options_of
from simstream.log.base import TopicInfo
from simstream.log.kafka.client_end import drop_producer
from simstream.log.kafka.client_log import note_error
from simstream.log.kafka.client_watch import ClientWatch
from simstream.log.kafka.cluster import AWAY, KafkaCluster, make
from simstream.log.kafka.polled_member import MemberKind, PolledMember
from simstream.log.kafka.publisher import has_ended
from simstream.log.kafka.reader import KafkaReader, last_record
from simstream.log.kafka.topic_identity import KafkaTopicIdentity
from simstream.log.kafka.topics import POLICY, topic_settings
from simstream.log.options import TABLE
from simstream.settings import Settings

PROGRESS_KEY: Final = "p"
"""The key of the progress; no key of the fold begins with it."""
Changes = dict[str, bytes | None]
"""The new entry of each key; None if it has none any more."""
MAX_POLL_RECORDS = 5_000
STEP_S = 0.5
"""Seconds of waiting after which a write looks whether it has to end."""
PAUSE_S = 0.02
DEFAULTS: Final[Mapping[str, Any]] = {
    "linger.ms": 0,
    "retry.backoff.ms": 2,
    "queue.buffering.max.messages": 100_000,
}
TRANSACTION_MS: Final = 300_000
"""Milliseconds after which brokers end a transaction: they may be away so long. A new writer ends it at once."""
_logger = logging.getLogger("simstream.news")


class TopicProgress(msgspec.Struct):
    """How far a topic was read: its id, and the next offset of each partition."""

    id: str
    offsets: dict[int, int]


_progress = msgspec.json.Decoder(dict[str, TopicProgress])


class NewsTable(MutableMapping[str, bytes]):
    """The entries in memory, the progress that led to them, and the changes that are not written yet."""

    def __init__(self, entries: dict[str, bytes] | None = None) -> None:
        """Begin with what `TableTopic.begin` returned. Raises msgspec.MsgspecError."""
        self._entries = entries or {}
        self.progress: dict[str, TopicProgress] = _progress.decode(self._entries.pop(PROGRESS_KEY, b"{}"))
        self.changes: Changes = {}
        self._written = msgspec.json.encode(self.progress)

    def __getitem__(self, key: str) -> bytes:
        return self._entries[key]

    def __setitem__(self, key: str, entry: bytes) -> None:
        self._entries[key] = entry
        self.changes[key] = entry

    def __delitem__(self, key: str) -> None:
        del self._entries[key]
        self.changes[key] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, topic: str, info: TopicInfo) -> dict[int, int]:
        """Return where to go on in a topic. If it was created again, begin anew."""
        known = self.progress.get(topic)
        if known is None or known.id != info.id:
            known = self.progress[topic] = TopicProgress(info.id, {})
        return dict(known.offsets)

    def take_changes(self) -> Changes:
        """Return the changes and the progress after them, and count them as written. Nothing if nothing changed."""
        changes, self.changes = self.changes, {}
        progress = msgspec.json.encode(self.progress)
        if changes or progress != self._written:
            changes[PROGRESS_KEY] = progress
        self._written = progress
        return changes


class TableTopic(Closing):
    """The table's topic. One thread at a time reads and writes it."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._name = cluster.name(TABLE)
        self._same: KafkaTopicIdentity | None = None
        self._producer: Any = None
        self._watch = ClientWatch()
        self._last: bytes | None = None
        """The newest progress in the topic, as far as this writer knows."""
        self._attempted: bytes | None = None
        """The progress of a transaction that may have been committed, or not."""
        self._ending = threading.Event()

    def begin(self) -> dict[str, bytes]:
        """Fence every earlier writer, and return the newest entry of each key, or after `end` some.

        Raises StateDamaged and LogError.
        """
        self._same = KafkaTopicIdentity(self._cluster, [TABLE])
        if (count := self._same.infos[TABLE].partitions) != 1:
            raise LogDamaged(f"{self._name} has {count} partitions, not 1", self._todo())
        self._check_policy()
        self._fence()
        found: dict[str, bytes] = {}
        with KafkaReader(self._cluster, TABLE, 0) as reader:
            while not self._ending.is_set() and not reader.caught_up():
                for record in reader.poll(MAX_POLL_RECORDS, STEP_S):
                    try:
                        key = (record.key or b"").decode()
                    except UnicodeDecodeError as error:
                        raise self.damaged(error) from error
                    if record.value is None:
                        found.pop(key, None)
                    else:
                        found[key] = record.value
        self._last = found.get(PROGRESS_KEY)
        return found

    def _check_policy(self) -> None:
        """Raise LogDamaged if brokers would remove entries for their age."""
        with contextlib.suppress(NotPermitted):
            if (policy := topic_settings(self._cluster, TABLE).get(POLICY)) != "compact":
                todo = f"set it to compact, or {self._todo()}"
                raise LogDamaged(f"{self._name} has cleanup.policy={policy}, and would lose stories", todo)

    def damaged(self, error: Exception) -> StateDamaged:
        """Return the error for an entry that cannot be read."""
        return StateDamaged(f"{self._name} holds an entry that cannot be read ({error})", self._todo())

    def check(self) -> None:
        """Check that the topic is still the same, and take the client's reports: they would pile up. Never waits.

        Raises TopicMissing or TopicRecreated if the topic was deleted.
        """
        assert self._same is not None
        if self._producer is not None:
            self._producer.poll(0)
        with contextlib.suppress(BrokerUnreachable):
            self._same.check()

    def write(self, changes: Changes) -> bool:
        """Write the changes, all or nothing, and return True once the brokers have them.

        Returns False after `end`, and if it has to be tried again. Raises LogLocked if another writer has begun
        meanwhile; else LogError.
        """
        if self._producer is None or self._watch.has_lost_brokers:
            self._check_last()  # before the fencing, which would end a successor
            self._fence()
            self._check_last()
        self._attempted = changes.get(PROGRESS_KEY)
        if self._producer is None or not self._transact(changes):
            return False
        self._last = self._attempted
        return True

    def end(self) -> None:
        """Give up what is being written. May be called in another thread."""
        self._ending.set()

    def close(self) -> None:
        """See Closing. Drops what is not written."""
        self.end()
        self._drop()

    def _fence(self) -> None:
        """Become the writer, unless `end` comes first."""
        self._drop()
        self._watch = ClientWatch()
        fixed = {
            "transactional.id": self._cluster.options.prefix,
            "transaction.timeout.ms": TRANSACTION_MS,
            "acks": "all",
            "error_cb": note_error,
            **self._watch.settings,
        }
        producer = make(Producer, self._cluster.config("news", DEFAULTS, fixed))
        if self._insist(producer, producer.init_transactions):
            self._producer = producer

    def _check_last(self) -> None:
        """Raise LogLocked if another writer has written since. The progress is the last record of a transaction."""
        record = last_record(self._cluster, TABLE)
        if record is not None and record.value not in (self._last, self._attempted):
            raise self._locked()

    def _locked(self) -> LogLocked:
        return LogLocked(
            f"another news page writes {self._name}, or the brokers have forgotten this one",
            "stop the other one, or start this one again",
        )

    def _transact(self, changes: Changes) -> bool:
        producer = self._producer
        try:
            producer.begin_transaction()
            for key, entry in changes.items():
                self._produce(producer, key.encode(), entry)
        except KafkaException as error:
            self._raise_lasting(error)
            return self._abort(producer)
        return self._insist(producer, producer.commit_transaction)

    def _produce(self, producer: Any, key: bytes, entry: bytes | None) -> None:
        while not self._ending.is_set():
            try:
                producer.produce(self._name, value=entry, key=key, partition=0)
                return
            except BufferError:
                producer.poll(STEP_S)

    def _insist(self, producer: Any, call: Callable[[float], None]) -> bool:
        """Repeat a call until it succeeds. Returns False if the transaction was aborted instead, or after `end`."""
        while not self._ending.is_set() and not self._watch.has_lost_brokers:
            try:
                call(STEP_S)
                return True
            except KafkaException as error:
                self._raise_lasting(error)
                if error.args[0].txn_requires_abort():
                    return self._abort(producer)
            self._ending.wait(PAUSE_S)
        return False

    def _abort(self, producer: Any) -> bool:
        self._insist(producer, producer.abort_transaction)
        return False

    def _raise_lasting(self, caught: KafkaException) -> None:
        """Raise the error of ours for one that neither a repetition nor an abort mends."""
        error: KafkaError = caught.args[0]
        if has_ended(error):
            raise self._locked() from None
        if not (error.retriable() or error.txn_requires_abort() or error.code() in AWAY):
            raise self._cluster.make_error(caught, TABLE, "Write", self._cluster.options.prefix) from None

    def _drop(self) -> None:
        held, self._producer = [self._producer], None
        drop_producer(held)

    def _todo(self) -> str:
        return f"delete the topic {self._name}, and start the news page again: it then reads everything again"


class NewsMembership(PolledMember, Closing):
    """The place of the one process that shows the stories of a log, and writes the table."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Apply for the place. Raises LogError."""
        self._is_taken = False
        group = cluster.options.prefix
        super().__init__(cluster, MemberKind("news", TABLE, group, "the news page's place"))

    @property
    def is_held(self) -> bool:
        """Whether this process has the place, as far as it knows. Raises LogError if it can no longer get it."""
        if self._error is not None:
            raise self._error
        return bool(self._owned)

    @property
    def is_taken(self) -> bool:
        """Whether the group has given the place to another process."""
        return self._is_taken and not self._owned

    def _on_assign(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._is_taken = not partitions and not self._owned
        super()._on_assign(consumer, partitions)

    def _warn_lost(self) -> None:
        _logger.warning(
            "the brokers did not confirm this news page's place in the group %s in time", self._kind.group
        )


class TableAccess(NamedTuple):
    """What the one writer of a table needs: the topic, and its membership in the group."""

    topic: TableTopic
    place: NewsMembership


def table_cluster(settings: Settings, name: str, pages: TopicInfo) -> KafkaCluster:
    """Return the brokers that the settings name, for a table's topic under a prefix of its own."""
    options = options_of(
        msgspec.structs.replace(
            settings, prefix=name, publish_to=None, verdicts_topic=None, pages_topic=pages.name
        ),
        settings.give_up_s,
        logs_silence=False,  # the news page tells of a silence itself
    )
    return KafkaCluster(settings.log.removeprefix(KAFKA), options)
