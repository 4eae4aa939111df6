"""The life of entries and segments: numbers, memory, and merges that hold nobody up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simstream.errors import SettingsError
from simstream.index import entry_numbers, merge_worker, packed
from simstream.index.index import Index
from simstream.index.merge import SegmentMerger
from simstream.index.merge_worker import BackgroundWorker
from simstream.index.plan import Plan
from simstream.index.segment_shelf import MAX_UNMERGED
from simstream.model import U64
from tests.property.test_index import random_words
from tests.property.test_index_states import answers

PATIENCE_S = 60


def none(count: int) -> U64:
    return np.empty((count, 0), np.uint64)


def added(index: Index, first: int, count: int, bucket: int = 0, step: int = 10**9) -> NDArray[np.uint32]:
    """Add random fingerprints under the numbers from `first` on, which are also their seed."""
    entries = np.arange(first, first + count, dtype=np.uint32)
    pages, buckets = random_words(first, count), np.full(count, bucket)
    for at in range(0, count, step):
        index.add(
            entries[at : at + step],
            pages[at : at + step],
            none(count)[at : at + step],
            None,
            buckets[at : at + step],
        )
    return entries


def found(index: Index, first: int, count: int) -> list[list[int]]:
    return [[e for e, _, _ in a] for a in answers(index.query(random_words(first, count), none(count)))]


@pytest.mark.parametrize("memtable", [1, 100])
def test_a_number_is_in_use_until_it_has_come_back(memtable: int) -> None:
    index = Index(None, 0, 3, 0, memtable_limit=memtable)
    for bad in ([5, 5], [2**31], [-1]):
        with pytest.raises(ValueError):
            index.add(np.array(bad), random_words(1, len(bad)), none(len(bad)), None, None)
    added(index, 5, 1)
    again = np.array([5]), random_words(9, 1), none(1), None, None
    with pytest.raises(ValueError, match="in use"):
        index.add(*again)
    index.release(np.array([5], np.uint32))
    with pytest.raises(ValueError, match="in use"):
        index.add(*again)
    index.drop_buckets(1)
    with pytest.raises(ValueError, match="in use"):
        index.add(*again)
    assert index.dropped().tolist() == [5]
    index.add(*again)
    assert len(index) == 1


@pytest.mark.parametrize("memtable", [1, 100])
def test_releasing_what_is_not_live_is_refused_and_changes_nothing(memtable: int) -> None:
    index = Index(None, 0, 3, 0, memtable_limit=memtable)
    entries = added(index, 0, 2)
    for bad in ([0, 0], [0, 7], [1, 10**9]):
        with pytest.raises(ValueError, match="not live"):
            index.release(np.array(bad))
    with pytest.raises(ValueError, match="out of range"):
        index.release(np.array([0, -1]))
    assert len(index) == 2
    index.release(entries[:1])
    with pytest.raises(ValueError, match="not live"):
        index.release(entries)
    assert found(index, 0, 2) == [[], [1]]


@pytest.mark.parametrize("memtable", [1, 100])
def test_a_bucket_with_a_live_entry_is_not_dropped(memtable: int) -> None:
    index = Index(None, 0, 3, 0, memtable_limit=memtable)
    old, _ = added(index, 0, 3, bucket=4), added(index, 10, 3, bucket=5)
    index.release(old[:2])
    with pytest.raises(ValueError, match="was not released"):
        index.drop_buckets(5)
    assert (index.buckets, len(index)) == ([4, 5], 4)
    index.release(old[2:])
    index.drop_buckets(5)
    assert (index.buckets, len(index)) == ([5], 3)
    assert index.dropped().tolist() == old.tolist()
    assert found(index, 10, 3) == [[10], [11], [12]]


@pytest.mark.parametrize("memtable", [1, 1000])
def test_numbers_of_a_large_bucket_come_back_over_several_calls_and_a_restart(
    memtable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_numbers, "MAX_NUMBERS_AT_ONCE", 10)
    monkeypatch.setattr(entry_numbers, "MAX_GIVEN_BACK", 25)
    index = Index(None, 0, 3, 0, memtable_limit=memtable)
    entries = added(index, 0, 100)
    index.release(entries)
    index.drop_buckets(1)
    free = index.dropped()
    assert len(free) == 30, "whole slices until there are 25"
    again = Index(None, 0, 3, 0, memtable_limit=memtable)
    again.restore(index.parts())
    again.add(free, random_words(0, 30), none(30), None, None)
    while len(more := again.dropped()):
        assert len(more) <= 30
        again.check()
        free = np.concatenate([free, more])
    assert sorted(free.tolist()) == entries.tolist()


def test_sizes_are_geometric_and_an_older_bucket_becomes_one_segment() -> None:
    index = Index(None, 0, 3, 0, memtable_limit=10)
    for first in range(0, 2000, 20):
        added(index, first, 20, bucket=first // 1000)
    parts = [part.facts for part in index.parts() if part.kind == "segment"]
    assert [facts["count"] for facts in parts if facts["bucket"] == 0] == [1000]
    assert len(parts) <= 6
    index.check()


def test_no_segment_has_more_entries_than_the_places_that_its_directories_can_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, most = Plan(4, (16,) * 4, 0), 1000
    monkeypatch.setattr(packed, "MAX_PLACES", 4 * most + 3)
    index = Index(plan, 0, 3, 0, memtable_limit=10)
    for first in range(0, 8000, 20):
        added(index, first, 20, bucket=first // 6000)
    parts = [part.facts for part in index.parts() if part.kind == "segment"]
    sizes = [int(str(facts["count"])) for facts in parts]
    assert most // 2 < max(sizes) <= most
    assert len(sizes) <= 2 * 8000 // most + 6
    for first in range(0, 8000, 400):
        assert found(index, first, 20) == [[entry] for entry in range(first, first + 20)]
    index.check()
    with pytest.raises(SettingsError, match="1,001 fingerprints do not fit 4 tables: divide them: 1,000 do"):
        packed.build(np.arange(most + 1, dtype=np.uint64), packed.TableBuild(plan, 3), lambda: None)


@pytest.mark.parametrize("distance", [3, 8])
def test_what_each_table_holds_is_what_all_tables_hold(distance: int) -> None:
    index = Index(None, 0, distance, 0, memtable_limit=500)
    for first in range(0, 40_000, 2_000):
        added(index, first, 2_000, bucket=first // 30_000)
    parts = [part.facts for part in index.parts() if part.kind == "segment"]
    tables = index.by_table()
    assert sum(size.bytes for size in tables.values()) == index.nbytes()["tables"] > 0
    first_or_scanned = sum(tables[name].entries for name in ("0", "scanned") if name in tables)
    assert first_or_scanned == sum(facts["count"] for facts in parts)
    assert len(tables.keys() - {"scanned"}) == max(facts["plan"]["tables"] for facts in parts) > 1


def test_memory_stays_level_while_old_entries_leave_as_new_ones_come() -> None:
    index = Index(None, 0, 3, 0, memtable_limit=500)
    waiting, sizes, free = [], [], list(range(20_000))
    for round_ in range(60):
        entries = np.array([free.pop() for _ in range(1000)], np.uint32)
        index.add(entries, random_words(round_, 1000), none(1000), None, None)
        waiting.append(entries)
        if len(waiting) > 5:
            index.release(waiting.pop(0))
        free += index.dropped().tolist()
        sizes.append(sum(index.nbytes().values()))
    assert len(index) == 5000
    assert max(sizes[30:]) <= 1.2 * max(sizes[:30])


@pytest.mark.parametrize("background", [False, True])
def test_memory_of_released_entries_comes_back_without_new_ones(background: bool) -> None:
    with closing(Index(None, 0, 3, 0, memtable_limit=500, background=background)) as index:
        entries = added(index, 0, 20_000, step=400)
        index.wait()
        before = sum(index.nbytes().values())
        index.release(entries[:12_000])
        index.wait()
        assert sum(index.nbytes().values()) < before - 12_000 * 2 * 8
        assert len(index.dropped()) >= 8_000


class HeldMergeWorker:
    """Merges that begin, say so, and go on only when they are let: those of at least `size` entries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on, self.size = threading.Event(), threading.Event(), 0
        run = SegmentMerger.run

        def held(merge: SegmentMerger, pause: Callable[[], None]) -> None:
            if merge.size >= self.size:
                self.begun.set()
                assert self.go_on.wait(PATIENCE_S)
            run(merge, pause)

        monkeypatch.setattr(SegmentMerger, "run", held)


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldMergeWorker]:
    held = HeldMergeWorker(monkeypatch)
    yield held
    held.go_on.set()


