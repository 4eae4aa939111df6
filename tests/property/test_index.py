"""The index against `naive_index.py`: every plan, every distance, the limits of short pages, and batches joined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simstream.errors import SettingsError
from simstream.index import SCAN, Plan, choose
from simstream.index.index import Index
from simstream.index.keys import KeyColumns
from simstream.index.plan import MAX_DISTANCE, plans_for
from simstream.model import U64, MatchLimits
from tests.naive_index import Answer, NaiveIndex
from tests.property.test_index_states import answers
from tests.short import examples

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
relaxed = settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])


def random_words(seed: int, *shape: int) -> U64:
    return np.random.default_rng(seed).integers(0, 2**64, shape, dtype=np.uint64)


def flipped(value: int, bits: NDArray[np.int64] | list[int]) -> int:
    for bit in bits:
        value ^= 1 << int(bit)
    return value


def numbers(count: int, seed: int = 0) -> NDArray[np.uint32]:
    """Numbers in no order, with holes."""
    return np.random.default_rng(seed).permutation(2 * count)[:count].astype(np.uint32)


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


def same_as_naive(plan: Plan | None, distance: int, fingerprints: U64, limit: int) -> None:
    """All in one segment, and again in several of them and the memtable."""
    none, own = np.empty((len(fingerprints), 0), np.uint64), numbers(len(fingerprints))
    naive = NaiveIndex(distance, 0)
    naive.add(own.tolist(), fingerprints, none)
    expected = naive.query(fingerprints, none)
    for step in (len(fingerprints), limit):
        index = Index(plan, 0, distance, 0, memtable_limit=limit)
        for at in range(0, len(fingerprints), step):
            index.add(own[at : at + step], fingerprints[at : at + step], none[at : at + step], None, None)
        assert answers(index.query(fingerprints, none)) == expected
        index.check()


@pytest.mark.parametrize("distance", range(MAX_DISTANCE + 1))
def test_near_copies_with_bits_anywhere_are_found_up_to_the_distance_and_not_beyond(distance: int) -> None:
    plans = [p for p in PLANS if p is None or p.complete_for >= distance] + [choose(distance, 10**7)]
    copies = near_copies(distance, distance, LANES)
    for plan in plans:
        same_as_naive(plan, distance, copies, limit=90)


@pytest.mark.parametrize("plan", [p for p in PLANS if p and p.tables], ids=str)
def test_a_plan_finds_all_at_every_distance_that_it_claims(plan: Plan) -> None:
    for distance in range(min(plan.complete_for, MAX_DISTANCE) + 1):
        copies = near_copies(100 + distance, distance, LANES)
        none = np.empty((len(copies), 0), np.uint64)
        index, naive = Index(plan, 0, distance, 0, memtable_limit=1), NaiveIndex(distance, 0)
        index.add(numbers(len(copies)), copies, none, None, None)
        naive.add(numbers(len(copies)).tolist(), copies, none)
        assert index.segments == 1
        assert answers(index.query(copies, none)) == naive.query(copies, none)


@pytest.mark.parametrize("distance", [0, 3, 8])
def test_every_plan_that_may_be_chosen_gives_the_same_answer(distance: int) -> None:
    copies = np.concatenate([near_copies(seed, distance, LANES) for seed in range(3)])
    none = np.empty((len(copies), 0), np.uint64)
    first: list[Answer] | None = None
    for plan in plans_for(distance)[:: 3 if distance else 1]:
        if plan.tables and max(plan.prefix_bits) > 18:
            continue
        index = Index(plan, 0, distance, 0, memtable_limit=1)
        index.add(numbers(len(copies)), copies, none, None, None)
        got = answers(index.query(copies, none))
        first = first or got
        assert got == first, plan


@pytest.mark.parametrize("crowd", [0, 15_000], ids=["among strangers", "in a crowd"])
@pytest.mark.parametrize("plan", [p for p in PLANS if p and p.tables], ids=str)
def test_near_copies_are_found_among_strangers_and_in_a_crowd(plan: Plan, crowd: int) -> None:
    """Few near copies are probed for; where many are under the same prefixes, the whole of table 0 is gone over."""
    distance = min(plan.complete_for, 8)
    copies = near_copies(7, distance, LANES)
    rng = np.random.default_rng(8)
    alike = np.full(crowd, copies[0])
    for _ in range(3):
        alike ^= np.uint64(1) << rng.integers(0, 64, crowd, np.uint64)
    known = np.concatenate([copies, copies[::3], alike, random_words(9, 20_000 - crowd)])
    own, none, queries = numbers(len(known)), np.empty((len(known), 0), np.uint64), copies[::4]
    index = Index(plan, 0, distance, 0, memtable_limit=1)
    index.add(own, known, none, None, None)
    found = index.query(queries, none[: len(queries)], limit=10**8, in_order=False)
    assert index.segments == 1
    for query, answer in zip(queries, answers(found), strict=True):
        distances = np.bitwise_count(known ^ query)
        near = distances <= distance
        assert sorted((e, d) for e, d, _ in answer) == sorted(
            zip(own[near].tolist(), distances[near].tolist(), strict=True)
        )


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_random_fingerprints_match_themselves_alone(plan: Plan | None) -> None:
    distance = min(plan.complete_for, 6) if plan else 6
    fingerprints, none, own = random_words(1, 20_000), np.empty((20_000, 0), np.uint64), numbers(20_000)
    index = Index(plan, 0, distance, 0, memtable_limit=3000)
    for at in range(0, 20_000, 2500):
        index.add(own[at : at + 2500], fingerprints[at : at + 2500], none[:2500], None, None)
    found = index.query(fingerprints, none)
    assert found.done == 20_000
    difference = np.bitwise_count(fingerprints[:300, None] ^ fingerprints[None, :]) <= distance
    assert [[e for e, _, _ in a] for a in answers(found)[:300]] == [sorted(own[row].tolist()) for row in difference]


@pytest.mark.parametrize("plan", [None, SCAN, Plan(4, (16,) * 4, 2)], ids=str)
def test_ten_thousand_entries_of_one_fingerprint_are_told_apart_by_their_sketches(plan: Plan | None) -> None:
    fingerprints, sketches = np.full(10_000, 12345, np.uint64), random_words(2, 10_000, 2)
    own = numbers(10_000)
    index = Index(plan, 2, 8, 70, memtable_limit=1500)
    for at in range(0, 10_000, 1000):
        index.add(own[at : at + 1000], fingerprints[:1000], sketches[at : at + 1000], None, None)
    assert len(index) == 10_000
    found = index.query(fingerprints[:20] ^ np.uint64(7), sketches[:20])
    kept = 0
    for q, answer in enumerate(answers(found)):
        agreement = 128 - np.bitwise_count(sketches ^ sketches[q]).sum(axis=1, dtype=np.int64)
        near = agreement >= 70
        kept += int(near.sum())
        assert answer == [
            (e, 3, a) for e, a in sorted(zip(own[near].tolist(), agreement[near].tolist(), strict=True))
        ]
    assert (index.candidates, index.rejected) == (20 * 10_000, 20 * 10_000 - kept)
    index.check()


@relaxed
@given(seed=st.integers(0, 2**32), limit=st.integers(0, 60), memtable=st.integers(1, 50))
def test_answers_in_pieces_are_the_whole_and_no_piece_passes_the_limit(
    seed: int, limit: int, memtable: int
) -> None:
    rng = np.random.default_rng(seed)
    pages = random_words(seed, 6)[rng.integers(0, 6, 60)]
    sketches = random_words(seed, 60, 1)
    index = Index(None, 1, 3, 0, memtable_limit=memtable)
    for at in range(0, 60, 20):
        index.add(numbers(60)[at : at + 20], pages[at : at + 20], sketches[at : at + 20], None, None)
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
    index.add(numbers(len(fingerprints)), fingerprints, none, None, None)
    found = index.query(fingerprints[:3], none[:3], limit=10)
    assert found.done == 1
    assert len(found.entry) == sum(n.bit_count() <= 11 for n in range(2**14))


@pytest.mark.parametrize("plan", [SCAN, Plan(4, (16,) * 4, 2)], ids=str)
def test_entries_with_equal_keys_are_all_found(plan: Plan) -> None:
    index = Index(plan, 1, 8, 0, memtable_limit=4)
    pages, sketches = np.array([5, 5, 6, 5, 5, 5], np.uint64), np.array([[1], [2], [1], [1], [1], [3]], np.uint64)
    index.add(np.array([9, 3, 4, 1, 0, 7]), pages, sketches, None, None)
    assert [e for e, _, _ in answers(index.query(pages[:1], sketches[:1]))[0]] == [0, 1, 3, 4, 7, 9]
    index.release(np.array([1, 9], np.uint32))
    assert [e for e, _, _ in answers(index.query(pages[:1], sketches[:1]))[0]] == [0, 3, 4, 7]


@pytest.mark.parametrize("memtable", [1, 100])
def test_a_pair_of_which_either_is_short_must_keep_to_the_strict_limits(memtable: int) -> None:
    known = np.array([0, 0b111, 0b1, 0b10], np.uint64), np.array([[0], [0], [0b11111], [0]], np.uint64)
    index = Index(None, 1, 3, 40, memtable_limit=memtable, short=MatchLimits(1, 60))
    index.add(np.array([3, 0, 2, 1]), *known, np.array([False, False, False, True]), None)
    zero = np.zeros(1, np.uint64), np.zeros((1, 1), np.uint64)
    assert [e for e, _, _ in answers(index.query(*zero))[0]] == [0, 1, 2, 3]
    assert [e for e, _, _ in answers(index.query(*zero, np.array([True])))[0]] == [1, 3]
    far = np.array([0b100], np.uint64), zero[1]
    assert [e for e, _, _ in answers(index.query(*far))[0]] == [0, 2, 3]


@relaxed
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(0, 40),
    words=st.sampled_from([0, 2, 3]),
    limit=st.sampled_from([0, 5, 10**6]),
    told_apart=st.booleans(),
    further_fingerprints=st.integers(0, 2),
    sketch_lookups=st.integers(0, 2),
)
def test_joining_two_batches_is_asking_an_index_of_one_of_them(
    seed: int, count: int, words: int, limit: int, told_apart: bool, further_fingerprints: int, sketch_lookups: int
) -> None:
    rng = np.random.default_rng(seed)
    further = min(further_fingerprints + min(words, sketch_lookups), 3)
    bits, words = words, words + further_fingerprints
    few = random_words(seed + 1, 1, words) ^ np.array([[0], [1], [0x1F]], np.uint64)

    def batch(size: int) -> KeyColumns:
        pages = [flipped(7, rng.integers(0, 64, rng.integers(0, 7))) for _ in range(size)]
        sketches = few[rng.integers(0, 3, size)]
        sketches[:, :further] ^= rng.choice(np.array([0, 0xFFFF, 3], np.uint64), (size, further))
        return KeyColumns(np.array(pages, np.uint64), sketches, rng.integers(0, 2, size).astype(np.uint8))

    queries, others = batch(15), batch(count)
    limits, strict = MatchLimits(8, 60 * bits), MatchLimits(5, 62 * bits) if told_apart else None
    naive = NaiveIndex(*limits, strict, further, further_fingerprints)
    naive.add(list(range(count)), others.fingerprints, others.sketches, others.short.astype(bool))
    expected = naive.query(queries.fingerprints, queries.sketches, queries.short.astype(bool))
    found = Index(
        None, words, *limits, short=strict, further_draws=further, further_fingerprints=further_fingerprints
    ).join(queries, others, limit)
    assert found.done >= 1
    assert answers(found) == expected[: found.done]
    assert found.short.tolist() == [told_apart and others.short[e] for e in found.entry]
    assert not found.bucket.any()


def test_an_empty_index_and_an_empty_batch_give_empty_answers() -> None:
    index, none = Index(None, 2, 8, 70), np.empty((0, 2), np.uint64)
    assert index.query(np.empty(0, np.uint64), none).done == 0
    index.add(np.empty(0, np.uint32), np.empty(0, np.uint64), none, None, None)
    found = index.query(np.zeros(2, np.uint64), np.zeros((2, 2), np.uint64))
    assert (found.done, found.starts.tolist()) == (2, [0, 0, 0])
    assert len(index) == 0
    index.drop_buckets(5)
    index.settle()
    index.wait()
    index.check()
    assert index.dropped().tolist() == []


@pytest.mark.parametrize(
    ("plan", "words", "distance", "agreement", "limit", "said"),
    [
        (Plan(4, (16,) * 4, 0), 2, 8, 0, 10, "is complete up to distance 3, not 8"),
        (None, 2, 17, 0, 10, "distance 17 is out of range"),
        (None, 2, -1, 0, 10, "distance -1 is out of range"),
        (None, 2, 8, 129, 10, "an agreement of 129 bits"),
        (None, 2, 8, -1, 10, "an agreement of -1 bits"),
        (None, 2, 8, 0, 0, "a memtable of 0"),
    ],
)
def test_an_index_that_could_not_be_exact_is_refused(
    plan: Plan | None, words: int, distance: int, agreement: int, limit: int, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        Index(plan, words, distance, agreement, memtable_limit=limit)


@pytest.mark.parametrize(
    ("short", "said"),
    [
        (MatchLimits(9, 100), "for short pages is less strict"),
        (MatchLimits(-1, 100), "distance -1 is out of range"),
        (MatchLimits(8, 99), "for short pages is less strict"),
        (MatchLimits(8, 129), "an agreement of 129 bits"),
    ],
)
def test_limits_for_short_pages_that_are_less_strict_are_refused(short: MatchLimits, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Index(None, 2, 8, 100, short=short)


@pytest.mark.parametrize(
    ("count", "words", "flags", "buckets", "message"),
    [
        (1, 1, 1, 1, "sketches are"),
        (2, 2, 1, 2, "short is"),
        (1, 2, 2, 2, "entries are"),
        (2, 2, 2, 1, "buckets"),
    ],
)
def test_columns_of_other_shapes_are_refused(
    count: int, words: int, flags: int, buckets: int, message: str
) -> None:
    index = Index(None, 2, 8, 0, short=MatchLimits(1, 100))
    with pytest.raises(ValueError, match=message):
        index.add(
            np.arange(count),
            np.zeros(2, np.uint64),
            np.zeros((2, words), np.uint64),
            np.zeros(flags, bool),
            np.zeros(buckets, np.int64),
        )
    assert len(index) == 0
