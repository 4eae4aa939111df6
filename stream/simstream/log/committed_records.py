"""Reads the records that a topic holds now, and ends."""

from __future__ import annotations

from collections.abc import Iterator

from simstream.log.base import Log, ReaderStart
from simstream.model import Record

WAIT_S = 0.1
"""Seconds that one poll waits for offsets that are known to exist. They may all be markers of transactions."""


def committed(log: Log, topic: str, limit: int, start: ReaderStart = 0) -> Iterator[list[Record]]:
    """Yield the records from `start` on (see `Log.open_reader`) that are committed now, up to `limit` at once.

    Some lists are empty. Raises what `Log.open_reader` and `Reader.poll` raise.
    """
    ends = log.end_offsets(topic)
    with log.open_reader(topic, start) as reader:
        while not reader.passed(ends):
            yield [record for record in reader.poll(limit, WAIT_S) if record.offset < ends.get(record.partition, 0)]