def test_everything_goes_on_while_a_merge_is_under_way(merges: HeldMergeWorker) -> None:
    with closing(Index(None, 0, 3, 0, memtable_limit=50, background=True)) as index:
        added(index, 0, 200, step=60)
        assert merges.begun.wait(PATIENCE_S)
        before = index.segments
        added(index, 1000, 40)
        index.release(np.arange(50, dtype=np.uint32))
        index.settle()
        assert index.segments == before + 1
        assert found(index, 0, 200) == [[]] * 50 + [[e] for e in range(50, 200)]
        assert len(index.parts()) == before + 2
        merges.go_on.set()
        index.wait()
        assert index.segments == 1
        assert found(index, 0, 200) == [[]] * 50 + [[e] for e in range(50, 200)]
        assert found(index, 1000, 40) == [[e] for e in range(1000, 1040)]
        assert set(index.dropped().tolist()) <= set(range(50))
        index.check()


def test_a_bucket_dropped_during_its_merge_stays_dropped(merges: HeldMergeWorker) -> None:
    with closing(Index(None, 0, 3, 0, memtable_limit=50, background=True)) as index:
        entries = added(index, 0, 200, step=60)
        assert merges.begun.wait(PATIENCE_S)
        index.release(entries)
        index.drop_buckets(1)
        assert (index.segments, index.dropped().tolist()) == (0, entries.tolist())
        added(index, 100, 60, bucket=1)
        merges.go_on.set()
        index.wait()
        assert index.buckets == [1]
        assert found(index, 100, 60) == [[e] for e in range(100, 160)]
        assert index.dropped().tolist() == []


