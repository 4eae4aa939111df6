"""Reads records of a local topic from given offsets on, and follows new ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from simstream.errors import LogError, TopicRecreated
from simstream.log.base import Reader, ReaderStart
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.following import RecordFollower
from simstream.log.local.record_groups import POSITION
from simstream.log.local.topic_file import RecordCounts
from simstream.log.options import POSITIONS, VERDICTS
from simstream.log.reader_start import OffsetStart, check_start, demanded_offsets, start_offsets
from simstream.model import Record

PAUSE_S = 0.005
"""Seconds between two looks at a file without new records."""
CHECK_EVERY_S = 1.0
"""Seconds between two checks of the topics' ids."""


class LocalTopicIdentity:
    """Watches whether the topics still have the ids of the start."""

    def __init__(self, catalog: TopicCatalog, *topics: str) -> None:
        self._catalog = catalog
        self._ids = {topic: catalog.info(topic).id for topic in topics}
        self._stamp = catalog.stamp()
        self._next = time.monotonic() + CHECK_EVERY_S

    def id(self, topic: str) -> str:
        """Return the topic's id at the start."""
        return self._ids[topic]

    def check_now(self) -> None:
        """Raise TopicRecreated or TopicMissing if an id has changed."""
        self._next = 0.0
        self.check()

    def check(self) -> None:
        """Raise TopicRecreated or TopicMissing if an id has changed; looks at most once a second."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + CHECK_EVERY_S
        stamp = self._catalog.stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        for topic, known in self._ids.items():
            if self._catalog.info(topic).id != known:
                raise TopicRecreated(
                    f"{self._catalog.name(topic)} was deleted and created again while it was in use",
                    "start this process again: it then begins with the new topic",
                )


class LocalReader(Reader):
    """Reads one topic of a local log; each of its partitions can be paused.

    It begins with one follower for all partitions. A follower of paused and running partitions is split in two. Two
    followers that meet become one again: the one behind reads up to the place of the next one. So a pause costs a
    second pass over a part of the file, and no memory for that part.
    """

    def __init__(self, catalog: TopicCatalog, topic: str, start: ReaderStart) -> None:
        self._topic = topic
        self._same = LocalTopicIdentity(catalog, topic)
        first = RecordFollower(catalog, topic, None) if start == "end" else follow_from(catalog, topic, start)
        self._followers = [first]
        self._paused: frozenset[int] = frozenset()

    def poll(self, limit: int, timeout: float) -> list[Record]:
        """See Reader. Looks every 5 ms. Returns positions only once they are on the disk."""
        records = wait_for(self._take, self._same, limit, timeout)
        if records and self._topic == POSITIONS:
            self._followers[0].sync()  # all read the same file
        return records

    def caught_up(self) -> bool:
        return not any(follower.ahead() for follower in self._followers)

    def passed(self, ends: Mapping[int, int]) -> bool:
        return all(
            follower.passed({partition: end for partition, end in ends.items() if partition in follower.partitions})
            for follower in self._followers
        )

    def pause(self, partitions: Collection[int]) -> None:
        if self._paused == frozenset(partitions):
            return
        self._paused = frozenset(partitions)
        for follower in list(self._followers):
            paused = follower.partitions & self._paused
            if paused and paused != follower.partitions:
                self._followers.append(follower.split_off(paused))
        self._join()
        for follower in self._followers:
            if self._is_paused(follower):
                follower.drop_read_ahead()

    def close(self) -> None:
        for follower in self._followers:
            follower.close()

    def _take(self, limit: int) -> list[Record]:
        """Return up to `limit` records, and about MAX_BYTES, of the running follower that is furthest behind."""
        while True:
            self._join()
            running = [follower for follower in self._followers if not self._is_paused(follower)]
            if not running:
                return []
            running.sort(key=lambda follower: (follower.place, follower.is_between_groups))
            behind, end = running[0], running[1].place if len(running) > 1 else None
            records = behind.take(limit, end)
            if records or end is None or behind.place < end:
                return records

    def _is_paused(self, follower: RecordFollower) -> bool:
        return follower.partitions <= self._paused

    def _join(self) -> None:
        """Join followers that stand between the same groups, if they are all paused or all run."""
        if len(self._followers) == 1:
            return
        met: dict[tuple[int, bool], RecordFollower] = {}
        apart = []
        for follower in self._followers:
            if not follower.is_between_groups:
                apart.append(follower)
                continue
            first = met.setdefault((follower.place, self._is_paused(follower)), follower)
            if first is not follower:
                first.join(follower)
        self._followers = [*met.values(), *apart]


def follow_from(catalog: TopicCatalog, topic: str, start: OffsetStart) -> RecordFollower:
    """Return a follower that begins at `start`. Raises LogError if that is behind the end of a partition."""
    partitions = range(catalog.info(topic).partitions)
    follower = RecordFollower(catalog, topic, start_offsets(start, partitions))
    reached = {p: follower.offsets[_counted_as(topic, p)] for p in partitions}
    if any(reached.get(p, -1) < offset for p, offset in demanded_offsets(start, partitions).items()):
        try:
            check_start(catalog.name(topic), start, end_offsets(catalog, topic))
        except LogError:
            follower.close()
            raise
    return follower


def end_offsets(catalog: TopicCatalog, topic: str) -> dict[int, int]:
    """Return the end per partition. Costs a pass over the headers of the file."""
    partitions = range(catalog.info(topic).partitions)
    tally = RecordCounts(catalog.path(topic), positions_only=topic == POSITIONS)
    tally.advance()
    return {p: tally.records[_counted_as(topic, p)] for p in partitions}


def _counted_as(topic: str, partition: int) -> int:
    """Return under which number a file counts the records of a topic's partition."""
    return POSITION if topic == POSITIONS else partition


def wait_for(
    take: Callable[[int], list[Record]], same: LocalTopicIdentity, limit: int, timeout: float
) -> list[Record]:
    """Return up to `limit` records of `take`, after at most `timeout` seconds of waiting for the first."""
    end = time.monotonic() + timeout
    while True:
        same.check()
        records = take(limit)
        left = end - time.monotonic()
        if records or left <= 0:
            return records
        time.sleep(min(PAUSE_S, left))


def has_verdicts(catalog: TopicCatalog) -> bool:
    """Whether `verdicts` has any record."""
    tally = RecordCounts(catalog.path(VERDICTS))
    tally.advance()
    return any(count for partition, count in tally.records.items() if partition != POSITION)
