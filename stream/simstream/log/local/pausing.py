"""Reads the records of a local topic, with pauses of single partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from simstream.log.local.following import RecordFollower
from simstream.model import Record


class PausableFollower:
    """Reads the records of one topic; each of its partitions can be paused.

    It begins with one follower for all partitions. A follower of paused and running partitions is split in two. Two
    followers that meet become one again: the one behind reads up to the place of the next one. So a pause costs a
    second pass over a part of the file, and no memory for that part.
    """

    def __init__(self, first: RecordFollower) -> None:
        self._followers = [first]
        self._paused: frozenset[int] = frozenset()

    def pause(self, partitions: Collection[int]) -> None:
        """Pause exactly these partitions from now on."""
        if self._paused == frozenset(partitions):
            return
        self._paused = frozenset(partitions)
        for follower in list(self._followers):
            paused = follower.partitions & self._paused
            if paused and paused != follower.partitions:
                self._followers.append(follower.split_off(paused))
        self._join()
        for follower in self._followers:
            if self._is_paused(follower):
                follower.drop_read_ahead()

    def take(self, limit: int) -> list[Record]:
        """Return up to `limit` records, and about MAX_BYTES, of the running follower that is furthest behind."""
        while True:
            self._join()
            running = [follower for follower in self._followers if not self._is_paused(follower)]
            if not running:
                return []
            running.sort(key=lambda follower: (follower.place, follower.is_between_groups))
            behind, end = running[0], running[1].place if len(running) > 1 else None
            records = behind.take(limit, end)
            if records or end is None or behind.place < end:
                return records

    def ahead(self) -> bool:
        """Whether the file has a record that `take` has not returned, in a paused partition or another."""
        return any(follower.ahead() for follower in self._followers)

    def passed(self, ends: Mapping[int, int]) -> bool:
        """Whether `take` has returned all records below these offsets, per partition."""
        return all(
            follower.passed({partition: end for partition, end in ends.items() if partition in follower.partitions})
            for follower in self._followers
        )

    def sync(self) -> None:
        """Write all returned records to the disk, so that they survive a power cut. Raises LogError."""
        self._followers[0].sync()  # all read the same file

    def close(self) -> None:
        """Close the file; may be called again."""
        for follower in self._followers:
            follower.close()

    def _is_paused(self, follower: RecordFollower) -> bool:
        return follower.partitions <= self._paused

    def _join(self) -> None:
        """Join followers that stand between the same groups, if they are all paused or all run."""
        if len(self._followers) == 1:
            return
        met: dict[tuple[int, bool], RecordFollower] = {}
        apart = []
        for follower in self._followers:
            if not follower.is_between_groups:
                apart.append(follower)
                continue
            first = met.setdefault((follower.place, self._is_paused(follower)), follower)
            if first is not follower:
                first.join(follower)
        self._followers = [*met.values(), *apart]
