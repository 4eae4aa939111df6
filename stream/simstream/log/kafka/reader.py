"""Reads committed records of one Kafka topic without a group, and finds its last record."""

from __future__ import annotations

import gc
import time
from collections.abc import Collection, Mapping, Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from simstream.errors import BrokerUnreachable, LogDamaged, LogError
from simstream.log.base import Reader, ReaderStart
from simstream.log.kafka.client_end import end_client
from simstream.log.kafka.client_log import note_error
from simstream.log.kafka.client_watch import ClientWatch
from simstream.log.kafka.cluster import KafkaCluster, make
from simstream.log.kafka.missing_offsets import MAX_QUESTION_S, OUT_OF_RANGE, MissingOffsets
from simstream.log.kafka.topic_identity import KafkaTopicIdentity
from simstream.log.reader_start import check_start, start_offsets
from simstream.model import Record

DEFAULTS: Mapping[str, Any] = {
    "queued.max.messages.kbytes": 16 << 10,
    "queued.min.messages": 10_000,
    "fetch.message.max.bytes": 4 << 20,
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 5,
}
"""At most 16 MiB wait per consumer; one larger record still passes. With the default back-off of a second a busy
reader would wait for data that is there."""
FIXED: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "check.crcs": True,  # otherwise the client returns records with flipped bits
    "enable.partition.eof": True,  # the only way to pass the markers of transactions at a topic's end
}
MAX_BYTES = 16 << 20
"""The bytes of one poll, except for its last few messages; a larger message passes alone."""
STEP_S = 0.5
"""Seconds of waiting after which the reader checks the client's state and the topics' ids again."""
HOLD_S = 5.0
"""Seconds without a poll after which a client with a message that nobody takes fetches no more."""
MIN_WAIT_S = 0.001
"""The client rounds down to whole milliseconds: a shorter wait would return at once, again and again."""
_HEADERS = methodcaller("headers")
"""The client may return a broken list *and* leave an error set. The interpreter notices this in a call through
`methodcaller`. In a method call that it has specialized it would crash."""
_TRUNCATED = ("truncation", "No epoch found")
"""Words of the client about a log that was cut at its end: other records may be at the next offset by now."""


def seek(consumer: Any, place: TopicPartition) -> None:
    """Go on at this place: a client drops what it has fetched when a partition is paused."""
    try:
        consumer.seek(place)
    except KafkaException:  # the partition came a moment ago and is not being read yet: assign it again
        consumer.incremental_unassign([place])
        consumer.incremental_assign([place])


def to_record(message: Any, untimed_ms: int = 0) -> Record:
    """Return a client's message as a record; one without a timestamp gets `untimed_ms`. Cost: about 1.5 us."""
    try:
        found = _HEADERS(message)
        headers = tuple((name, value or b"") for name, value in found) if found else ()
    except (SystemError, UnicodeDecodeError):
        headers = _readable_headers(message)
    timestamp = message.timestamp()[1]
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        headers,
        timestamp if timestamp >= 0 else untimed_ms,
    )


def _readable_headers(message: Any) -> tuple[tuple[str, bytes], ...]:
    """Return a message's headers, without headers whose name is not UTF-8.

    The client fails at such a name, and leaves a list of pairs with an empty slot for it. Reading an empty slot
    would crash the interpreter, but the garbage collector passes over it.
    """
    try:
        pairs = [gc.get_referents(pair) for pair in _HEADERS(message) or ()]
    except (SystemError, UnicodeDecodeError):
        return ()  # this client keeps no list
    pairs = [sorted(pair, key=lambda part: not isinstance(part, str)) for pair in pairs]  # the name first
    return tuple((pair[0], pair[1] or b"") for pair in pairs if len(pair) == 2 and isinstance(pair[0], str))