def test_too_many_segments_that_wait_for_a_merge_hold_the_caller_up(
    merges: HeldMergeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()
    wait = BackgroundWorker.wait

    def noticed(worker: BackgroundWorker, beat: Callable[[], None]) -> None:
        waits.set()
        wait(worker, beat)

    monkeypatch.setattr(BackgroundWorker, "wait", noticed)
    with closing(Index(None, 0, 3, 0, memtable_limit=10, background=True)) as index:
        added(index, 0, 11 * MAX_UNMERGED, step=11)
        assert merges.begun.wait(PATIENCE_S)
        assert index.segments == MAX_UNMERGED
        assert not waits.is_set()
        more = threading.Thread(target=added, args=(index, 1000, 110, 0, 11))
        more.start()
        assert waits.wait(PATIENCE_S)
        assert more.is_alive()
        assert index.segments == MAX_UNMERGED + 1
        merges.go_on.set()
        more.join(PATIENCE_S)
        assert not more.is_alive()
        index.wait()
        assert found(index, 1000, 110) == [[e] for e in range(1000, 1110)]


def test_a_caller_that_waits_for_a_merge_gives_signs_of_life(
    merges: HeldMergeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_worker, "BEAT_S", 0.001)
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 3:
            merges.go_on.set()

    with closing(Index(None, 0, 3, 0, memtable_limit=10, background=True, beat=beat)) as index:
        added(index, 0, 11 * (MAX_UNMERGED + 2), step=11)
        assert len(beats) >= 3
        index.wait()
        index.check()


def test_small_merges_end_while_a_large_one_takes_a_long_step(merges: HeldMergeWorker) -> None:
    merges.size = 1000
    with closing(Index(None, 0, 3, 0, memtable_limit=10, background=True)) as index:
        added(index, 0, 600)
        index.wait()
        added(index, 1000, 600)
        assert merges.begun.wait(PATIENCE_S)
        added(index, 2000, 3 * 11 * MAX_UNMERGED, step=11)
        assert not merges.go_on.is_set()
        assert index.segments < 2 * MAX_UNMERGED
        merges.go_on.set()
        index.wait()
        assert found(index, 0, 600) == [[e] for e in range(600)]
        index.check()


def merged(index: Index) -> None:
    added(index, 0, 200, step=60)
    index.wait()


def test_what_a_merge_raises_comes_up_once_and_the_segments_are_merged_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, failed = SegmentMerger.run, threading.Event()

    def fails(merge: SegmentMerger, pause: Callable[[], None]) -> None:
        if not failed.is_set():
            failed.set()
            raise MemoryError("no room")
        run(merge, pause)

    monkeypatch.setattr(SegmentMerger, "run", fails)
    with closing(Index(None, 0, 3, 0, memtable_limit=50, background=True)) as index:
        with pytest.raises(MemoryError):
            merged(index)
        index.wait()
        assert index.segments == 1
        assert sum(len(rows) for rows in found(index, 0, 200)) == len(index)
        index.check()


def test_closing_ends_the_thread_in_the_middle_of_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    paused, closes = threading.Event(), threading.Event()
    run, stop = SegmentMerger.run, BackgroundWorker.stop

    def in_the_middle(merge: SegmentMerger, pause: Callable[[], None]) -> None:
        paused.set()
        assert closes.wait(PATIENCE_S)
        pause()
        run(merge, pause)

    def stopping(worker: BackgroundWorker) -> None:
        stop(worker)
        closes.set()

    monkeypatch.setattr(SegmentMerger, "run", in_the_middle)
    monkeypatch.setattr(BackgroundWorker, "stop", stopping)
    before = threading.active_count()
    index = Index(None, 0, 3, 0, memtable_limit=50, background=True)
    added(index, 0, 150, step=60)
    assert paused.wait(PATIENCE_S)
    index.close()
    assert threading.active_count() == before
    assert found(index, 0, 150) == [[e] for e in range(150)]


class NotedStep:
    """Work of a size that notes when it runs; `during` is called in its middle."""

    def __init__(self, size: int, notes: list[str], during: Callable[[], None] = lambda: None) -> None:
        self.size, self._notes, self._during = size, notes, during

    def run(self, pause: Callable[[], None]) -> None:
        self._notes.append(f"{self.size} begins")
        self._during()
        pause()
        self._notes.append(f"{self.size} ends")


def held_in(begun: threading.Event, go_on: threading.Event) -> Callable[[], None]:
    """What a step does that begins, and waits until it is let go on."""

    def during() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)

    return during


