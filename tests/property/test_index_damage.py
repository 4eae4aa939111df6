"""State of the index that is damaged: refused when it is restored, or found by a check."""

from __future__ import annotations

import numpy as np
import pytest

from simstream.errors import StateDamaged
from simstream.files.snapshot_part import SnapshotPart
from simstream.index import Plan
from simstream.index.index import Index
from tests.property.test_index import random_words


def saved(plan: Plan | None = None) -> list[SnapshotPart]:
    """An index with two segments, a memtable, released entries and some to be given back."""
    index = Index(plan, 1, 8, 0, memtable_limit=40)
    pages, sketches = random_words(1, 400), random_words(2, 400, 1)
    pages[50:80] = pages[0]
    for first, last in ((0, 300), (300, 360), (360, 400)):
        index.add(np.arange(first, last), pages[first:last], sketches[first:last], None, None)
    index.release(np.array([3, 310, 399], np.uint32))
    assert [part.facts["count"] for part in index.parts()] == [300, 60, 40]
    return index.parts()


TABLES = Plan(4, (9, 10, 16, 9), 2)


def restored(parts: list[SnapshotPart], plan: Plan | None = None) -> Index:
    index = Index(plan, 1, 8, 0, memtable_limit=10)
    index.restore(parts)
    return index


def test_a_restored_index_is_whole_and_goes_on() -> None:
    index = restored(saved(TABLES), TABLES)
    index.check()
    assert len(index) == 397
    assert index.parts()[0].facts == saved(TABLES)[0].facts
    names = {part.name for part in saved(TABLES)}
    index.add(np.arange(1000, 1100), random_words(5, 100), random_words(6, 100, 1), None, None)
    index.wait()
    new = {part.name for part in index.parts()}
    assert new - names, "a name is never given again"
    with pytest.raises(ValueError, match="empty"):
        index.restore(saved())


def test_parts_that_are_missing_twice_there_or_of_other_limits_are_refused() -> None:
    first, second, memtable = saved()
    for parts in (
        [first, second],
        [first, memtable],
        [first, first, memtable],
        [first, second, memtable, memtable],
    ):
        with pytest.raises(StateDamaged):
            restored(parts)
    for other in (Index(None, 1, 7, 0), Index(None, 2, 8, 0)):
        with pytest.raises(StateDamaged):
            other.restore(saved())


@pytest.mark.parametrize("plan", [None, TABLES], ids=["scan", "tables"])
def test_arrays_of_another_type_or_length_are_refused(plan: Plan | None) -> None:
    parts = saved(plan)
    for at, part in enumerate(parts):
        for name, array in part.arrays.items():
            odd = [array[:-1], array.astype(np.float64), array[..., None], None]
            for other in odd if len(array) else odd[1:]:
                arrays = {n: a for n, a in {**part.arrays, name: other}.items() if a is not None}
                if name == "released" and other is not None and other.dtype == array.dtype and other.ndim == 1:
                    continue
                with pytest.raises(StateDamaged):
                    restored([*parts[:at], part._replace(arrays=arrays), *parts[at + 1 :]])


@pytest.mark.parametrize("at", [0, 2])
def test_facts_that_are_missing_or_wrong_are_refused(at: int) -> None:
    parts = saved(TABLES)
    for name in parts[at].facts:
        for value in (None, "x", -1, 10**6):
            facts = {**parts[at].facts, name: value}
            if (at, name, value) in {(0, "bucket", -1), (0, "bucket", 10**6), (2, "next", 10**6)}:
                continue
            if at == 2 and name in {"distance", "sketch_words"}:
                continue
            with pytest.raises(StateDamaged):
                restored([*parts[:at], parts[at]._replace(facts=facts), *parts[at + 1 :]])


@pytest.mark.parametrize("name", ["high", "low", "directory"])
def test_any_flipped_bit_of_tables_is_found_by_restoring_or_checking(name: str) -> None:
    parts = saved(TABLES)
    array = parts[0].arrays[name]
    rng = np.random.default_rng(1)
    for _ in range(150):
        other = array.copy()
        other[rng.integers(len(array))] ^= array.dtype.type(1 << rng.integers(8 * array.itemsize))
        damaged = parts[0]._replace(arrays={**parts[0].arrays, name: other})
        with pytest.raises(StateDamaged):
            restored([damaged, *parts[1:]], TABLES).check()


def test_arrays_that_do_not_fit_the_segment_are_not_mapped() -> None:
    index = restored(saved())
    part = index.parts()[0]
    index.use_mapped("segment-99", {})
    with pytest.raises(StateDamaged):
        index.use_mapped(part.name, {**part.arrays, "rows": part.arrays["rows"][1:]})
    index.use_mapped(part.name, {name: array.copy() for name, array in part.arrays.items()})
    index.check()
