"""The interface of a log: topics of records, appended once and read in order; its types and options.

Two implementations keep it, `local` (a directory) and `kafka`, under one contract suite
(`tests/contract/test_log.py`). A topic is named by its short name (`pages`, `fingerprints`, `verdicts`,
`positions`, `dead-letters`); the log puts its prefix before it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, NamedTuple

from simstream.closing import Closing
from simstream.log.participants import LogMembers
from simstream.model import Record

PAGES = "pages"
FINGERPRINTS = "fingerprints"
VERDICTS = "verdicts"
POSITIONS = "positions"
DEAD_LETTERS = "dead-letters"
TOPICS = (PAGES, FINGERPRINTS, VERDICTS, POSITIONS, DEAD_LETTERS)
POSITION_KEY = b"judge"
"""The key of every record of `positions`, so that compaction keeps the last one."""


class TopicInfo(NamedTuple):
    """`id` is unique: a topic deleted and made again has another one. `name` is the full name."""

    name: str
    id: str
    partitions: int


class TopicDifference(NamedTuple):
    """A setting of a topic that does not fit.

    If it `breaks` a rule, no role may work on that topic. Any other difference endangers what the service promises,
    such as how long the log is kept.
    """

    setting: str
    found: str | None
    wanted: str
    """How the setting differs from the right value, such as `not -1` or `less than 5`."""
    breaks: bool = False

    def __str__(self) -> str:
        return f"{self.setting}: {self.found}, {self.wanted}"


class TopicReport(NamedTuple):
    """What `create_topics` did about one topic; `differs` says what does not fit, setting by setting."""

    name: str
    created: bool
    differs: tuple[str, ...] = ()


class OutgoingVerdict(NamedTuple):
    """One verdict ready to be published."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


