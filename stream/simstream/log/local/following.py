"""Reads the records of a local topic's file in order, from given offsets on."""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Mapping

from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.record_groups import HAS_POSITION, MIXED, POSITION, decode_body
from simstream.log.local.topic_file import FoundGroup, RecordCounts
from simstream.log.options import FINGERPRINTS, POSITIONS
from simstream.model import Record, bytes_of

MAX_BYTES = 16 << 20
"""The most bytes of one poll, except for its last record; a Kafka reader holds as much ready."""


class RecordFollower:
    """Reads the records of one topic from the given offsets on, in the order in which they were appended.

    It holds the records of one group of the file at most.
    """

    def __init__(self, catalog: TopicCatalog, topic: str, below: Mapping[int, int] | None) -> None:
        """Begin per partition at the first offset in `below`, or at the end for None. Skipping costs 1.5 us an
        append."""
        self.topic = catalog.info(topic)
        self.partitions = frozenset(range(self.topic.partitions))
        """The partitions whose records it returns."""
        self._catalog = catalog
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

    def take(self, limit: int, end: int | None = None) -> list[Record]:
        """Return up to `limit` records, and about MAX_BYTES, that exist now; read no group from byte `end` on."""
        out: list[Record] = []
        size = 0
        while len(out) < limit and size < MAX_BYTES and self.ahead(end):
            out.append(self._pending.popleft())
            size += bytes_of(out[-1])
        return out

    def ahead(self, end: int | None = None) -> bool:
        """Whether the file has a record, before byte `end`, that `take` has not returned."""
        while not self._pending:
            group = self._file.next() if end is None or self.place < end else None
            if group is None:
                return False
            self._pending.extend(self._records(group))
        return True

    @property
    def place(self) -> int:
        """The byte of the file up to which groups were read."""
        return self._file.at

    @property
    def is_between_groups(self) -> bool:
        """Whether `take` has returned all records up to `place`."""
        return not self._pending

    def split_off(self, partitions: frozenset[int]) -> RecordFollower:
        """Return a follower that goes on with these partitions from here; this one goes on with all others."""
        other = copy.copy(self)
        other._file = self._catalog.open(self._short)
        other._file.seek(self.place)
        other.offsets = Counter(self.offsets)
        other.partitions = self.partitions & partitions
        other._pending = deque(record for record in self._pending if record.partition in partitions)
        self.partitions -= partitions
        self._pending = deque(record for record in self._pending if record.partition not in partitions)
        return other

    def join(self, other: RecordFollower) -> None:
        """Take over the partitions of a follower that stands between the same groups; close that follower."""
        self.partitions |= other.partitions
        other.close()

    def drop_read_ahead(self) -> None:
        """Free the memory of the bytes that were read ahead."""
        self._file.seek(self.place)

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
        header = group.header
        if header.partition != MIXED and self._short != POSITIONS and header.partition not in self.partitions:
            self.offsets[header.partition] += header.records
            return []
        entries = decode_body(header, group.body)
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
            if number >= self._below.get(entry.partition, 0) and entry.partition in self.partitions
        ]

    def _number(self, partition: int) -> int:
        number = self.offsets[partition]
        self.offsets[partition] = number + 1
        return number
