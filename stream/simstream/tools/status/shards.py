"""Says who holds the shards of an index on matchers, and how far each shard has answered. Only looks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, MATCHES
from simstream.log.participants import ShardMember
from simstream.roles.match.answered_frames import answered_frames, shards_without


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
    log_id = log.topic(FINGERPRINTS).id
    answered = answered_frames(log, lambda header: header.log_id == log_id)
    return [
        ShardStatus(shard, owners[shard], frame, max(0, end - (frame or 0))) for shard, frame in answered.items()
    ]


def silent_shards(log: Log, frame: int) -> list[int]:
    """Return the shards whose answers to a frame were removed. Reads answers only of shards that lack some."""
    log_id = log.topic(FINGERPRINTS).id
    cut = [shard for shard, low in log.low_watermarks(MATCHES).items() if low]
    return shards_without(log, lambda header: header.log_id == log_id, cut, frame)