def collected(worker: BackgroundWorker) -> list[Any]:
    worker.wait(lambda: None)
    return worker.collect()


def test_small_work_is_done_beside_a_step_of_large_work() -> None:
    notes: list[str] = []
    begun, go_on = threading.Event(), threading.Event()
    with closing(BackgroundWorker()) as worker:
        works: list[Any] = [
            NotedStep(100, notes, held_in(begun, go_on)),
            NotedStep(90, notes),
            NotedStep(10, notes),
        ]
        worker.submit(works[0])
        assert begun.wait(PATIENCE_S)
        worker.submit(works[1])
        worker.submit(works[2])
        assert collected(worker) == [works[2]]
        go_on.set()
        done = []
        while worker.outstanding:
            done += collected(worker)
    assert notes == ["100 begins", "10 begins", "10 ends", "100 ends", "90 begins", "90 ends"]
    assert done == works[:2]


def test_small_work_goes_first_between_two_steps_of_large_work() -> None:
    notes: list[str] = []
    begun, go_on, beside, end = (threading.Event() for _ in range(4))
    with closing(BackgroundWorker()) as worker:
        works: list[Any] = [
            NotedStep(1000, notes, held_in(begun, go_on)),
            NotedStep(100, notes, held_in(beside, end)),
            NotedStep(90, notes),
        ]
        worker.submit(works[0])
        assert begun.wait(PATIENCE_S)
        worker.submit(works[1])
        assert beside.wait(PATIENCE_S)
        worker.submit(works[2])
        go_on.set()
        done = []
        while len(done) < 2:
            done += collected(worker)
        end.set()
        done += collected(worker)
    assert notes == [f"{size} begins" for size in (1000, 100, 90)] + [f"{size} ends" for size in (90, 1000, 100)]
    assert done == [works[2], works[0], works[1]]
