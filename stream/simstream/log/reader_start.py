"""Works out at which offset a reader begins in each partition, and refuses an offset behind the end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from simstream.errors import LogError

OffsetStart = int | Mapping[int, int]
"""An offset for every partition, or an offset for each."""
CHECK = "check that --state belongs to this log"


def start_offsets(start: OffsetStart, partitions: Collection[int]) -> dict[int, int]:
    """Return the wanted offset of each of these partitions; a mapping that does not name a partition means 0."""
    if isinstance(start, Mapping):
        return {partition: start.get(partition, 0) for partition in partitions}
    return dict.fromkeys(partitions, start)


def demanded_offsets(start: OffsetStart, partitions: Collection[int]) -> Mapping[int, int]:
    """Return the offsets that the topic must reach.

    One offset for several partitions only means "at or behind it": some partitions may be shorter.
    """
    if isinstance(start, Mapping):
        return start
    return dict.fromkeys(partitions, start) if len(partitions) == 1 else {}


def check_start(name: str, start: OffsetStart, ends: Mapping[int, int]) -> None:
    """Raise LogError if reading should begin behind the end of a partition, or in a partition that does not exist.

    `name` is the full name of the topic, `ends` its end per partition.
    """
    for partition, offset in demanded_offsets(start, ends).items():
        if partition not in ends:
            raise LogError(f"{name} has no partition {partition}, where reading should begin", CHECK)
        if offset > ends[partition]:
            where = name if len(ends) == 1 else f"partition {partition} of {name}"
            raise LogError(
                f"{where} ends at offset {ends[partition]}, before {offset} where reading should begin", CHECK
            )
