"""Reads from `matches` how far each shard has answered, and which shards lack an answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from typing import Final

from simstream.errors import AnswerDamaged
from simstream.log.base import Log
from simstream.log.options import MATCHES
from simstream.wire import answer as answers
from simstream.wire.answer import AnswerHeader

LAST_ANSWERS: Final = 4
"""Answers that are read of each shard at first."""
GROWTH: Final = 16
"""How many times more answers are read if the last ones do not reach far enough."""


def answered_frames(
    log: Log,
    is_counted: Callable[[AnswerHeader], bool],
    enough_frame: int = 0,
    shards: Collection[int] | None = None,
) -> dict[int, int | None]:
    """Return per shard the frame behind its last answers that count; None without one. Reads a few answers each.

    With `shards` it reads answers of these shards alone, and returns None for the others. A copy that is behind may
    have written the last answers. So the search goes further back until a shard has answered up to `enough_frame`.
    Raises TopicMissing, BrokerUnreachable and other errors of the log.
    """
    lows, ends = log.low_watermarks(MATCHES), log.end_offsets(MATCHES)
    found: dict[int, int | None] = dict.fromkeys(sorted(ends))
    open_shards, last = set(ends) if shards is None else set(shards), LAST_ANSWERS
    while open_shards:
        starts = {s: max(lows[s], end - last) if s in open_shards else end for s, end in ends.items()}
        for header in _headers(log, starts, ends, is_counted):
            found[header.shard] = max(found[header.shard] or 0, header.to_frame)
        open_shards = {s for s in open_shards if (found[s] or 0) < enough_frame and starts[s] > lows[s]}
        last *= GROWTH
    return found


def shards_without(
    log: Log, is_counted: Callable[[AnswerHeader], bool], shards: Collection[int], frame: int
) -> list[int]:
    """Return which of these shards have no answer that begins at `frame` or before it.

    A shard's later answers go on without a hole. A matcher that started again may write earlier frames behind later
    ones, so the answers of a shard are read until one fits. Raises TopicMissing, BrokerUnreachable and other errors
    of the log.
    """
    lows, ends = log.low_watermarks(MATCHES), log.end_offsets(MATCHES)
    open_shards, lacking, count = set(shards), set[int](), LAST_ANSWERS
    while open_shards:
        starts = {s: lows[s] if s in open_shards else end for s, end in ends.items()}
        stops = {s: min(lows[s] + count, end) if s in open_shards else end for s, end in ends.items()}
        for header in _headers(log, starts, stops, is_counted):
            if header.frame <= frame:
                open_shards.discard(header.shard)
        lacking |= {s for s in open_shards if stops[s] >= ends[s]}
        open_shards -= lacking
        count *= GROWTH
    return sorted(lacking)


def unbroken_end(log: Log, is_counted: Callable[[AnswerHeader], bool], shard: int) -> int | None:
    """Return the frame behind the answers of a shard that follow each other from frame 0 on, as a judge reads them.

    None if the shard's first answer begins with frame 0, as it nearly always does: no later one lacks its place.
    Else it reads all answers of the shard.
    """
    lows, ends = log.low_watermarks(MATCHES), log.end_offsets(MATCHES)
    starts = {s: lows[s] if s == shard else end for s, end in ends.items()}
    end, first = 0, True
    for header in _headers(log, starts, ends, is_counted):
        if first and header.frame == 0:
            return None
        first = False
        end = max(end, header.to_frame) if header.frame <= end else end
    return end


def _headers(
    log: Log, starts: Mapping[int, int], ends: Mapping[int, int], is_counted: Callable[[AnswerHeader], bool]
) -> Generator[AnswerHeader]:
    """Yield the header of each answer that counts."""
    with log.open_reader(MATCHES, starts) as reader:
        while not reader.passed(ends):
            for record in reader.poll(100, 0.2):
                try:
                    header = answers.decode(record.value or b"").header
                except AnswerDamaged:
                    continue
                if header.shard == record.partition and is_counted(header):
                    yield header
