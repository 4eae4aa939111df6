"""Reads from `matches` how far each shard has answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simstream.errors import AnswerDamaged
from simstream.log.base import MATCHES, Log
from simstream.wire import answer as answers
from simstream.wire.answer import AnswerHeader

LAST_ANSWERS: Final = 4
"""Answers that are read of each shard: a copy that is behind may have written the last one."""


def answered_frames(log: Log, counts: Callable[[AnswerHeader], bool]) -> dict[int, int | None]:
    """Return per shard the frame behind its last answers that count; None without one. Reads a few answers each.

    Raises TopicMissing, BrokerUnreachable and other errors of the log.
    """
    lows, ends = log.low_watermarks(MATCHES), log.end_offsets(MATCHES)
    found: dict[int, int | None] = dict.fromkeys(sorted(ends))
    starts = {shard: max(lows[shard], end - LAST_ANSWERS) for shard, end in ends.items()}
    with log.open_reader(MATCHES, starts) as reader:
        while not reader.passed(ends):
            for record in reader.poll(100, 0.2):
                try:
                    header = answers.decode(record.value or b"").header
                except AnswerDamaged:
                    continue
                if header.shard == record.partition and counts(header):
                    found[record.partition] = max(found.get(record.partition) or 0, header.to_frame)
    return found
