"""The index against `naive_index.py`: every plan, every distance, whatever was sealed, merged or released."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream.errors import SettingsError
from stream.index import SCAN, Index, Matches, Plan, choose
from stream.index.plan import MAX_DISTANCE, plans_for
from stream.model import U64, Limits
from tests.naive_index import Answer, NaiveIndex

PLANS = [
    None,
    SCAN,
    Plan(1, (10,), 2),
    Plan(2, (9, 14), 1),
    Plan(3, (21, 21, 21), 2),
    Plan(4, (16, 16, 16, 16), 1),
    Plan(5, (8, 9, 10, 11, 12), 1),
    Plan(8, (8,) * 8, 2),
]
relaxed = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def random_words(seed: int, *shape: int) -> U64:
    return np.random.default_rng(seed).integers(0, 2**64, shape, dtype=np.uint64)


def flipped(value: int, bits: NDArray[np.int64] | list[int]) -> int:
    for bit in bits:
        value ^= 1 << int(bit)
    return value


def answers(found: Matches) -> list[Answer]:
    columns = found.entry.tolist(), found.distance.tolist(), found.agreement.tolist()
    rows = list(zip(*columns, strict=True))
    ends = found.starts.tolist()
    return [rows[a:b] for a, b in pairwise(ends)]


def near_copies(seed: int, distance: int, lanes: list[range]) -> U64:
    """Copies of one fingerprint at each distance from 0 to k + 2, the bits all within each lane in turn."""
    rng = np.random.default_rng(seed)
    centre = int(rng.integers(0, 2**64, dtype=np.uint64))
    copies = [centre]
    for lane in lanes:
        for d in range(distance + 3):
            if d <= len(lane):
                copies += [flipped(centre, rng.choice(np.array(lane), d, replace=False)) for _ in range(4)]
    return np.array(copies, np.uint64)


LANES = [range(64), range(56, 64), range(8), range(48, 64), range(43, 64), range(22, 43), range(32)]


def same_as_naive(plan: Plan | None, distance: int, fingerprints: U64, words: int, least: int, limit: int) -> None:
    index, naive = Index(plan, words, distance, least, memtable_limit=limit), NaiveIndex(distance, least)
    sketches = random_words(5, len(fingerprints), words)
    naive.intern(fingerprints, sketches, index.intern(fingerprints, sketches))
    assert answers(index.query(fingerprints, sketches)) == naive.query(fingerprints, sketches)


@pytest.mark.parametrize("distance", range(MAX_DISTANCE + 1))
def test_near_copies_with_bits_anywhere_are_found_up_to_the_distance_and_not_beyond(distance: int) -> None:
    plans = [p for p in PLANS if p is None or p.complete_for >= distance] + [choose(distance, 10**7)]
    copies = near_copies(distance, distance, LANES)
    for plan in plans:
        same_as_naive(plan, distance, copies, 0, 0, limit=64)


@pytest.mark.parametrize("plan", [p for p in PLANS if p and p.tables], ids=str)
def test_a_plan_finds_all_at_every_distance_that_it_claims(plan: Plan) -> None:
    for distance in range(min(plan.complete_for, MAX_DISTANCE) + 1):
        copies = near_copies(100 + distance, distance, LANES)
        same_as_naive(plan, distance, copies, 0, 0, limit=len(copies))


@pytest.mark.parametrize("distance", [0, 3, 8])
def test_every_plan_that_may_be_chosen_gives_the_same_answer(distance: int) -> None:
    copies = np.concatenate([near_copies(seed, distance, LANES) for seed in range(3)])
    none = np.empty((len(copies), 0), np.uint64)
    first: list[Answer] | None = None
    for plan in plans_for(distance)[:: 3 if distance else 1]:
        if plan.tables and max(plan.prefix_bits) > 18:
            continue
        index = Index(plan, 0, distance, 0, memtable_limit=len(copies))
        index.intern(copies, none)
        got = answers(index.query(copies, none))
        first = first or got
        assert got == first, plan


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_random_fingerprints_match_themselves_alone(plan: Plan | None) -> None:
    distance = min(plan.complete_for, 6) if plan else 6
    fingerprints, none = random_words(1, 20_000), np.empty((20_000, 0), np.uint64)
    index = Index(plan, 0, distance, 0, memtable_limit=3000)
    entries = index.intern(fingerprints, none)
    found = index.query(fingerprints, none)
    assert found.done == 20_000
    difference = np.bitwise_count(fingerprints[:300, None] ^ fingerprints[None, :]) <= distance
    assert [[e for e, _, _ in a] for a in answers(found)[:300]] == [
        sorted(entries[row].tolist()) for row in difference
    ]


@pytest.mark.parametrize("plan", [None, SCAN, Plan(4, (16,) * 4, 2)], ids=str)
def test_ten_thousand_entries_of_one_fingerprint_are_told_apart_by_their_sketches(plan: Plan | None) -> None:
    fingerprints, sketches = np.full(10_000, 12345, np.uint64), random_words(2, 10_000, 2)
    index = Index(plan, 2, 8, 70, memtable_limit=1500)
    entries = index.intern(fingerprints, sketches)
    assert len(index) == 10_000
    found = index.query(fingerprints[:20] ^ np.uint64(7), sketches[:20])
    for q, answer in enumerate(answers(found)):
        agreement = 128 - np.bitwise_count(sketches ^ sketches[q]).sum(axis=1, dtype=np.int64)
        kept = agreement >= 70
        assert answer == [
            (e, 3, a) for e, a in sorted(zip(entries[kept].tolist(), agreement[kept].tolist(), strict=True))
        ]
    assert index.candidates == 20 * 10_000


@relaxed
@given(
    seed=st.integers(0, 2**32),
    plan=st.sampled_from(PLANS),
    words=st.integers(0, 2),
    limit=st.integers(1, 40),
    short_rule=st.booleans(),
    steps=st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1)), min_size=1, max_size=12),
)
def test_any_sequence_of_interning_releasing_and_asking_agrees_with_the_plain_index(
    seed: int, plan: Plan | None, words: int, limit: int, short_rule: bool, steps: list[tuple[int, float]]
) -> None:
    rng = np.random.default_rng(seed)
    distance = min(plan.complete_for, int(rng.integers(0, 10))) if plan else int(rng.integers(0, 10))
    least = 60 * words
    strict = Limits(int(rng.integers(0, distance + 1)), int(rng.integers(least, 64 * words + 1)))
    short = strict if short_rule else None
    index = Index(plan, words, distance, least, memtable_limit=limit, short=short)
    naive = NaiveIndex(distance, least, short)
    centres = random_words(seed, 3).tolist()
    few = random_words(seed + 1, 1, words) ^ np.array([[0], [1], [0x1F], [0x3F]], np.uint64)
    for count, share in steps:
        pages = np.array(
            [flipped(centres[rng.integers(3)], rng.integers(0, 64, rng.integers(0, 7))) for _ in range(count)],
            np.uint64,
        )
        asked = pages, few[rng.integers(0, 4, count)], rng.random(count) < 0.5
        naive.intern(*asked[:2], index.intern(*asked), asked[2])
        assert answers(index.query(*asked)) == naive.query(*asked)
        gone = [e for e in sorted(naive.live) if rng.random() < share]
        index.release(np.array(gone, np.int64))
        naive.release(gone)
        assert len(index) == len(naive.live)
        assert answers(index.query(*asked)) == naive.query(*asked)


@relaxed
@given(seed=st.integers(0, 2**32), batches=st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_numbers_and_answers_depend_on_the_calls_alone(seed: int, batches: list[int]) -> None:
    rng = np.random.default_rng(seed)
    indexes = [Index(p, 1, 2, 20, memtable_limit=m) for p, m in ((None, 5), (SCAN, 1), (PLANS[4], 1000))]
    pool, sketches = random_words(seed, 8), random_words(seed, 4, 1)
    for count in batches:
        pages, own = pool[rng.integers(0, 8, count)], sketches[rng.integers(0, 4, count)]
        numbers = [i.intern(pages, own) for i in indexes]
        assert all((n == numbers[0]).all() for n in numbers)
        found = [i.query(pages, own) for i in indexes]
        assert all(answers(f) == answers(found[0]) for f in found)
        gone = np.unique(numbers[0])[:: int(rng.integers(1, 3))]
        for index in indexes:
            index.release(gone)
    assert len({i.candidates for i in indexes}) == 1


@relaxed
@given(seed=st.integers(0, 2**32), limit=st.integers(0, 60), memtable=st.integers(1, 50))
def test_answers_in_pieces_are_the_whole_and_no_piece_passes_the_limit(
    seed: int, limit: int, memtable: int
) -> None:
    rng = np.random.default_rng(seed)
    pages = random_words(seed, 6)[rng.integers(0, 6, 60)]
    sketches = random_words(seed, 60, 1)
    index = Index(None, 1, 3, 0, memtable_limit=memtable)
    index.intern(pages, sketches)
    whole = index.query(pages, sketches)
    at, pieces = 0, []
    while at < 60:
        piece = index.query(pages[at:], sketches[at:], limit=limit)
        total = len(piece.entry)
        assert piece.done >= 1
        assert total <= limit or piece.done == 1
        following = whole.starts[at + piece.done + 1] - whole.starts[at] if at + piece.done < 60 else None
        assert following is None or following > limit, "it stops only where the next query does not fit"
        pieces += answers(piece)
        at += piece.done
    assert pieces == answers(whole)


def test_one_query_with_more_matches_than_the_limit_and_every_buffer_is_still_whole() -> None:
    fingerprints = np.arange(2**14, dtype=np.uint64)
    index = Index(Plan(4, (16,) * 4, 2), 0, 11, 0)
    none = np.empty((len(fingerprints), 0), np.uint64)
    index.intern(fingerprints, none)
    found = index.query(fingerprints[:3], none[:3], limit=10)
    assert found.done == 1
    assert len(found.entry) == sum(n.bit_count() <= 11 for n in range(2**14))


def test_a_batch_with_repeated_keys_makes_one_entry_of_them() -> None:
    index = Index(None, 1, 3, 0)
    pages, sketches = np.array([5, 5, 6, 5], np.uint64), np.array([[1], [2], [1], [1]], np.uint64)
    first, second, third, again = index.intern(pages, sketches).tolist()
    assert len({first, second, third}) == 3
    assert again == first
    assert len(index) == 3


def test_the_same_key_of_a_short_and_of_a_long_page_are_two_entries_where_short_pages_count() -> None:
    pages, sketches = np.full(3, 5, np.uint64), np.full((3, 1), 1, np.uint64)
    short = np.array([True, False, True])
    told_apart, alike = (Index(None, 1, 3, 40, short=rule) for rule in (Limits(1, 60), None))
    first, second, third = told_apart.intern(pages, sketches, short).tolist()
    assert first == third != second
    assert len(set(alike.intern(pages, sketches, short).tolist())) == 1


def test_a_pair_of_which_either_is_short_must_keep_to_the_strict_limits() -> None:
    known = np.array([0, 0b111, 0b1, 0b10], np.uint64), np.array([[0], [0], [0b11111], [0]], np.uint64)
    index = Index(None, 1, 3, 40, short=Limits(1, 60))
    entries = index.intern(*known, np.array([False, False, False, True])).tolist()
    zero = np.zeros(1, np.uint64), np.zeros((1, 1), np.uint64)
    assert [e for e, _, _ in answers(index.query(*zero))[0]] == sorted(entries)
    assert [e for e, _, _ in answers(index.query(*zero, np.array([True])))[0]] == sorted([entries[0], entries[3]])
    far = np.array([0b100], np.uint64), zero[1]
    assert [e for e, _, _ in answers(index.query(*far))[0]] == sorted(entries[:3])


def test_flags_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="short is"):
        Index(None, 0, 3, 0, short=Limits(1, 0)).intern(
            np.zeros(2, np.uint64), np.empty((2, 0), np.uint64), np.zeros(1, bool)
        )


@pytest.mark.parametrize("short", [Limits(9, 100), Limits(-1, 100), Limits(8, 99), Limits(8, 129)])
def test_limits_for_short_pages_that_are_less_strict_are_refused(short: Limits) -> None:
    with pytest.raises(SettingsError):
        Index(None, 2, 8, 100, short=short)


def test_a_released_entry_that_comes_again_is_found_again() -> None:
    index, none = Index(None, 0, 3, 0, memtable_limit=2), np.empty((3, 0), np.uint64)
    pages = np.array([1, 2**20, 2**40], np.uint64)
    entries = index.intern(pages, none)
    index.release(entries)
    assert answers(index.query(pages, none)) == [[], [], []]
    again = index.intern(pages, none).tolist()
    assert answers(index.query(pages[:1], none[:1])) == [
        sorted([(again[0], 0, 0), (again[1], 2, 0), (again[2], 2, 0)])
    ]


def test_releasing_what_is_not_live_is_refused_and_changes_nothing() -> None:
    index, none = Index(None, 0, 3, 0), np.empty((2, 0), np.uint64)
    entries = index.intern(np.array([1, 2], np.uint64), none)
    for bad in ([0, 0], [0, 7], [-1], [1, 10**9]):
        with pytest.raises(ValueError, match="not live"):
            index.release(np.array(bad))
    assert len(index) == 2
    index.release(entries)
    assert len(index) == 0


def test_memory_stays_level_while_old_entries_leave_as_new_ones_come() -> None:
    index, none = Index(None, 0, 3, 0, memtable_limit=500), np.empty((1000, 0), np.uint64)
    waiting, sizes = [], []
    for round_ in range(60):
        waiting.append(index.intern(random_words(round_, 1000), none))
        if len(waiting) > 5:
            index.release(waiting.pop(0))
        sizes.append(index.bytes())
    assert len(index) == 5000
    assert max(sizes[30:]) <= 1.2 * max(sizes[:30])


def test_an_empty_index_and_an_empty_batch_give_empty_answers() -> None:
    index, none = Index(None, 2, 8, 70), np.empty((0, 2), np.uint64)
    assert index.query(np.empty(0, np.uint64), none).done == 0
    assert index.intern(np.empty(0, np.uint64), none).size == 0
    found = index.query(np.zeros(2, np.uint64), np.zeros((2, 2), np.uint64))
    assert (found.done, found.starts.tolist()) == (2, [0, 0, 0])
    assert len(index) == 0


@pytest.mark.parametrize(
    ("plan", "words", "distance", "agreement", "limit"),
    [
        (Plan(4, (16,) * 4, 0), 2, 8, 0, 10),
        (None, 2, 17, 0, 10),
        (None, 2, -1, 0, 10),
        (None, 2, 8, 129, 10),
        (None, 2, 8, -1, 10),
        (None, 2, 8, 0, 0),
    ],
)
def test_an_index_that_could_not_be_exact_is_refused(
    plan: Plan | None, words: int, distance: int, agreement: int, limit: int
) -> None:
    with pytest.raises(SettingsError):
        Index(plan, words, distance, agreement, memtable_limit=limit)


def test_sketches_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="sketches are"):
        Index(None, 2, 8, 0).intern(np.zeros(1, np.uint64), np.zeros((1, 1), np.uint64))


def test_numbers_stay_unique_while_the_columns_grow_with_released_numbers_waiting() -> None:
    rng = np.random.default_rng(11)
    index, naive = Index(None, 1, 0, 0, memtable_limit=300), NaiveIndex(0, 0)
    for round_, count in enumerate([700, 500, 900, 3000, 200, 9000]):
        pages, sketches = random_words(round_, count), random_words(round_ + 100, count, 1)
        naive.intern(pages, sketches, index.intern(pages, sketches))
        gone = rng.permutation(sorted(naive.live))[: count // 2]
        index.release(gone)
        naive.release(gone.tolist())
        kept = rng.permutation(sorted(naive.live))[:50].tolist()
        keys = [naive.live[e] for e in kept]
        ask = np.array([k[0] for k in keys], np.uint64), np.array([k[1] for k in keys], np.uint64)
        assert [[e for e, _, _ in a] for a in answers(index.query(*ask))] == [[e] for e in kept]
        assert len(index) == len(naive.live)


def test_memory_of_released_entries_comes_back_without_new_ones() -> None:
    index, none = Index(None, 0, 3, 0, memtable_limit=500), np.empty((20_000, 0), np.uint64)
    entries = index.intern(random_words(1, 20_000), none)
    before = index.bytes()
    index.release(entries[:12_000])
    assert index.bytes() < before - 12_000 * 2 * 8
