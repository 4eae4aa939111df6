"""Writes to a local log: appends to a topic, and publishes verdicts with their position."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from simstream.errors import DeliveryFailed, DiskFull, LogError, RecordTooLarge, WrongLog
from simstream.log.base import POSITION_KEY, Appender, OutgoingVerdict, Placed, Publisher, position_missing
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.lock import cannot_write, ends_before
from simstream.log.local.page_consumer import check_end, read_commit, topic_ids
from simstream.log.local.reading import LocalTopicIdentity, has_verdicts
from simstream.log.local.record_groups import FILE_HEADER, HAS_POSITION, MIXED, decode_body, encode_record
from simstream.log.local.topic_file import GroupFile, RecordCounts, TopicWriter
from simstream.log.options import FINGERPRINTS, PAGES, POSITIONS, VERDICTS
from simstream.log.partitioner import partition_of, partitions_of
from simstream.wire import position as positions


def now_ms() -> int:
    """Return the wall clock's time in ms since 1970."""
    return time.time_ns() // 1_000_000


class LocalAppender(Appender):
    """Appends to one topic. Every append is written before it returns, so no record is ever in flight."""

    def __init__(self, catalog: TopicCatalog, topic: str, limit: int) -> None:
        if topic == POSITIONS:
            raise LogError("the publisher alone writes positions", "use Log.open_publisher()")
        self._partitions = catalog.info(topic).partitions
        self._same = LocalTopicIdentity(catalog, topic)
        self._writer: TopicWriter = catalog.writer(topic)
        try:
            _check_end(catalog, topic)
        except BaseException:
            self._writer.close()
            raise
        self._limit = limit
        self._name = catalog.name(topic)
        self._count = 0
        self._error: DeliveryFailed | None = None
        self._keyless = itertools.count()
        self._records: Counter[int] | None = None
        """The records of each partition, counted from the first append with `placed` on."""

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
        """See Appender. After a failure, on a full disk, no part of the record remains."""
        if self._error is not None:
            raise self._error
        if partition is None:
            keyed = key is not None
            partition = partition_of(key or b"", self._partitions) if keyed else next(self._keyless)
            partition %= self._partitions
        elif not 0 <= partition < self._partitions:
            raise LogError(
                f"{self._name} has no partition {partition}", f"use a partition from 0 to {self._partitions - 1}"
            )
        now = now_ms()
        record = encode_record(partition, now if timestamp is None else timestamp, key, value, headers)
        if len(record) > self._limit:
            raise too_large(self._name, len(record), self._limit)
        self._write(self._same.check)
        if placed is not None and self._records is None:
            self._write(self._count_records)
        self._write(lambda: self._writer.write([record], partition, 0, now))
        self._count += 1
        if self._records is not None:
            self._records[partition] += 1
            if placed is not None:
                placed(partition, self._records[partition] - 1)
        return self._count

    def acknowledged(self) -> int:
        """See Appender. All appended records count: they survive this process."""
        if self._error is not None:
            raise self._error
        return self._count

    def flush(self, timeout: float) -> int:
        """See Appender. Waits for the disk."""
        if self._error is None:
            self._write(self._same.check_now)
            self._write(self._writer.sync)
        return self.acknowledged()

    def discard(self) -> None:
        self._writer.close()

    def close(self) -> None:
        """See Closing. Waits for the disk."""
        try:
            if self._writer.is_open and self._error is None:
                self._write(self._same.check_now)
                self._write(self._writer.sync)
        finally:
            self._writer.close()

    def _count_records(self) -> None:
        """Count what is there. Later records are this writer's: no file is opened for each of them."""
        tally = RecordCounts(self._writer.path)
        tally.advance()
        self._records = tally.records

    def _write(self, call: Callable[[], None]) -> None:
        """Call the writer. A failure ends this appender."""
        try:
            call()
        except (OSError, LogError) as error:
            named = error if isinstance(error, LogError) else cannot_write(self._writer.path, error)
            todo = "make room" if isinstance(named, DiskFull) else named.todo  # what was appended before is there
            self._error = DeliveryFailed(named.what, todo)
            raise self._error from error


