"""Warns of commits that are lost: without them all pages that the source topic still has are read again.

Kafka forgets the offsets of a group that had no member for `offsets.retention.minutes` (7 days by default).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from simstream.errors import FrameDamaged, FrameFormat
from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import FINGERPRINTS, PAGES
from simstream.wire import frame as frames

MIN_PAGES: Final = 100_000
"""Fewer pages are read again within seconds, or were read by another fingerprinter just before its first commit."""
LAST_FRAMES: Final = 256
"""The number of newest frames that are read: they say which pages the log has."""
_logger = logging.getLogger("simstream.fingerprint")


def warn_of_lost_commits(log: Log) -> None:
    """Log a warning if the log has frames of the source topic, and the fingerprinters have no usable commit.

    Reads LAST_FRAMES frames at most, and none if there is a commit. Raises TopicMissing, BrokerUnreachable.
    """
    end = log.end_offsets(FINGERPRINTS)[0]
    if not end or log.source_offsets():
        return
    info, reached = log.topic(PAGES), dict[int, int]()
    for header in _headers(log, end - LAST_FRAMES):
        if header.topic_id == info.id:
            reached[header.partition] = max(header.to, reached.get(header.partition, 0))
    lows = log.low_watermarks(PAGES)
    again = sum(max(0, to - lows.get(partition, 0)) for partition, to in reached.items())
    if again >= MIN_PAGES:
        _logger.warning(
            "the fingerprinters have no committed offsets any more: at least %d pages of %s that the log has are "
            "read again before any new page. No verdict changes. To read only what the log lacks, stop all "
            "fingerprinters, run `simstream source rewind` with the judge's --state DIR, and start them again",
            again,
            info.name,
        )


def _headers(log: Log, start: int) -> Iterator[frames.FrameHeader]:
    """Yield the headers of the readable frames from this offset on."""
    for records in committed(log, FINGERPRINTS, LAST_FRAMES, max(0, start)):
        for record in records:
            try:
                yield frames.decode(record.value or b"").header
            except (FrameDamaged, FrameFormat):
                continue
