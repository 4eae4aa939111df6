"""Gaps between the source and the log: found by reading the log as the acceptor does, and mended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream.errors import UsageError
from stream.judge.acceptor import Acceptor
from stream.log.base import FINGERPRINTS, PAGES, Log
from stream.model import Columns
from stream.roles.first_frame import first_header
from stream.wire import frame as frames

_EMPTY = Columns(
    offset=np.empty(0, np.int64),
    kind=np.empty(0, np.uint8),
    reason=np.empty(0, np.uint8),
    time=np.empty(0, np.int64),
    identity=np.empty((0, 2), np.uint64),
    fingerprint=np.empty(0, np.uint64),
    sketch=np.empty((0, 0), np.uint64),
    words=np.empty(0, np.uint32),
    id_ends=np.empty(0, np.uint32),
    url_ends=np.empty(0, np.uint32),
    ids=b"",
    urls=b"",
)


class Read(NamedTuple):
    """What reading the whole log shows about the partitions of today's `pages`.

    `positions` has the next offset that is not accepted, None where there are frames but no position, since the
    partition's first one is missing or damaged; `gaps` are the partitions that wait for missing pages.
    """

    header: frames.Header
    positions: dict[int, int | None]
    gaps: frozenset[int]


def read_through(log: Log) -> Read:
    """Read the whole log as the acceptor does.

    Raises UsageError where the log has no frame yet, or where its first ones are no longer there."""
    low = log.low_watermarks(FINGERPRINTS)[0]
    if low:
        raise UsageError(
            f"the log begins at frame {low}: what it accepted before cannot be seen",
            "a running judge names gaps: see simstream status --http",
        )
    header = first_header(log)
    if header is None:
        raise UsageError("the log has no frame yet", "nothing can be missing: start `simstream serve`")
    topic_id = log.topic(PAGES).id
    acceptor = Acceptor(header.recipe, header.sketch_words)
    with log.reader(FINGERPRINTS, 0) as reader:
        while True:
            at_end = reader.caught_up()
            records = reader.poll(64, 0.2)
            for record in records:
                acceptor.accept(record.offset, record.value or b"", record.timestamp)
            if at_end and not records:
                break
    seen = [partition for source, partition in acceptor.gaps | acceptor.positions if source == topic_id]
    positions = {partition: acceptor.positions.get((topic_id, partition)) for partition in seen}
    return Read(header, positions, frozenset(number for source, number in acceptor.gaps if source == topic_id))


def rewind(log: Log) -> dict[int, int | None]:
    """Set the fingerprinters' committed offsets to the accepted positions, and return them.

    None where a partition has no position: its commit is forgotten, and all its pages are read again.
    Raises LogLocked while a fingerprinter runs."""
    positions = read_through(log).positions
    log.set_group_offsets(positions)
    return positions


def skip(log: Log) -> dict[int, tuple[int, int]]:
    """Give up the pages that retention removed before they were read: `from` and `to` per partition.

    Writes a frame of kind `lost` for each, then sets the fingerprinters' offsets behind them. Safe to repeat.
    Raises LogLocked while a fingerprinter runs.
    """
    header, found, _ = read_through(log)
    positions = {partition: offset for partition, offset in found.items() if offset is not None}
    lows = log.low_watermarks(PAGES)
    log.set_group_offsets({p: max(offset, lows.get(p, 0)) for p, offset in positions.items()})
    lost = {p: (offset, lows[p]) for p, offset in positions.items() if lows.get(p, 0) > offset}
    info = log.topic(PAGES)
    with log.appender(FINGERPRINTS) as appender:
        for partition, (start, to) in sorted(lost.items()):
            gap = frames.Header(
                recipe=header.recipe,
                topic=info.name,
                topic_id=info.id,
                partition=partition,
                start=start,
                to=to,
                sketch_words=header.sketch_words,
                lost=True,
            )
            appender.append(frames.encode(gap, _EMPTY), partition=0)
    return lost
