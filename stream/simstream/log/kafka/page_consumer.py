"""Reads `pages` as a member of the fingerprinters' group, and commits offsets with both topics' ids."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from simstream.errors import LogError, LogLocked, SimstreamError
from simstream.log import command_hints
from simstream.log.base import PageConsumer, PartitionStart, PollResult, TopicInfo
from simstream.log.kafka.access_errors import REFUSED
from simstream.log.kafka.client_end import end_client
from simstream.log.kafka.client_log import logger, note_error
from simstream.log.kafka.client_watch import ClientWatch
from simstream.log.kafka.cluster import GROUP, GROUP_REQUEST_S, KafkaCluster, make, member_name
from simstream.log.kafka.groups import ask_group
from simstream.log.kafka.missing_offsets import OUT_OF_RANGE, MissingOffsets
from simstream.log.kafka.reader import DEFAULTS, FIXED, STEP_S, consume, damaged, seek, to_record
from simstream.log.kafka.topic_identity import KafkaTopicIdentity
from simstream.log.kafka.topics import group_state
from simstream.log.options import FINGERPRINTS, PAGES
from simstream.model import Record

COMMIT_AGAIN_S = 5.0
"""Seconds after which an unconfirmed commit is sent again. A broker refuses commits during a rebalance."""
FORGOTTEN = "forgotten"
"""Metadata of a commit that does not count; the client cannot delete a commit."""
LONG_PAUSE_S = 10.0
"""Seconds of a pause after which brokers are asked for the ends of partitions; a full queue ends sooner."""
LAG_S = 1.0
"""Seconds that brokers have to tell these ends."""
MIN_GATHERED_BYTES = 40 << 10
"""Bytes of pages, as the log has them, at which a broker answers a fetch at once. 27 news pages of 1.5 KB reach it,
enough to share the cost of a fetch and a batch; a larger page ends the wait alone."""


def group_of(cluster: KafkaCluster) -> str:
    """Return the name of the fingerprinters' consumer group."""
    return f"{cluster.options.log_prefix}.fingerprint"


def commit_metadata(infos: Mapping[str, TopicInfo]) -> str:
    """Return a commit's metadata: the ids of the topics that it belongs to."""
    return json.dumps({topic: infos[topic].id for topic in (PAGES, FINGERPRINTS)}, separators=(",", ":"))