class PartitionStart(NamedTuple):
    """A partition of `pages` that a source begins to read at `offset`.

    `first` is true where no usable commit was found: the next frame must carry the flag `first`.
    """

    partition: int
    offset: int
    first: bool


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one `PageConsumer.poll` brought.

    Apply `stopped` first (forget these partitions and all of theirs that is in flight), then `started`, then
    read `records`, which belong to partitions that are running after that.
    """

    records: Sequence[Record] = ()
    started: Sequence[PartitionStart] = ()
    stopped: Sequence[int] = ()


Placed = Callable[[int, int], None]
"""Hears partition and offset of a record that was written; the offset is -1 where the log does not know it."""


class Appender(Closing):
    """Appends records to one topic, in order, with a bounded number in flight.

    Where the queue is full `append` waits. After a failed delivery every call raises DeliveryFailed; the
    appender must then be discarded, and all that followed the last acknowledged record appended again with a
    new one.
    """

    waiting: Callable[[], None] = staticmethod(lambda: None)
    """Called about ten times a second while `append` waits for room in its queue."""

    @abstractmethod
    def append(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        placed: Placed | None = None,
    ) -> int:
        """Queue one record and return its number, counted from 1 in this appender.

        Without `partition` the key decides (murmur2, as Java's client does it). `timestamp` is in ms since
        1970, now without it. `placed` is told where the record is once it is safely written, within this or a
        later call of the appender; of a record that is not written it hears nothing. Raises RecordTooLarge where
        the topic does not admit it (nothing is queued, the appender stays usable), DeliveryFailed.
        """

    @abstractmethod
    def acknowledged(self) -> int:
        """How many records, counted from the first without a gap, are safely written. Does not wait.

        Raises RecordTooLarge, once, with its `number`, for each record that only the broker found too large (not
        for `fingerprints`, where it is a DeliveryFailed); the count passes over it, the appender stays usable.
        """

    @abstractmethod
    def flush(self, timeout: float) -> int:
        """Wait until all are acknowledged or the time is over; returns `acknowledged()`, and raises as it."""

    @abstractmethod
    def discard(self) -> None:
        """Close at once and drop what is in flight (it may still arrive)."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, or discard where an error leaves the block: then nobody waits for what is in flight."""
        if kind is None:
            self.close()
        else:
            self.discard()


class Reader(Closing):
    """Reads committed records of one topic, every partition, without a group.

    Order is that of offsets within a partition.
    """

    @abstractmethod
    def poll(self, limit: int, timeout: float) -> list[Record]:
        """Up to `limit` records; an empty list after `timeout` seconds without any.

        Raises LogDamaged, TopicRecreated, BrokerUnreachable (after the log's patience)."""

    @abstractmethod
    def caught_up(self) -> bool:
        """Whether everything that was committed at the moment of this call has been returned by `poll`.

        Kafka lets readers see a transaction a few ms after `Publisher.publish` has returned.
        """

    @abstractmethod
    def passed(self, ends: Mapping[int, int]) -> bool:
        """Whether all before these offsets, per partition, has been returned by `poll`. Asks nobody."""

    def answers(self) -> bool:
        """False while whoever holds the topic is away; `poll` then waits. Does not wait itself."""
        return True


class PageConsumer(Closing):
    """A member of the group of fingerprinters: reads `pages`, commits offsets."""

    @abstractmethod
    def poll(self, limit: int, timeout: float) -> PollResult:
        """Wait up to `timeout` seconds for up to `limit` records.

        With `limit` 0 nothing is read: the group hears that this member lives, and what came and went is told.
        Call it at least every few seconds, or the group takes this member for dead.

        Raises TopicRecreated where `pages` or `fingerprints` is no longer the topic of the start."""

    @abstractmethod
    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit the next offset per partition, with the ids of both topics; partitions no longer owned are
        passed over."""

    @abstractmethod
    def restart(self) -> None:
        """Go back to the committed offsets of all owned partitions: the next `poll` has a Start for each."""

    def answers(self) -> bool:
        """False while whoever holds the topics is away; `poll` then brings nothing. Does not wait itself."""
        return True

    @abstractmethod
    def positions(self) -> dict[int, int]:
        """Per owned partition, the offset below which `poll` has returned all records.

        Markers of transactions and uncommitted records may lie between the last record and this offset."""

    @abstractmethod
    def lag(self) -> dict[int, int]:
        """Per owned partition, how many offsets are not yet read. Does not ask the broker."""


class Election(Closing):
    """A judge's standing for election: of all that stand over one log, in whatever process, one is elected.

    It says who should publish; who may is decided by `Publisher` alone. So for a moment two may believe to be
    elected, and nothing comes of it. `close` steps down at once; one that was killed counts for some seconds more.
    """

    @property
    @abstractmethod
    def elected(self) -> bool:
        """Whether this one is elected now, as far as it knows. Does not wait."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether it was elected and is no longer: another may be, or nobody yet, or soon itself again."""


class Publisher(Closing):
    """Publishes verdicts and position in one atomic step; at most one lives, a newer one fences it.

    (On a local log the lock does that: `start` raises LogLocked while another one lives.)
    """

    @abstractmethod
    def committed(self) -> bytes | None:
        """The last committed position, None without one. Fences nobody, and may be asked before `start`."""

    def check(self) -> None:
        """Raise TakenOver where a newer publisher has started; for one that has nothing to publish just now, and so
        would not hear of it. Fences nobody, does not wait long: no answer is no news.

        May be called beside a `publish` in another thread."""

    @abstractmethod
    def start(self) -> bytes | None:
        """Fence the predecessor at once, end its open transaction, return the last committed position (None: none).

        Raises PositionMissing where `verdicts` has records and `positions` has none."""

    @abstractmethod
    def publish(self, verdicts: Sequence[OutgoingVerdict], position: bytes) -> None:
        """Publish all of it or nothing, and return when it is committed.

        What failed is sent again, the same bytes. After a fencing it starts anew and compares the committed
        position with its own: equal to `position`, it is done; equal to the one before, it sends again; any
        other raises TakenOver, and so does a newer publisher that has not published yet.

        Raises BrokerUnreachable and, on a local log, DiskFull: then it can be called again with the same
        arguments, and publishes once."""

    @property
    @abstractmethod
    def results(self) -> Mapping[str, int]:
        """How many transactions ended so, since this publisher was made: `committed`, `found` (committed although
        its end was not seen), `aborted`, `fenced`."""


MAX_FRAME_BYTES = 8 << 20
"""What `fingerprints` admits: far more than a frame should have."""
DEAD_LETTER_ROOM_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a log needs to know beside its address."""

    prefix: str = "simstream"
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)
    """Settings passed through to the Kafka client (`[kafka]` in the file); some are secret."""
    patience: float = 30.0
    """Seconds that an unreachable broker is waited for before BrokerUnreachable."""
    max_record_bytes: int = 1 << 20
    publish_to: str | None = None
    """The prefix of `verdicts` and `positions`, and of the judges' election; without it `prefix`. So one log may be
    judged under several policies side by side."""

    @property
    def judged_prefix(self) -> str:
        """The prefix of all that a judge publishes, elects and fences by."""
        return self.publish_to or self.prefix

    def full_name(self, topic: str) -> str:
        """The name of a topic with its prefix."""
        return f"{self.judged_prefix if topic in (VERDICTS, POSITIONS) else self.prefix}.{topic}"


def largest_record(topic: str, options: LogOptions) -> int:
    """The bytes of a record that a topic admits, as `create_topics` sets it.

    A dead letter has room for the whole page and for what is said about it.
    """
    if topic == PAGES:
        return options.max_record_bytes
    return max(MAX_FRAME_BYTES, options.max_record_bytes + DEAD_LETTER_ROOM_BYTES)


class Log(Closing):
    """A place where the topics live. Cheap to open: nothing is read before it is asked for."""

    kind: Literal["local", "kafka"]

    @abstractmethod
    def create_topics(self, partitions: int | None = None) -> list[TopicReport]:
        """Make the topics that are missing; one that exists is never changed, and what would break a rule is said.

        `partitions` is for `pages`: without it, as many as there are, or 8 new ones on Kafka and 1 in a
        directory. `verdicts` get as many as `pages` have."""

    def check(self) -> None:
        """Raise SettingsError if the log's settings are wrong. Asks no broker and makes nothing."""

    def differences(self, topics: Sequence[str]) -> dict[str, list[TopicDifference]]:
        """Return the settings of existing topics that do not fit, by topic.

        The number of partitions of `pages` and `verdicts` is not checked. Settings that this user may not see count
        as fitting. Raises TopicMissing, BrokerUnreachable.
        """
        return {topic: [] for topic in topics}

    @abstractmethod
    def topic(self, topic: str) -> TopicInfo:
        """Raises TopicMissing, BrokerUnreachable."""

    @abstractmethod
    def low_watermarks(self, topic: str) -> dict[int, int]:
        """Per partition, the first offset that still exists."""

    def retention_ms(self, topic: str) -> int | None:
        """For how long the topic keeps its records, in ms; None where it keeps them for ever."""
        return None

    @abstractmethod
    def end_offsets(self, topic: str) -> dict[int, int]:
        """Per partition, the offset behind all that is committed now: where to stop reading a topic that grows."""

    @abstractmethod
    def appender(self, topic: str) -> Appender: ...

    @abstractmethod
    def reader(self, topic: str, start: int | Literal["end"] = 0) -> Reader:
        """`start`: the offset to begin at, in every partition (an offset that is no longer there: the low
        watermark), or "end"."""

    @abstractmethod
    def source(self, linger_ms: int = 0) -> PageConsumer:
        """Return a member of the group of fingerprinters.

        `linger_ms`: how long a broker may hold pages back, so that more come at once. A local log ignores it.
        """

    @abstractmethod
    def publisher(self) -> Publisher: ...

    @abstractmethod
    def election(self) -> Election:
        """Stand for election as the judge of this log. Raises TopicMissing, BrokerUnreachable."""

    @abstractmethod
    def source_offsets(self) -> dict[int, int]:
        """The fingerprinters' usable commits, per partition. Joins no group."""

    @abstractmethod
    def running(self) -> LogMembers:
        """Who works on this log. Joins no group, disturbs nobody."""

    @abstractmethod
    def set_group_offsets(self, offsets: Mapping[int, int | None]) -> None:
        """Set the fingerprinters' committed offsets while no fingerprinter runs (`source rewind`).

        None forgets a partition's commit: its next Start is at the low watermark, and `first`."""
