"""Decides which segments are merged, and merges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simstream.index.packed import Pause
from simstream.index.segment import EntryRun, Segment, SegmentBuild
from simstream.kernels.index.entry_numbers import count_released, merge_live, take_released
from simstream.memory import ArrayRoom
from simstream.model import U64

FACTOR = 4
"""Each segment is at least this many times all smaller ones together: n entries have about log4(n / limit)
segments."""


def fitting(segments: Sequence[Segment], build: SegmentBuild) -> list[Segment]:
    """Return the segments that one can hold, the largest first: all, or all but the largest of them."""
    ordered = sorted(segments, key=lambda s: (-len(s), s.number))
    total = sum(map(len, ordered))
    while not build.have_room(total):
        total -= len(ordered.pop(0))
    return ordered


def to_merge(segments: Sequence[Segment], build: SegmentBuild) -> list[Segment]:
    """Return the segments of a bucket to merge, so that sizes stay geometric; none if they already are."""
    ordered, total, merging = fitting(segments, build), 0, False
    for first in range(len(ordered) - 1, 0, -1):
        total += len(ordered[first])
        if len(ordered[first - 1]) < FACTOR * total:
            merging = True
        elif merging:
            return ordered[first:]
    return ordered if merging else []


@dataclass(slots=True, eq=False)
class SegmentMerger:
    """Merges segments of one bucket into one, without the entries released before the merge began.

    Entries released later stay in the outcome as released entries. With `outcome` None no entry was left. Cost:
    about 0.3 us an entry. Memory at the peak: the inputs, the outcome, and 16 to 24 bytes an entry; with more than
    two inputs, also all but the largest once more.
    """

    inputs: tuple[Segment, ...]
    number: int
    build: SegmentBuild
    released: U64
    outcome: Segment | None = None
    dropped: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))

    @property
    def size(self) -> int:
        """The number of entries that go in."""
        return sum(len(segment) for segment in self.inputs)

    def run(self, pause: Pause) -> None:
        """Merge. Call `pause` between steps, which take at most some 50 ns an entry."""
        dropped = [released_numbers(segment.rows, self.released) for segment in self.inputs]
        merged = self._merged(pause)
        if len(merged):
            bucket = self.inputs[0].bucket
            self.outcome = Segment.build(self.number, bucket, self.build, merged, pause, unmerged=False)
        self.dropped = np.concatenate(dropped)

    def _merged(self, pause: Pause) -> EntryRun:
        """Return all live entries; it merges the two shortest runs first."""
        waiting = sorted(self.inputs, key=lambda s: (-len(s), s.number))
        room = self.build.room
        run = merge_two(waiting.pop().run(room), None, self.released, room)
        while waiting:
            pause()
            run = merge_two(waiting.pop().run(room), run, self.released, room)
        return run


@dataclass(slots=True, eq=False)
class ReleasedCounter:
    """Counts the entries of each segment that were released when it began. Cost: 1 to 3 ns an entry."""

    inputs: tuple[Segment, ...]
    released: U64
    counts: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of entries to read."""
        return sum(len(segment) for segment in self.inputs)

    def run(self, pause: Pause) -> None:
        """Count. Call `pause` between segments."""
        for segment in self.inputs:
            pause()
            self.counts.append(count_released(segment.rows, self.released))


def merge_two(left: EntryRun, right: EntryRun | None, released: U64, room: ArrayRoom) -> EntryRun:
    """Return the live entries of two runs, in order; they lie in `room`."""
    right = right or EntryRun(left.fingerprints[:0], left.rows[:0], left.sketches[:0])
    size = len(left) + len(right)
    for run in (left, right):
        size -= count_released(run.rows, released)
    fingerprints, rows = room.zeros(size, np.uint64), room.zeros(size, np.uint32)
    sketches = room.zeros((size, left.sketches.shape[1]), np.uint64)
    merge_live(
        left.fingerprints,
        left.rows,
        left.sketches,
        right.fingerprints,
        right.rows,
        right.sketches,
        released,
        fingerprints,
        rows,
        sketches,
    )
    return EntryRun(fingerprints, rows, sketches)


def released_numbers(rows: NDArray[np.uint32], released: U64) -> NDArray[np.uint32]:
    """Return the numbers of the released rows."""
    out = np.empty(count_released(rows, released), np.uint32)
    take_released(rows, released, out)
    return out
