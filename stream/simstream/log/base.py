"""Defines the interface of a log: topics of records, appended once and read in order, and its types.

Two implementations keep it: `local` (a directory) and `kafka`. One contract suite tests both
(`tests/contract/test_log.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, NamedTuple

from simstream.closing import Closing
from simstream.errors import PositionMissing, TopicMissing
from simstream.log.options import MATCHES
from simstream.log.participants import LogMembers
from simstream.model import Record

MAX_COPIES = 3
"""The most copies of the index; `Log.running` lists the matchers of each."""
POSITION_KEY = b"judge"
"""The key of every record of `positions`, so that compaction keeps the last one."""


class TopicInfo(NamedTuple):
    """A topic as it exists now. `id` is unique: a topic that was deleted and created again has a new id. `name` is
    the full name."""

    name: str
    id: str
    partitions: int


REPLICATION = "replicas"
"""In place of a setting's name: how many replicas each partition has."""


class TopicDifference(NamedTuple):
    """A setting of a topic that does not fit.

    If the difference `breaks` a rule, no role works on that topic. Any other difference endangers a promise of the
    service, such as how long it keeps the log.
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
    """A partition of `pages` that a PageConsumer begins to read at `offset`.

    `first` is true if no usable commit was found: the next frame must carry the flag `first`.
    """

    partition: int
    offset: int
    first: bool


@dataclass(frozen=True, slots=True)
class PollResult:
    """What one `PageConsumer.poll` brought.

    Apply `stopped` first: forget these partitions and their work in flight. Then apply `started`. Then read
    `records`, which belong to running partitions.
    """

    records: Sequence[Record] = ()
    started: Sequence[PartitionStart] = ()
    stopped: Sequence[int] = ()


Placed = Callable[[int, int], None]
"""Called with the partition and the offset of a written record; the offset is -1 if the log does not know it."""


class Appender(Closing):
    """Appends records to one topic, in order, with a bounded number in flight.

    `append` waits while the queue is full. After a failed delivery every call raises DeliveryFailed. Then discard
    the appender, and append all records behind the last acknowledged one again with a new appender.
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

        Without `partition` the key decides (murmur2, as in Kafka's Java client). `timestamp` is in ms since 1970;
        the default is now. The appender calls `placed` once the record is safely written, within this call or a
        later one. It never does so for an unwritten record. Raises DeliveryFailed. Raises RecordTooLarge if the
        topic does not admit the record; then nothing is queued, and the appender stays usable.
        """

    @abstractmethod
    def acknowledged(self) -> int:
        """Return how many records, counted from the first without a gap, are safely written. Does not wait.

        Raises RecordTooLarge, with the record's `number`, once for each record that only the broker found too
        large. The count then passes over that record, and the appender stays usable. For `fingerprints` such a
        record is a DeliveryFailed.
        """

    @abstractmethod
    def flush(self, timeout: float) -> int:
        """Wait until all records are acknowledged, or until `timeout` seconds are over.

        Returns what `acknowledged` returns, and raises what it raises.
        """

    @abstractmethod
    def discard(self) -> None:
        """Close at once and drop all records in flight. They may still arrive."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an error discard, without a wait for the records in flight."""
        if kind is None:
            self.close()
        else:
            self.discard()


ReaderStart = int | Literal["end"] | Mapping[int, int]
"""Where a reader begins: an offset for every partition, the end, or an offset for each partition."""


class Reader(Closing):
    """Reads committed records of one topic, every partition, without a group.

    Within a partition records come in the order of their offsets.
    """

    @abstractmethod
    def poll(self, limit: int, timeout: float) -> list[Record]:
        """Return up to `limit` records; an empty list after `timeout` seconds without a record.

        Raises LogDamaged, TopicRecreated, BrokerUnreachable (after the log's patience).
        """

    @abstractmethod
    def caught_up(self) -> bool:
        """Whether `poll` has returned every record that was committed before this call.

        On Kafka readers see a transaction a few ms after `Publisher.publish` returns.
        """

    @abstractmethod
    def passed(self, ends: Mapping[int, int]) -> bool:
        """Whether `poll` has returned all records below these offsets, per partition. Asks no broker."""

    @abstractmethod
    def pause(self, partitions: Collection[int]) -> None:
        """From now on pause exactly these partitions; resume all others.

        `poll` returns no record of a paused partition. Once the partition is resumed, `poll` goes on where it
        stopped: no record is lost or comes twice. `caught_up` and `passed` count paused partitions like all others.
        The reader keeps at most a few records of a paused partition in memory. A call that changes nothing is
        free. On Kafka a resumed partition is fetched again.
        """

    def answers(self) -> bool:
        """Whether the topic can be reached; if not, `poll` waits. Does not wait itself."""
        return True

    def held_back(self) -> str:
        """Say why records that were read are not returned yet; empty if nothing holds them back."""
        return ""


class PageConsumer(Closing):
    """A member of the group of fingerprinters: reads `pages`, commits offsets."""

    @abstractmethod
    def poll(self, limit: int, timeout: float) -> PollResult:
        """Wait up to `timeout` seconds for up to `limit` records.

        With `limit` 0 it reads nothing: it tells the group that this member lives, and returns which partitions
        came and went. Call it at least every few seconds; otherwise the group takes this member for dead.

        Raises TopicRecreated if `pages` or `fingerprints` was created again since the start.
        """

    @abstractmethod
    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit the next offset of each partition, with the ids of both topics. Skips partitions that this member
        no longer owns."""

    @abstractmethod
    def restart(self) -> None:
        """Go back to the committed offsets of all owned partitions. The next `poll` returns a PartitionStart for
        each."""

    def answers(self) -> bool:
        """Whether the topics can be reached; if not, `poll` returns nothing. Does not wait itself."""
        return True

    @abstractmethod
    def positions(self) -> dict[int, int]:
        """Return per owned partition the offset below which `poll` has returned all records.

        Markers of transactions and uncommitted records may lie between the last record and this offset.
        """

    @abstractmethod
    def lag(self) -> dict[int, int]:
        """Return per owned partition how many offsets are not yet read. Waits for a broker, for a moment, only
        during a long pause (`poll` with the limit 0)."""


class Election(Closing):
    """A judge's candidacy: one of all candidates over one log is elected, in any process.

    The election says who should publish; `Publisher` alone decides who may. So two judges may believe for a moment
    that they are elected, without harm. `close` steps down at once. A killed candidate counts for some seconds
    more.
    """

    @property
    @abstractmethod
    def elected(self) -> bool:
        """Whether this candidate is elected now, as far as it knows. Does not wait."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether this candidate was elected and is no longer.

        Another candidate may be elected, or none yet. This one may be elected again.
        """


class ShardMembership(Closing):
    """A matcher's membership in the group that shares the shards of one copy of the index.

    A shard has at most one owner, except for a moment: a paused or cut-off member may not know yet that its shards
    went to another member. So both may write answers. `close` leaves the group at once, except for a static member:
    its shards wait for it for one session. A killed member keeps its shards for one session, too.
    """

    @property
    @abstractmethod
    def owned(self) -> frozenset[int]:
        """The shards that this member owns now, as far as it knows; none after `close`. Does not wait.

        Raises LogError if the broker refuses this member, or if the member can no longer hear of the group.
        """


class Publisher(Closing):
    """Publishes verdicts and position in one atomic step.

    At most one publisher lives: a newer one fences it. On a local log a lock does this: `start` raises LogLocked
    while another publisher lives.
    """

    @abstractmethod
    def committed(self) -> bytes | None:
        """Return the last committed position, or None if there is none. Fences no publisher; may be called before
        `start`."""

    def check(self) -> None:
        """Raise TakenOver if a newer publisher has started, WrongLog if the log was restored from an older copy.

        A publisher with nothing to publish would not notice otherwise. Read-only and quick: returns if the broker
        does not answer.

        May be called beside a `publish` in another thread.
        """

    @abstractmethod
    def start(self) -> bytes | None:
        """Fence the predecessor at once, end its open transaction, and return the last committed position, or None.

        Raises PositionMissing if `verdicts` has or had records and `positions` has none.
        """

    @abstractmethod
    def publish(self, verdicts: Sequence[OutgoingVerdict], position: bytes) -> None:
        """Publish all verdicts and the position, or nothing; return once they are committed.

        After a failure it sends the same bytes again. After a fencing the publisher starts again and compares the
        committed position with its own. If it equals `position`, the work is done. If it equals the one before, it
        sends again. Otherwise it raises TakenOver. It also does so for a newer publisher that has not published.

        Raises BrokerUnreachable and, on a local log, DiskFull. Then call it again with the same arguments: it
        publishes once.
        """

    @property
    @abstractmethod
    def results(self) -> Mapping[str, int]:
        """Return how many transactions ended in each way since this publisher was made.

        The ways: `committed`, `found` (committed, although its end was not seen), `aborted`, `fenced`.
        """


class Log(Closing):
    """The place of the topics. Cheap to open: it reads nothing before a method asks for it."""

    @abstractmethod
    def create_topics(
        self, partitions: int | None = None, shards: int | None = None, verdict_partitions: int | None = None
    ) -> list[TopicReport]:
        """Create the missing topics; never change an existing one, but report its settings that do not fit.

        Never creates `pages_topic`: raises TopicMissing if it does not exist.

        `partitions` is for `pages`. The default is the number that exists, else 8 on Kafka and 1 in a directory.
        `verdicts` get `verdict_partitions`, or as many as `pages` have. `shards` is the number of partitions of
        `matches`: a power of two, 1 to 256. Without `shards`, `matches` is neither created nor reported.
        """

    def check(self) -> None:
        """Raise SettingsError if the log's settings are wrong. Asks no broker and creates nothing."""

    def differences(self, topics: Sequence[str]) -> dict[str, list[TopicDifference]]:
        """Return the settings of existing topics that do not fit, by topic.

        The number of partitions of `pages`, `verdicts` and `matches` is not checked. Settings that this user may
        not see count as fitting. Raises TopicMissing, BrokerUnreachable.
        """
        return {topic: [] for topic in topics}

    @abstractmethod
    def topic(self, topic: str) -> TopicInfo:
        """Return the topic as it exists. Raises TopicMissing, BrokerUnreachable."""

    def shards(self) -> int | None:
        """Return the number of shards: the partitions of `matches`. None if there is no such topic.

        Raises BrokerUnreachable, NotPermitted.
        """
        return self.partitions_of(MATCHES)

    def partitions_of(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None if it is missing. Raises BrokerUnreachable,
        NotPermitted."""
        try:
            return self.topic(topic).partitions
        except TopicMissing:
            return None

    @abstractmethod
    def low_watermarks(self, topic: str) -> dict[int, int]:
        """Return per partition the first offset that still exists."""

    def retention_ms(self, topic: str) -> int | None:
        """Return how long the topic keeps its records, in ms; None for ever."""
        return None

    @abstractmethod
    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return per partition the offset behind all records that are committed now.

        A reader of a growing topic can stop there.
        """

    def uncommitted(self, topic: str) -> dict[int, int]:
        """Return how many offsets lie behind the first open transaction of each partition that has one."""
        return {}

    @abstractmethod
    def open_appender(self, topic: str) -> Appender:
        """Return an appender to this topic. Raises TopicMissing, BrokerUnreachable."""

    @abstractmethod
    def open_reader(self, topic: str, start: ReaderStart = 0) -> Reader:
        """Return a reader that begins at offset `start` in every partition, or at the "end".

        `start` may also name the offset per partition; other partitions begin at 0. If an offset is gone, the
        partition begins at its low watermark. Raises TopicMissing, BrokerUnreachable. Raises LogError if an offset
        of a mapping, or the one offset of a topic with one partition, is behind the end.
        """

    @abstractmethod
    def open_consumer(self, linger_ms: int = 0) -> PageConsumer:
        """Return a member of the group of fingerprinters.

        A broker may hold pages back for `linger_ms`, so that more come at once. A local log ignores it.
        """

    @abstractmethod
    def open_publisher(self) -> Publisher:
        """Return a publisher of this log. It fences no other publisher before its `start`."""

    @abstractmethod
    def join_election(self) -> Election:
        """Stand for election as the judge of this log, and return the candidacy.

        Raises TopicMissing, BrokerUnreachable.
        """

    @abstractmethod
    def join_matchers(self, instance: str | None, copy: int) -> ShardMembership:
        """Join the matchers that share the shards of this copy of the index, counted from 1.

        `instance` makes a static member. It must be the same after a restart, and no other member of this copy may
        have it. A static member that restarts within its session keeps its shards, and no shard moves. A local log
        ignores `instance`: one process owns all shards.

        Raises TopicMissing, BrokerUnreachable.
        """

    @abstractmethod
    def source_offsets(self) -> dict[int, int]:
        """Return the fingerprinters' usable commits, per partition. Joins no group."""

    @abstractmethod
    def running(self) -> LogMembers:
        """Return the processes that work on this log. Joins no group, so no partition moves."""

    @abstractmethod
    def set_group_offsets(self, offsets: Mapping[int, int | None]) -> None:
        """Set the fingerprinters' committed offsets while no fingerprinter runs (`source rewind`).

        The offset None forgets a partition's commit: its next PartitionStart is at the low watermark, and
        `first`.
        """


def position_missing(verdicts: str, positions: str) -> PositionMissing:
    """Return the error for verdicts without a position to go on from."""
    return PositionMissing(
        f"{verdicts} has or had records, {positions} has none",
        "restore the topic `positions`, or publish under another prefix: otherwise every verdict would come twice",
    )