def consume(consumer: Any, limit: int, timeout: float, taken: Sequence[Any] = ()) -> list[Any]:
    """Return up to `limit` messages, and about MAX_BYTES, as soon as one is there. `taken` are the first of them.

    The client alone would wait for all of them, and return everything that it has fetched. This makes about ten
    calls for 1,000 messages.
    """
    messages: list[Any] = list(taken) or consumer.consume(1, 0)
    if not messages and timeout > 0:
        messages = consumer.consume(1, max(timeout, MIN_WAIT_S))
    size = seen = 0
    while messages and len(messages) < limit:
        size += sum(len(message.value() or b"") for message in messages[seen:])
        seen = len(messages)
        if size >= MAX_BYTES:
            break
        fitting = (MAX_BYTES - size) * seen // (size + 1)  # if the next messages are as large as these
        more = consumer.consume(max(1, min(limit - seen, fitting, 2 * seen)), 0)
        if not more:
            break
        messages += more
    return messages


class KafkaReader(Reader):
    """See Reader."""

    def __init__(self, cluster: KafkaCluster, topic: str, start: ReaderStart) -> None:
        self._cluster = cluster
        self._topic = topic
        self._same = KafkaTopicIdentity(cluster, [topic])
        self._missing = MissingOffsets(cluster, topic, self._same, self._gone)
        self._next = self._begin(start)
        self._ends = dict(self._next)
        self._taken: list[Any] = []
        """A message that was taken from the client while nobody polled."""
        self._paused: frozenset[int] = frozenset()
        self._polled_at = time.monotonic()
        self._is_held = False
        """Whether the client fetches nothing until the next `poll`, as nobody has polled for a while."""
        self._open()

    def poll(self, limit: int, timeout: float) -> list[Record]:
        self._polled_at = time.monotonic()
        end = self._polled_at + timeout
        if self._is_held:
            self._is_held = False
            self._consumer.resume(self._places(self._next))
            self._assign()
        while True:
            self._same.check()
            self._take_up_new()
            for place in self._places(self._missing.look(self._next)):
                seek(self._consumer, place)
            if self._watch.has_lost_brokers:
                end_client(self._consumer.close)
                self._open()
            left = max(0.0, end - time.monotonic())
            taken, self._taken = self._taken, []
            records = self._records(consume(self._consumer, limit, min(left, STEP_S), taken))
            if records or left <= 0:
                return records

    def caught_up(self) -> bool:
        """See Reader. Asks the broker (a round trip) only if everything known so far has been read."""
        if not self.passed(self._ends):
            return False
        try:
            self._ends = self._cluster.offsets_of(self._topic, list(self._next), "end", MAX_QUESTION_S)
        except BrokerUnreachable:
            return False  # unknown; `poll` waits and raises
        return self.passed(self._ends)

    def passed(self, ends: Mapping[int, int]) -> bool:
        return all(self._next.get(partition, 0) >= end for partition, end in ends.items())

    def pause(self, partitions: Collection[int]) -> None:
        """See Reader. The client drops what it has fetched of a paused partition, and fetches it again later."""
        wanted = frozenset(partitions)
        to_pause, to_resume = wanted - self._paused, self._places(self._paused - wanted)
        self._paused = wanted
        self._taken = [message for message in self._taken if message.partition() not in to_pause]
        if self._is_held:
            return  # `poll` begins anew, and pauses these
        self._pause_client(to_pause)
        if to_resume:
            self._consumer.resume(to_resume)
        for place in to_resume:
            seek(self._consumer, place)

    def answers(self) -> bool:
        """See Reader. Also lets the client report: if nobody polls, its statistics would pile up.

        That takes a message where one waits. After HOLD_S without a poll the client stops fetching, so that it has
        nothing but reports."""
        if self._taken and not self._is_held and time.monotonic() - self._polled_at > HOLD_S:
            self._is_held = True
            self._pause_client(self._next)
        if self._is_held:
            self._consumer.consume(1, 0)  # only reports; `poll` begins anew at what was not given yet
        elif not self._taken:
            self._taken = self._consumer.consume(1, 0)
        return self._same.answers()

    def close(self) -> None:
        end_client(self._consumer.close)

    def _take_up_new(self) -> None:
        """Read partitions that were added since the start, from their first record on."""
        added = range(len(self._next), self._same.infos[self._topic].partitions)
        if added:
            self._next |= dict.fromkeys(added, 0)
            self._ends |= dict.fromkeys(added, 0)
            self._assign()

    def _open(self) -> None:
        """Begin to read at the next offsets."""
        self._watch = ClientWatch()
        fixed = {**FIXED, "group.id": f"{self._cluster.options.prefix}.reader", "error_cb": note_error}
        fixed |= self._watch.settings
        self._consumer: Any = make(Consumer, self._cluster.config(f"read-{self._topic}", DEFAULTS, fixed))
        self._assign()

    def _assign(self) -> None:
        self._taken = []  # each partition is read again from its next offset on
        for partition in self._next:
            self._missing.forget(partition)
        self._consumer.assign(self._places(self._next))
        self._pause_client(self._paused)

    def _places(self, partitions: Collection[int]) -> list[TopicPartition]:
        """Return where to go on in these partitions."""
        name = self._cluster.name(self._topic)
        return [TopicPartition(name, p, offset) for p, offset in self._next.items() if p in partitions]

    def _pause_client(self, partitions: Collection[int]) -> None:
        if places := self._places(partitions):
            self._consumer.pause(places)

    def _records(self, messages: list[Any]) -> list[Record]:
        records = []
        for message in messages:
            error = message.error()
            if message.partition() in self._paused and (error is None or error.code() == KafkaError._PARTITION_EOF):
                continue  # it comes again
            if error is None:
                record = to_record(message)
                records.append(record)
                self._next[record.partition] = record.offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                partition, offset = message.partition(), message.offset()
                self._next[partition] = max(self._next[partition], offset)
            elif error.code() in OUT_OF_RANGE:
                if any(word in error.str() for word in _TRUNCATED):
                    self._same.check_now()  # a topic that was created again explains it better
                    raise self._gone(message.partition(), self._next[message.partition()])
                self._missing.note(message.partition())
            elif error.code() == KafkaError._BAD_MSG:
                raise damaged(message)
            elif error.fatal() or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                # The client demands the name of a group; this reader uses no group.
                raise self._cluster.make_error(KafkaException(error), self._topic, "Read")
        return records

    def _begin(self, start: ReaderStart) -> dict[int, int]:
        partitions = range(self._same.infos[self._topic].partitions)
        ends = self._cluster.offsets_of(self._topic, partitions, "end")
        if start == "end":
            return ends
        check_start(self._cluster.name(self._topic), start, ends)
        wanted = start_offsets(start, partitions)
        lows = self._cluster.offsets_of(self._topic, partitions, "first")
        return {p: min(max(wanted[p], lows[p]), ends[p]) for p in partitions}

    def _gone(self, partition: int, offset: int, low: int = 0) -> LogError:
        """Return the error for an offset that the broker no longer has."""
        what = f"{self._cluster.name(self._topic)} has no offset {offset} in partition {partition} any more"
        again = "start it again: it goes on, or says what is missing"
        if offset < low:
            again += ". Keep records longer (retention): this one was removed before it was read"
            return LogError(what, again)
        return LogError(f"{what}: the brokers have lost records that they had accepted", again)


