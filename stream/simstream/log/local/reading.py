"""Reads records of a local topic from given offsets on, and follows new ones."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Literal

from simstream.errors import LogError, TopicRecreated
from simstream.log.base import FINGERPRINTS, POSITIONS, VERDICTS, Reader
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.record_groups import HAS_POSITION, POSITION, decode_body
from simstream.log.local.topic_file import FoundGroup, RecordCounts
from simstream.model import Record

PAUSE_S = 0.005
"""Seconds between two looks at a file without new records."""
MAX_BYTES = 16 << 20
"""The most bytes of one poll, except for its last record; a Kafka reader holds as much ready."""
CHECK_EVERY_S = 1.0
"""Seconds between two checks of the topics' ids."""


class RecordFollower:
    """Reads the records of one topic from the given offsets on, in the order in which they were appended."""

    def __init__(self, catalog: TopicCatalog, topic: str, below: Mapping[int, int] | None) -> None:
        """Begin per partition at the first offset in `below`, or at the end for None. Skipping costs 1.5 us an
        append."""
        self.topic = catalog.info(topic)
        self._short = topic
        self._file = catalog.open(topic)
        self._below = below or {}
        tally = RecordCounts(catalog.path(topic), positions_only=topic == POSITIONS)
        tally.advance(below={POSITION: below.get(0, 0)} if below and topic == POSITIONS else below)
        self._file.seek(tally.at)
        self.tally = tally
        """Where reading began."""
        self.offsets: Counter[int] = Counter(tally.records)
        """Per partition the offset of the next record in the file."""
        self._pending: deque[Record] = deque()

    def take(self, limit: int) -> list[Record]:
        """Return up to `limit` records, and about MAX_BYTES, that exist now."""
        out: list[Record] = []
        size = 0
        while len(out) < limit and size < MAX_BYTES and self.ahead():
            out.append(self._pending.popleft())
            size += len(out[-1].value or b"")
        return out

    def ahead(self) -> bool:
        """Whether the file has a record that `take` has not returned."""
        while not self._pending:
            group = self._file.next()
            if group is None:
                return False
            self._pending.extend(self._records(group))
        return True

    def passed(self, ends: Mapping[int, int]) -> bool:
        """Whether `take` has returned all records below these offsets, per partition."""
        key = POSITION if self._short == POSITIONS else None
        read = all(self.offsets[p if key is None else key] >= end for p, end in ends.items())
        return read and not any(record.offset < ends.get(record.partition, 0) for record in self._pending)

    def sync(self) -> None:
        """Write all returned records to the disk, so that they survive a power cut. Raises LogError."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; may be called again."""
        self._file.close()

    def _records(self, group: FoundGroup) -> list[Record]:
        header, entries = group.header, decode_body(group.header, group.body)
        position = entries.pop() if header.flags & HAS_POSITION else None
        if self._short == POSITIONS:
            if position is None:
                return []
            offset = self._number(POSITION)
            entries = [position._replace(partition=0)] if offset >= self._below.get(0, 0) else []
            numbers = [offset]
        else:
            numbers = [self._number(entry.partition) for entry in entries]
        name, stamped = self.topic.name, header.time if self._short == FINGERPRINTS else None
        return [
            Record(
                name,
                entry.partition,
                number,
                entry.key,
                entry.value,
                entry.headers,
                entry.timestamp if stamped is None else stamped,
            )
            for entry, number in zip(entries, numbers, strict=False)
            if number >= self._below.get(entry.partition, 0)
        ]

    def _number(self, partition: int) -> int:
        number = self.offsets[partition]
        self.offsets[partition] = number + 1
        return number


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
    """Reads one topic of a local log."""

    def __init__(self, catalog: TopicCatalog, topic: str, start: int | Literal["end"]) -> None:
        self._topic = topic
        self._same = LocalTopicIdentity(catalog, topic)
        partitions = range(catalog.info(topic).partitions)
        wanted = None if start == "end" else dict.fromkeys(partitions, start)
        self._follower = RecordFollower(catalog, topic, wanted)
        key = POSITION if topic == POSITIONS else 0
        if start == "end" or len(partitions) > 1 or self._follower.ahead():
            return
        if self._follower.offsets[key] < start:
            end = self._follower.offsets[key]
            self._follower.close()
            raise LogError(
                f"{catalog.name(topic)} ends at offset {end}, before {start} where reading should begin",
                "check that --state belongs to this log",
            )

    def poll(self, limit: int, timeout: float) -> list[Record]:
        """See Reader. Looks every 5 ms. Returns positions only once they are on the disk."""
        records = wait_for(self._follower, self._same, limit, timeout)
        if records and self._topic == POSITIONS:
            self._follower.sync()
        return records

    def caught_up(self) -> bool:
        """See Reader."""
        return not self._follower.ahead()

    def passed(self, ends: Mapping[int, int]) -> bool:
        """See Reader."""
        return self._follower.passed(ends)

    def close(self) -> None:
        """See Closing."""
        self._follower.close()


def wait_for(follower: RecordFollower, same: LocalTopicIdentity, limit: int, timeout: float) -> list[Record]:
    """Return up to `limit` records, after at most `timeout` seconds of waiting for the first."""
    end = time.monotonic() + timeout
    while True:
        same.check()
        records = follower.take(limit)
        left = end - time.monotonic()
        if records or left <= 0:
            return records
        time.sleep(min(PAUSE_S, left))


def has_verdicts(catalog: TopicCatalog) -> bool:
    """Whether `verdicts` has any record."""
    tally = RecordCounts(catalog.path(VERDICTS))
    tally.advance()
    return any(count for partition, count in tally.records.items() if partition != POSITION)
