"""The directory against a dictionary, through growing, splitting, shrinking and snapshots."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from simstream.errors import StateDamaged
from simstream.files.snapshot_part import SnapshotPart
from simstream.hash_secret import Secret
from simstream.judge import directory as module
from simstream.judge.directory import MAX_ROW, PLACED, PageDirectory
from simstream.kernels.judge.directory import ROW_BITS
from simstream.model import U64
from tests.colliding import SECRET, SECRETS, crowding, placed
from tests.short import examples


def identities(numbers: list[int] | range) -> U64:
    """Identities (n, 2) that are as mixed as real ones; under SECRET 1,000,000 + i has the hash of i."""
    out = np.empty((len(numbers), 2), np.uint64)
    for at, number in enumerate(numbers):
        same = number % 1_000_000
        first = (same * 0x9E3779B97F4A7C15 + 0x1234567) % 2**64
        second = (first ^ (first >> 31)) * 0xBF58476D1CE4E5B9 % 2**64
        if number >= 1_000_000:  # who knows the secret can undo with one half what the other one did
            first, second = first ^ (1 << 40), second ^ placed(first) ^ placed(first ^ (1 << 40))
        out[at] = first, second
    return out


def hashed(wanted: U64, i: int) -> int:
    return placed(placed(int(wanted[i, 0])) ^ int(wanted[i, 1])) >> 31


def answers(directory: PageDirectory, wanted: U64) -> list[list[int]]:
    starts, rows = directory.candidates(wanted)
    return [rows[starts[i] : starts[i + 1]].tolist() for i in range(len(wanted))]


def rows_in(directory: PageDirectory) -> list[int]:
    slots = np.concatenate([one[one != 0] for name, one in directory.part().arrays.items() if name != PLACED])
    return [(slot & (1 << ROW_BITS) - 1) - 1 for slot in slots.tolist()]


def check(directory: PageDirectory) -> None:
    """Raise StateDamaged unless every slot is in its place."""
    PageDirectory().restore(directory.part())


def copied(part: SnapshotPart) -> SnapshotPart:
    """As a snapshot keeps it: nothing of the directory's own memory."""
    return part._replace(arrays={name: array.copy() for name, array in part.arrays.items()})


def test_the_collisions_of_these_tests_are_collisions():
    pair = identities([7, 1_000_007])
    assert (pair[0] != pair[1]).all()
    assert hashed(pair, 0) == hashed(pair, 1)