class LocalPublisher(Publisher):
    """Publishes verdicts and position in one group. A lock keeps a second publisher out; there is no fencing."""

    def __init__(self, catalog: TopicCatalog) -> None:
        self._catalog = catalog
        self._partitions = catalog.info(VERDICTS).partitions
        self._writer: TopicWriter | None = None
        self._frames: GroupFile | None = None
        self._results: Counter[str] = Counter()

    @property
    def results(self) -> Mapping[str, int]:
        return self._results

    def start(self) -> bytes | None:
        """See Publisher. Raises LogLocked if another publisher lives."""
        self.close()
        self._writer = self._catalog.writer(VERDICTS)
        self._frames = self._catalog.open(FINGERPRINTS)
        position = self.committed()
        if position is None and has_verdicts(self._catalog):
            raise position_missing(self._catalog.name(VERDICTS), self._catalog.name(POSITIONS))
        return position

    def committed(self) -> bytes | None:
        """See Publisher. Cost: a pass over the headers of the file, and a wait for the disk."""
        tally = RecordCounts(self._catalog.path(VERDICTS), positions_only=True)
        tally.advance()
        if tally.last_position is None:
            return None
        with self._catalog.open(VERDICTS) as file:
            file.sync()
            file.seek(tally.last_position)
            return _last_position(file) or self._before_a_torn_tail(file)

    @staticmethod
    def _before_a_torn_tail(file: GroupFile) -> bytes | None:
        """Return the same for a file with a torn tail that no writer has cut off yet."""
        file.seek(FILE_HEADER)
        return _last_position(file)

    def publish(self, verdicts: Sequence[OutgoingVerdict], position: bytes) -> None:
        """See Publisher. After DiskFull nothing is published. Make room and call it again with the same arguments:
        it publishes once. The same holds after any other LogError of the disk."""
        if self._writer is None or self._frames is None:
            raise LogError("publish was called before start", "call start first")
        now = now_ms()
        partitions = partitions_of([verdict.key for verdict in verdicts], self._partitions)
        records = [
            encode_record(partition, now, verdict.key, verdict.value, verdict.headers)
            for partition, verdict in zip(partitions, verdicts, strict=True)
        ]
        records.append(encode_record(0, now, POSITION_KEY, position, ()))
        try:
            self._frames.sync()  # a power cut must not keep verdicts and lose their frames
            self._writer.write(records, MIXED, HAS_POSITION, now, durable=True)
        except (OSError, LogError):
            self._results["aborted"] += 1
            raise
        self._results["committed"] += 1

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._frames is not None:
            self._frames.close()
            self._frames = None


def _check_end(catalog: TopicCatalog, topic: str) -> None:
    """Raise LogDamaged if the file has lost pages that were read, or frames that were judged.

    New records would take the lost records' offsets, and readers would skip them.
    """
    tally = RecordCounts(catalog.path(topic))
    if topic == PAGES and catalog.partitions(FINGERPRINTS) is not None:
        check_end(catalog, tally, read_commit(catalog, topic_ids(catalog)))
    elif topic == FINGERPRINTS and (judged := _judged_frames(catalog)):
        tally.advance()
        if tally.records[0] < judged:
            raise ends_before(catalog.name(FINGERPRINTS), tally.records[0], judged)


def _judged_frames(catalog: TopicCatalog) -> int:
    """Return the frame up to which verdicts of this log are published; 0 if unknown."""
    if catalog.partitions(VERDICTS) is None:
        return 0
    data = LocalPublisher(catalog).committed()
    with contextlib.suppress(WrongLog):  # the judge reports a wrong position
        position = positions.decode(data) if data else None
        return position.frame if position and position.log_id == catalog.info(FINGERPRINTS).id else 0
    return 0


def _last_position(file: GroupFile) -> bytes | None:
    """Return the last position behind the file's current place."""
    found = None
    while group := file.next():
        if group.header.flags & HAS_POSITION:
            found = decode_body(group.header, group.body)[-1].value
    return found


def too_large(name: str, size: int, limit: int) -> RecordTooLarge:
    """Return the error for a record that a topic does not admit."""
    return RecordTooLarge(
        f"a record of {size} bytes is more than {name} admits ({limit})",
        "raise max_record_bytes and the topic's max.message.bytes, or leave the page out",
    )
