"""Says who holds the shards of an index on matchers, and how far each shard has answered. Only looks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from simstream.errors import AnswerDamaged
from simstream.log.base import FINGERPRINTS, MATCHES, Log
from simstream.log.participants import ShardMember
from simstream.wire import answer as answers

LAST_ANSWERS: Final = 4
"""Answers that are read of each shard: a copy that is behind may have written the last one."""


class ShardStatus(msgspec.Struct, frozen=True):
    """One shard of the index. `owners` names the matcher of each copy that has one."""

    shard: int
    owners: dict[int, str]
    answered: int | None
    """The next frame that the shard answers; None if its last answers cannot be read, or there are none."""
    behind: int
    """Frames of the log that the shard has not answered."""


def look_at_shards(log: Log, matchers: Sequence[ShardMember]) -> list[ShardStatus]:
    """Return all shards of the topic `matches`, in order. Reads the last answers of each.

    Raises TopicMissing, BrokerUnreachable and other errors of the log.
    """
    owners: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for member in matchers:
        for shard in member.shards:
            owners[shard][member.copy] = member.name
    end = log.end_offsets(FINGERPRINTS)[0]
    answered = _answered(log)
    return [
        ShardStatus(shard, owners[shard], frame, max(0, end - (frame or 0))) for shard, frame in answered.items()
    ]


def _answered(log: Log) -> dict[int, int | None]:
    """Return per shard the frame behind its last answers."""
    log_id = log.topic(FINGERPRINTS).id
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
                if header.log_id == log_id and header.shard == record.partition:
                    found[record.partition] = max(found.get(record.partition) or 0, header.to_frame)
    return found