class KafkaPageConsumer(PageConsumer):
    """See PageConsumer. Rebalances are cooperative: partitions that stay go on undisturbed."""

    def __init__(self, cluster: KafkaCluster, linger_ms: int) -> None:
        """A broker holds pages back for `linger_ms`, unless MIN_GATHERED_BYTES of them wait."""
        self._cluster = cluster
        self._linger_ms = linger_ms
        self._name = cluster.name(PAGES)
        self._same = KafkaTopicIdentity(cluster, [PAGES, FINGERPRINTS])
        self._metadata = commit_metadata(self._same.infos)
        self._next: dict[int, int] = {}
        self._started: dict[int, PartitionStart] = {}
        self._stopped: set[int] = set()
        self._moved: set[int] = set()
        """Partitions that came or went during the present poll."""
        self._missing = MissingOffsets(cluster, PAGES, self._same, self._gone)
        self._unconfirmed: dict[int, int] = {}
        self._commit_again_at = 0.0
        self._paused: set[int] = set()
        self._long_pause_at = 0.0
        self._error: SimstreamError | None = None
        self._closing = False
        self._consumer = self._join()

    def poll(self, limit: int, timeout: float) -> PollResult:
        end = time.monotonic() + timeout
        self._pause(limit == 0)
        if self._unconfirmed and time.monotonic() >= self._commit_again_at:
            self._commit_again_at = time.monotonic() + COMMIT_AGAIN_S
            self.commit(self._unconfirmed)
        while True:
            self._same.check()
            if self._watch.has_lost_brokers:
                end_client(self._consumer.close)  # this also gives back all partitions
                self._forget(list(self._next))  # else the client has not ended in time
                self._consumer = self._join()
            for partition in self._missing.look(self._next):
                self._seek(partition, self._next[partition])
            left = 0.0 if self._started or self._stopped else max(0.0, end - time.monotonic())
            self._moved.clear()
            records = self._records(consume(self._consumer, max(1, limit), min(left, STEP_S)))
            if records or self._started or self._stopped or left <= 0:
                break
        started, self._started = list(self._started.values()), {}
        stopped, self._stopped = list(self._stopped), set()
        return PollResult(records, started, stopped)

    def _pause(self, wanted: bool) -> None:
        """Pause or resume all partitions. A partition that comes during the pause is read all the same."""
        wanted_now = set(self._next) if wanted else set()
        if wanted and not self._paused:
            self._long_pause_at = time.monotonic() + LONG_PAUSE_S
        rest, wake = wanted_now - self._paused, (self._paused - wanted_now) & self._next.keys()
        if rest:
            self._consumer.pause([TopicPartition(self._name, partition) for partition in rest])
        if wake:
            self._consumer.resume([TopicPartition(self._name, partition) for partition in wake])
        for partition in wake:  # the client dropped what it had fetched: tell it where to go on
            self._seek(partition, self._next[partition])
        self._paused = wanted_now

    def _records(self, messages: Sequence[Any]) -> list[Record]:
        """Return the records of partitions that this member owned both before and after it read them."""
        if self._error is not None:
            raise self._error
        records: list[Record] = []
        stray: set[int] = set()
        now_ms = int(time.time() * 1000)  # the time of a page that came without one
        for message in messages:
            if message.error() is not None:
                self._on_message_error(message)
                continue
            record = to_record(message, now_ms)
            if record.partition in self._moved or record.partition not in self._next:
                stray.add(record.partition)  # read before the partition came or went: drop it
            else:
                records.append(record)
                self._next[record.partition] = record.offset + 1
        for partition in stray & self._next.keys():
            self._seek(partition, self._next[partition])
        return records

    def commit(self, offsets: Mapping[int, int]) -> None:
        """See PageConsumer. Does not wait for the broker.

        After a lost commit pages are read again, and the acceptor skips them.
        """
        ours = {p: offset for p, offset in offsets.items() if p in self._next}
        if not ours:
            return
        self._same.check()
        if not self._unconfirmed:
            self._commit_again_at = time.monotonic() + COMMIT_AGAIN_S
        self._unconfirmed |= ours
        try:
            self._consumer.commit(offsets=self._partitions(ours), asynchronous=True)
        except KafkaException as error:
            self._on_commit(error.args[0], [])

    def restart(self) -> None:
        self._settle_commits()
        for start in self._starts(list(self._next)):
            self._seek(start.partition, start.offset)
            self._missing.forget(start.partition)
            self._next[start.partition] = start.offset
            self._started[start.partition] = start

    def positions(self) -> dict[int, int]:
        return dict(self._next)

    def lag(self) -> dict[int, int]:
        """See PageConsumer. The end is that of the last fetch. During a long pause, a broker is asked."""
        ends: dict[int, int] = {}
        if self._paused and time.monotonic() >= self._long_pause_at and self._same.answers():
            with suppress(LogError):  # without an answer, the last fetch has to do
                ends = self._cluster.offsets_of(PAGES, sorted(self._paused), "open end", LAG_S)
        out = {}
        for partition, offset in self._next.items():
            _, fetched = self._consumer.get_watermark_offsets(TopicPartition(self._name, partition), cached=True)
            out[partition] = max(0, max(fetched, ends.get(partition, 0)) - offset)
        return out

    def answers(self) -> bool:
        return self._same.answers()

    def close(self) -> None:
        """See Closing. Waits for the commits, then leaves the group."""
        self._closing = True
        try:
            self._settle_commits()
        finally:
            end_client(self._consumer.close)

    def _join(self) -> Any:
        self._watch = ClientWatch()
        fixed = {
            **FIXED,
            **self._watch.settings,
            "group.id": group_of(self._cluster),
            "client.id": member_name(self._cluster, "fingerprint"),
            "error_cb": note_error,
            "on_commit": self._on_commit,
        }
        # The broker gathers pages: otherwise each small page of a slow stream would cost a fetch and a turn.
        linger = {"fetch.min.bytes": MIN_GATHERED_BYTES, "fetch.wait.max.ms": self._linger_ms}
        if not self._linger_ms or linger.keys() & self._cluster.options.client.keys():
            linger = {}  # with our least bytes, a wait set by the user would hold every page back
        consumer = make(Consumer, self._cluster.config("fingerprint", {**DEFAULTS, **GROUP, **linger}, fixed))
        consumer.subscribe(
            [self._name], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        return consumer

    def _on_assign(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Begin each partition at its commit, or at its low watermark. `poll` raises the errors."""
        if self._closing or consumer is not self._consumer:
            return  # the client takes them and gives them back; while it leaves the group, it answers no question
        numbers = [where.partition for where in partitions]
        try:
            if numbers:
                self._same.check_now()
            starts = self._starts(numbers)
        except SimstreamError as error:
            self._error = error
            starts = []
        consumer.incremental_assign([TopicPartition(self._name, s.partition, s.offset) for s in starts])
        # The client remembers that a partition was paused when it left: it would stay paused for ever.
        consumer.resume([TopicPartition(self._name, s.partition) for s in starts])
        for start in starts:
            self._next[start.partition] = start.offset
            self._started[start.partition] = start
            self._moved.add(start.partition)

    def _on_revoke(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        if consumer is self._consumer:  # else it is a client before this one, whose end took long
            self._forget([where.partition for where in partitions])
        consumer.incremental_unassign(partitions)

    def _forget(self, partitions: Sequence[int]) -> None:
        known: tuple[dict[int, Any], ...] = (self._next, self._started, self._unconfirmed)
        for partition in partitions:
            self._missing.forget(partition)
            for by_partition in known:
                by_partition.pop(partition, None)
            self._paused.discard(partition)
            self._stopped.add(partition)
            self._moved.add(partition)

    def _starts(self, partitions: Sequence[int]) -> list[PartitionStart]:
        """Return where these partitions begin: at a commit that names these topics, else at the low watermark."""
        if not partitions:
            return []
        wanted = [TopicPartition(self._name, partition) for partition in partitions]
        committed = ask_group(  # not this member, which may be lost while the group still gives it partitions
            self._cluster, group_of(self._cluster), lambda asked, left: asked.committed(wanted, timeout=left)
        )
        usable = {c.partition: c.offset for c in committed if c.offset >= 0 and c.metadata == self._metadata}
        missing = [partition for partition in partitions if partition not in usable]
        begins = (self._cluster.offsets_of(PAGES, missing, "first") if missing else {}) | usable
        return [PartitionStart(p, begins[p], p not in usable) for p in sorted(partitions)]

    def _on_message_error(self, message: Any) -> None:
        error, partition = message.error(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            if partition in self._next and partition not in self._moved:
                self._next[partition] = max(self._next[partition], message.offset())
        elif error.code() in OUT_OF_RANGE:
            if partition in self._next:  # else it went in this very poll
                self._missing.note(partition)
        elif error.code() == KafkaError._BAD_MSG:
            raise damaged(message)
        elif error.fatal() or error.code() in REFUSED:
            raise self._cluster.make_error(KafkaException(error), PAGES, "Read", group_of(self._cluster))
        else:
            logger.debug("reading %s: %s", self._name, error.str())

    def _gone(self, partition: int, offset: int, low: int) -> LogError:
        """Return the error for an offset that the broker no longer has."""
        what = f"{self._name} has no offset {offset} in partition {partition} any more"
        if offset < low:
            how = command_hints.where(f"kafka://{self._cluster.servers}", self._cluster.options)
            rest = f"simstream source skip {how}; add the judge's --state DIR if frames were removed, too"
            return LogError(what, f"give up the pages that were removed unread: {rest}")
        return LogError(
            f"{what}: the broker has lost pages that it had accepted",
            "create the topic again and send its pages again: pages at the lost offsets would get no verdict",
        )

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        if error is not None:
            # After a rebalance this is usual: the new owner of the partition reads those pages again.
            logger.debug("a commit of %s was refused: %s", self._name, error.str())
            return
        for where in partitions:
            if where.error is None and self._unconfirmed.get(where.partition, -1) <= where.offset:
                self._unconfirmed.pop(where.partition, None)

    def _settle_commits(self) -> None:
        """Send unconfirmed commits again and wait for them, but not for a broker that is away."""
        if self._unconfirmed and not self._same.away:
            try:
                self._consumer.commit(offsets=self._partitions(self._unconfirmed), asynchronous=False)
            except KafkaException as error:
                self._on_commit(error.args[0], [])
        self._unconfirmed.clear()

    def _partitions(self, offsets: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._name, p, offset, self._metadata) for p, offset in offsets.items()]

    def _seek(self, partition: int, offset: int) -> None:
        seek(self._consumer, TopicPartition(self._name, partition, offset))


def usable_commits(cluster: KafkaCluster) -> dict[int, int]:
    """Return the group's commits that name the topics as they are now. Raises TopicMissing, BrokerUnreachable."""
    infos = cluster.describe([PAGES, FINGERPRINTS])
    metadata = commit_metadata(infos)
    wanted = [TopicPartition(cluster.name(PAGES), partition) for partition in range(infos[PAGES].partitions)]
    found = ask_group(
        cluster, group_of(cluster), lambda consumer, timeout: consumer.committed(wanted, timeout=timeout)
    )
    return {where.partition: where.offset for where in found if where.offset >= 0 and where.metadata == metadata}


def set_group_offsets(cluster: KafkaCluster, offsets: Mapping[int, int | None]) -> None:
    """Set the group's commits. For the offset None it writes a commit without topics, which no fingerprinter uses.

    Raises LogLocked while the group has members.
    """
    infos = cluster.describe([PAGES, FINGERPRINTS])
    group = group_of(cluster)
    members = len(group_state(cluster, group).members)
    if members:
        raise group_busy(group, members)
    metadata = commit_metadata(infos)
    name = cluster.name(PAGES)
    wanted = [
        TopicPartition(name, p, 0, FORGOTTEN) if offset is None else TopicPartition(name, p, offset, metadata)
        for p, offset in sorted(offsets.items())
    ]
    request = [ConsumerGroupTopicPartitions(group, wanted)]

    def ask(patience: float) -> None:
        (future,) = cluster.admin().alter_consumer_group_offsets(request, request_timeout=GROUP_REQUEST_S).values()
        try:
            for done in cluster.answer(future, patience).topic_partitions:
                if done.error is not None:
                    raise KafkaException(done.error)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP):
                raise group_busy(group, 1) from None
            raise

    cluster.ask(ask, PAGES, operation="Read", group=group)


def group_busy(group: str, members: int) -> LogLocked:
    """Return the error for a group that is in use."""
    return LogLocked(
        f"the group {group} has running members ({members})",
        "stop the fingerprinters first; a killed one stays a member for another 6 s",
    )
