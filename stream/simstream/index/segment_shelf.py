"""Adds, merges and drops segments, so that they stay few."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simstream.errors import StateDamaged
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import SnapshotPart
from simstream.index.entry_numbers import EntryNumbers
from simstream.index.merge import ReleasedCounter, SegmentMerger, fitting, to_merge
from simstream.index.merge_worker import BackgroundWorker, InlineWorker
from simstream.index.packed import Pause
from simstream.index.segment import EntryRun, Segment, SegmentBuild
from simstream.kernels.index.entry_numbers import NUMBER_MASK, count_released
from simstream.memory import ArrayRoom
from simstream.model import U64

MAX_UNMERGED = 32
"""Segments of one bucket that may wait for their first merge. Beyond it `settle` waits, so that their number is
bounded.

A step of a large merge takes a second at 10 million entries, or some on a busy machine. Small merges go on beside
it. A query pays 12 us to scan this many small segments.
"""
COUNT_AGAIN = 16
"""Dead entries are counted by segment once a 16th of all entries was released since the last count."""


class SegmentShelf:
    """Segments by name. Work in the background only reads them; `settle` alone replaces them.

    A segment takes part in one merge at a time. Once a bucket is no longer the newest, all its segments become one.
    Later entries of it are merged in geometric sizes until a newer bucket begins.
    """

    def __init__(self, build: SegmentBuild, held: EntryNumbers, background: bool, beat: Pause) -> None:
        """`beat` is called about every tenth of a second while `settle` or `wait` waits."""
        self._build, self._held, self._beat = build, held, beat
        self.worker: BackgroundWorker | InlineWorker = BackgroundWorker() if background else InlineWorker()
        self.segments: dict[str, Segment] = {}
        self.next_number = 0
        """The number of the next segment; it never decreases."""
        self._busy: set[str] = set()
        self._newest: int | None = None
        self._united: set[int] = set()
        self._count_due = 0
        self._counting = False

    def build_in(self, room: ArrayRoom) -> None:
        """Let the arrays of all further segments lie in `room`."""
        self._build = replace(self._build, room=room)

    def seal(self, bucket: int, run: EntryRun) -> None:
        """Make a segment of new entries; `settle` merges it later."""
        number = self._take_number()
        fresh = Segment.build(number, bucket, self._build, run, lambda: None, unmerged=True)
        self.segments[fresh.name] = fresh
        self._see(bucket)

    def settle(self) -> None:
        """Put finished segments in place, and submit the merges that are due. Waits only if too much is unmerged.

        Raises the error of a failed merge.
        """
        while True:
            self.raise_failure()
            for work in self.worker.collect():
                self._install(work)
            self._schedule()
            if not self.worker.outstanding:
                return
            if self._most_unmerged() > MAX_UNMERGED:
                self.worker.wait(self._beat)
            elif isinstance(self.worker, BackgroundWorker):
                return

    def wait(self) -> None:
        """Wait until no work is in progress."""
        self.settle()
        while self.worker.outstanding:
            self.worker.wait(self._beat)
            self.settle()

    def raise_failure(self) -> None:
        """Raise the error of a failed merge, once; its segments are free for another merge."""
        failed = self.worker.failed()
        if failed is not None:
            work, error = failed
            self._free(work)
            raise error

    def sweep(self) -> None:
        """Rewrite segments after a release, if more than half of all entries are dead."""
        held = self._held
        due = held.releases >= self._count_due and 2 * held.dead > held.live + held.dead
        if due and self.segments and not self._counting:
            self._counting = True
            self._count_due = held.releases + (held.live + held.dead) // COUNT_AGAIN + 1
            self.worker.submit(ReleasedCounter(tuple(self.segments.values()), held.released.copy()))
            if isinstance(self.worker, InlineWorker):
                self.settle()

    def drop_buckets(self, below: int, more: NDArray[np.uint32]) -> None:
        """Remove the segments of old buckets, and `more` rows with them.

        Raises ValueError if any of these entries is live; then nothing is changed.
        """
        old = [segment for segment in self.segments.values() if segment.bucket < below]
        columns = [*(segment.rows for segment in old), more]
        for rows in columns:
            if count_released(rows, self._held.released) < len(rows):
                raise ValueError(f"a bucket below {below} has an entry that was not released")
        for segment in old:
            del self.segments[segment.name]
            self._busy.discard(segment.name)
        old.clear()
        while columns:  # free each segment's memory before the next one's numbers take some
            self._held.drop(columns.pop() & np.uint32(NUMBER_MASK))

    def use_mapped(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Use other arrays with the same content. Raises StateDamaged."""
        segment = self.segments.get(name)
        if segment is not None:
            part = segment.part()
            self.segments[name] = Segment.of_part(
                SnapshotPart(name, part.kind, part.facts, arrays), segment.unmerged
            )

    def restore(self, segments: Sequence[Segment], sketch_words: int, count: int, following: int) -> None:
        """Take over `count` segments; `following` is the next number. Raises StateDamaged."""
        self.segments = {segment.name: segment for segment in segments}
        if not len(self.segments) == len(segments) == count:
            raise StateDamaged(f"the state names {count} segments, but has {len(segments)}", START_OVER)
        for segment in segments:
            found = segment.distance, segment.sketches.shape[1], len(segment.further), segment.shard
            if found != (self._build.distance, sketch_words, self._build.further, self._build.shard):
                what = "was made for another distance, sketch, number of lookups or shard"
                raise StateDamaged(f"{segment.name} {what}", START_OVER)
            if segment.number >= following:
                raise StateDamaged(f"{segment.name} has a number that was not given yet", START_OVER)
            self._see(segment.bucket)
        self.next_number = following

    def _install(self, work: SegmentMerger | ReleasedCounter) -> None:
        """Put the outcome in the place of the inputs; drop it if its bucket was dropped in the meantime."""
        self._free(work)
        if isinstance(work, ReleasedCounter):
            self._counting = False
            self._rewrite(work)
        elif all(segment.name in self.segments for segment in work.inputs):
            for segment in work.inputs:
                del self.segments[segment.name]
            if work.outcome is not None:
                self.segments[work.outcome.name] = work.outcome
            self._held.drop(work.dropped)

    def _free(self, work: SegmentMerger | ReleasedCounter) -> None:
        if isinstance(work, SegmentMerger):
            self._busy.difference_update(segment.name for segment in work.inputs)
        else:
            self._counting = False

    def _rewrite(self, counted: ReleasedCounter) -> None:
        """Submit segments that are more than half dead for rewriting."""
        released = None
        for segment, dead in zip(counted.inputs, counted.counts, strict=True):
            if 2 * dead > len(segment) and segment.name in self.segments and segment.name not in self._busy:
                released = self._held.released.copy() if released is None else released
                self._submit([self.segments[segment.name]], released)

    def _schedule(self) -> None:
        """Submit the merges that are due now."""
        free: defaultdict[int, list[Segment]] = defaultdict(list)
        occupied = set()
        for segment in self.segments.values():
            if segment.name in self._busy:
                occupied.add(segment.bucket)
            else:
                free[segment.bucket].append(segment)
        released = None
        for bucket, segments in free.items():
            chosen = to_merge(segments, self._build)
            if bucket != self._newest and bucket not in self._united and bucket not in occupied:
                self._united.add(bucket)
                together = fitting(segments, self._build)
                chosen = together if len(together) > 1 else []
            if chosen:
                released = self._held.released.copy() if released is None else released
                self._submit(chosen, released)

    def _submit(self, segments: Sequence[Segment], released: U64) -> None:
        self._busy.update(segment.name for segment in segments)
        self.worker.submit(SegmentMerger(tuple(segments), self._take_number(), self._build, released))

    def _most_unmerged(self) -> int:
        counts = Counter(segment.bucket for segment in self.segments.values() if segment.unmerged)
        return max(counts.values(), default=0)

    def _see(self, bucket: int) -> None:
        if self._newest is None or bucket > self._newest:
            self._newest = bucket
            self._united.clear()

    def _take_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1