class DirectoryTwins(RuleBasedStateMachine):
    """A directory and a dictionary from hash to rows."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = PageDirectory(SECRET)
        self.naive: dict[int, set[int]] = defaultdict(set)
        self.all: dict[int, int] = {}
        self.next_row = 0

    @initialize(split=st.sampled_from([64, 700, 1 << 17]))
    def small_partitions(self, split: int) -> None:
        self.before = module.MAX_PARTITION_SLOTS
        module.MAX_PARTITION_SLOTS = split

    def teardown(self) -> None:
        module.MAX_PARTITION_SLOTS = self.before
        check(self.directory)

    @rule(first=st.integers(0, 3000), count=st.integers(0, 1500), twin=st.booleans())
    def add(self, first: int, count: int, twin: bool) -> None:
        numbers = [n + 1_000_000 * twin for n in range(first, first + count)]
        rows = range(self.next_row, self.next_row + count)
        self.next_row += count
        self.directory.add(identities(numbers), np.array(rows, np.uint32))
        for number, row in zip(numbers, rows, strict=True):
            self.naive[number % 1_000_000].add(row)
            self.all[row] = number

    @precondition(lambda self: self.all)
    @rule(data=st.data(), share=st.sampled_from([0.01, 0.3, 0.9]))
    def remove(self, data: st.DataObject, share: float) -> None:
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        rows = rng.permutation(np.array(list(self.all), np.uint32))[: max(1, int(len(self.all) * share))]
        self.directory.remove(identities([self.all[row] for row in rows.tolist()]), rows)
        for row in rows.tolist():
            self.naive[self.all.pop(row) % 1_000_000].remove(row)

    @precondition(lambda self: self.all)
    @rule()
    def a_call_that_cannot_be_changes_nothing(self) -> None:
        rows = np.array([*list(self.all)[-600:], self.next_row], np.uint32)
        numbers = [self.all.get(row, 5) for row in rows.tolist()]
        with pytest.raises(ValueError, match="not in the directory"):
            self.directory.remove(identities(numbers), rows)
        there = next(iter(self.all))
        fresh = np.array([*range(self.next_row, self.next_row + 600), there], np.uint32)
        with pytest.raises(ValueError, match="already"):
            self.directory.add(identities([*range(600), self.all[there]]), fresh)

    @rule()
    def snapshot(self) -> None:
        restored = PageDirectory()
        restored.add(identities([1]), np.array([9], np.uint32))
        restored.restore(copied(self.directory.part()))
        self.directory = restored

    @rule(first=st.integers(0, 4500))
    def ask(self, first: int) -> None:
        numbers = range(first, first + 300)
        expected = [sorted(self.naive[number]) for number in numbers]
        assert answers(self.directory, identities(numbers)) == expected

    @invariant()
    def same_size(self) -> None:
        assert len(self.directory) == len(self.all)
        assert sorted(rows_in(self.directory)) == sorted(self.all)


TestTwins = DirectoryTwins.TestCase
TestTwins.settings = settings(max_examples=examples(25), stateful_step_count=25, deadline=None)


def filled(count: int, seed: int = 1) -> tuple[PageDirectory, U64]:
    keys = np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64)
    directory = PageDirectory(SECRET)
    for at in range(0, count, 1000):
        directory.add(keys[at : at + 1000], np.arange(at, min(at + 1000, count), dtype=np.uint32))
    return directory, keys


def test_a_partition_that_is_cut_in_two_changes_no_other_place(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        patched.setattr(module, "MAX_PARTITION_SLOTS", 700)
        patched.setattr(PageDirectory, "_map", lambda _: pytest.fail("all partitions were mapped again"))
        directory, _ = filled(20_000)
    depths = directory.part().arrays[PLACED][:, 1]
    assert depths.max() > depths.min() > 3
    grown = directory._spread.copy()
    assert directory._map()
    assert np.array_equal(directory._spread, grown)


def test_a_page_takes_about_nine_bytes_at_any_size():
    directory = PageDirectory()
    rng = np.random.default_rng(3)
    while len(directory) < 1_500_000:
        count = 25_000
        rows = np.arange(len(directory), len(directory) + count, dtype=np.uint32)
        directory.add(rng.integers(0, 2**64, (count, 2), dtype=np.uint64), rows)
        if len(directory) >= 50_000:
            assert directory.nbytes() / len(directory) < 9.6
    assert directory.nbytes() / len(directory) < 9.35


@pytest.mark.parametrize("secret", SECRETS)
def test_identities_chosen_to_have_one_hash_have_as_many(secret: Secret):
    """Under the hash that had no secret, each of these identities was a candidate for each other."""
    wanted = chosen(5_000, spread=1)
    directory = PageDirectory(secret)
    directory.add(wanted, np.arange(len(wanted), dtype=np.uint32))
    assert sum(map(len, answers(directory, wanted))) < len(wanted) + 10


@pytest.mark.parametrize("secret", SECRETS)
def test_identities_chosen_to_have_one_home_do_not_crowd(secret: Secret):
    wanted = chosen(20_000, spread=1 << 16)
    directory = PageDirectory(secret)
    directory.add(wanted, np.arange(len(wanted), dtype=np.uint32))
    crowds = [crowding(slots != 0) for name, slots in directory.part().arrays.items() if name.startswith("slots")]
    assert max(crowds) < 400  # random identities at the same load: up to 100


def chosen(count: int, spread: int) -> U64:
    """Identities (n, 2) with `spread` successive values of the 33-bit hash, as it was without a secret."""
    random = np.random.default_rng(5)
    second = random.integers(0, 2**64, count, dtype=np.uint64)
    turned = (second << np.uint64(32)) | (second >> np.uint64(32))
    hashes = (np.arange(count, dtype=np.uint64) % np.uint64(spread)) << np.uint64(31)
    return np.column_stack([turned ^ (hashes * np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))), second])


def test_what_leaves_gives_its_memory_back():
    directory, keys = filled(300_000)
    before = directory.nbytes()
    directory.remove(keys[5_000:], np.arange(5_000, 300_000, dtype=np.uint32))
    check(directory)
    assert directory.nbytes() < before / 10
    assert answers(directory, keys[:5_000]) == [[row] for row in range(5_000)]
    assert not any(answers(directory, keys[5_000:20_000]))


def test_many_identities_of_one_hash_are_all_kept_and_found():
    """A thousand rows under hashes at the very end of the last partition, behind which there is only the tail."""
    directory, keys = filled(20_000)
    last = keys[np.argmax([hashed(keys, i) for i in range(2_000)])]
    crowd = np.tile(last, (1_000, 1))
    directory.add(crowd, np.arange(20_000, 21_000, dtype=np.uint32))
    check(directory)
    assert answers(directory, crowd[:1])[0][-1_000:] == list(range(20_000, 21_000))


def test_rows_and_identities_of_a_wrong_kind_are_refused():
    directory = PageDirectory()
    one = identities([1])
    with pytest.raises(ValueError, match="at most"):
        directory.add(one, np.array([MAX_ROW + 1], np.uint32))
    with pytest.raises(ValueError, match="each identity"):
        directory.add(one, np.array([1, 2], np.uint32))
    with pytest.raises(ValueError, match="uint64"):
        directory.candidates(one[0])
    directory.add(one, np.array([MAX_ROW], np.uint32))
    assert answers(directory, one) == [[MAX_ROW]]


def test_a_slot_that_is_far_from_its_home_is_noticed():
    """What stays near its home is for the checksums of the file to notice."""
    directory, _ = filled(200)
    part = copied(directory.part())
    slots = part.arrays["slots-0"]
    for place in np.flatnonzero(slots).tolist():
        for bit in (60, 61, 62, 63):
            slots[place] ^= np.uint64(1) << np.uint64(bit)
            with pytest.raises(StateDamaged):
                PageDirectory().restore(part)
            slots[place] ^= np.uint64(1) << np.uint64(bit)
    PageDirectory().restore(part)


@pytest.mark.parametrize("damage", ["count", "missing", "shape", "table", "depth", "overlap", "secret"])
def test_a_part_that_does_not_hold_together_is_refused(damage: str):
    directory, _ = filled(150_000)
    part = copied(directory.part())
    arrays = dict(part.arrays)
    if damage == "count":
        part = part._replace(facts={**part.facts, "count": 149_999})
    elif damage == "missing":
        del arrays["slots-1"]
    elif damage == "shape":
        arrays["slots-0"] = arrays["slots-0"][:-600]
    elif damage == "table":
        arrays[PLACED] = arrays[PLACED][:-1]
    elif damage == "depth":
        arrays[PLACED][0, 1] += 1
    elif damage == "secret":
        part = part._replace(facts={**part.facts, "secret": "no digits"})
    else:
        arrays[PLACED][0] = arrays[PLACED][1]
        arrays["slots-0"] = arrays["slots-1"]
    with pytest.raises(StateDamaged, match="directory"):
        PageDirectory().restore(part._replace(arrays=arrays))