def damaged(message: Any) -> LogDamaged:
    """Return the error for a batch with a wrong checksum. The client alone would skip the batch."""
    return LogDamaged(
        f"{message.topic()} is damaged in partition {message.partition()}: {message.error().str()}",
        "check the disk of this partition's leader; another replica may hold the records undamaged",
    )


def last_record(cluster: KafkaCluster, topic: str) -> Record | None:
    """Return the last committed record of partition 0. Reads backwards in growing steps: a few round trips."""
    low = cluster.offsets(topic, "first")[0]
    end = cluster.offsets(topic, "end")[0]
    step = 16
    while end > low:
        start = max(low, end - step)
        last = None
        with KafkaReader(cluster, topic, start) as reader:
            while not reader.caught_up():
                for record in reader.poll(1000, 0.1):
                    last = record if record.partition == 0 else last
        if last is not None or start == low:
            return last
        step *= 16
    return None


def had_records(cluster: KafkaCluster, topic: str) -> bool:
    """Whether a topic has a committed record, or had any record that is gone, committed or not. Reads until the
    first."""
    if any(cluster.offsets(topic, "first").values()):
        return True
    with KafkaReader(cluster, topic, 0) as reader:
        while not reader.caught_up():
            if reader.poll(1, 0.1):
                return True
    return False
