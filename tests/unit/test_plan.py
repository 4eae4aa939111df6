"""Plans: completeness by counting every way to place the bits, the numbers they promise, and the choice."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from simstream.errors import SettingsError
from simstream.index.plan import MAX_DISTANCE, SCAN, SPARING, Plan, choose, plans_for


def spreads(distance: int, tables: int) -> list[tuple[int, ...]]:
    """Every way in which at most `distance` differing bits fall into the tables' prefixes."""
    return [s for s in product(range(distance + 1), repeat=tables) if sum(s) <= distance]


@pytest.mark.parametrize(
    ("tables", "bits", "flips", "distance"),
    [(4, 16, 0, 3), (4, 16, 1, 7), (3, 21, 0, 2), (3, 21, 1, 5), (3, 21, 2, 8)],
)
def test_the_designs_examples_are_complete_for_what_it_says(
    tables: int, bits: int, flips: int, distance: int
) -> None:
    assert Plan(tables, (bits,) * tables, flips).complete_for == distance


@pytest.mark.parametrize("tables", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("flips", [0, 1, 2])
def test_wherever_the_bits_fall_some_table_finds_them(tables: int, flips: int) -> None:
    plan = Plan(tables, (12,) * tables, flips)
    for distance in range(plan.complete_for + 1):
        allowed = plan.flips_for(distance)
        for spread in spreads(distance, tables):
            assert any(n <= f for n, f in zip(spread, allowed, strict=True)), (distance, spread)


@pytest.mark.parametrize("tables", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("flips", [0, 1, 2])
def test_one_flip_less_in_any_table_would_miss_a_match(tables: int, flips: int) -> None:
    plan = Plan(tables, (12,) * tables, flips)
    for distance in range(plan.complete_for + 1):
        allowed = plan.flips_for(distance)
        for less in range(tables):
            if allowed[less] < 0:
                continue
            fewer = [f - (t == less) for t, f in enumerate(allowed)]
            missed = [s for s in spreads(distance, tables) if all(n > f for n, f in zip(s, fewer, strict=True))]
            assert missed, (distance, less)


def test_a_plan_refuses_a_greater_distance_than_it_is_complete_for() -> None:
    with pytest.raises(SettingsError, match="complete up to distance 8"):
        Plan(3, (21, 21, 21), 2).flips_for(9)


def test_the_scan_is_complete_for_every_distance() -> None:
    assert SCAN.complete_for == 64
    assert SCAN.expected_candidates(1000) == 1000


@pytest.mark.parametrize(
    ("tables", "bits", "flips", "said"),
    [
        (2, (16,), 0, "is not a plan"),
        (3, (21, 21, 23), 0, "do not fit into 64 bits"),
        (1, (7,), 0, "do not fit into 64 bits"),
        (1, (25,), 0, "do not fit into 64 bits"),
        (1, (16,), -1, "is not a plan"),
    ],
)
def test_a_plan_that_is_no_cut_of_64_bits_is_refused(
    tables: int, bits: tuple[int, ...], flips: int, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        Plan(tables, bits, flips)


@pytest.mark.parametrize("distance", range(MAX_DISTANCE + 1))
@pytest.mark.parametrize("entries", [0, 1, 1000, 10**5, 10**6, 10**8])
def test_every_distance_gets_a_complete_plan(distance: int, entries: int) -> None:
    assert choose(distance, entries).complete_for >= distance


@pytest.mark.parametrize("distance", [-1, MAX_DISTANCE + 1])
def test_a_distance_out_of_range_is_refused(distance: int) -> None:
    with pytest.raises(SettingsError, match="out of range"):
        choose(distance, 1000)


def test_few_fingerprints_are_scanned_and_many_are_not() -> None:
    assert choose(8, 100) == SCAN
    assert choose(8, 10**6).tables > 0


@pytest.mark.parametrize("distance", [3, 5, 8])
@pytest.mark.parametrize("entries", [10**4, 10**6, 10**7])
def test_the_choice_is_the_smallest_of_nearly_the_cheapest_designs(distance: int, entries: int) -> None:
    chosen = choose(distance, entries)
    fitting = [p for p in plans_for(distance) if not p.tables or 2 ** max(p.prefix_bits) <= 4 * entries]
    most = SPARING * min(p.cost_ns(entries, distance) for p in fitting)
    assert chosen.cost_ns(entries, distance) <= most
    for plan in fitting:
        if plan.nbytes(entries, distance) < chosen.nbytes(entries, distance):
            assert plan.cost_ns(entries, distance) > most


def test_the_masks_are_all_small_sets_of_flips() -> None:
    layout = Plan(2, (10, 12), 2).layout(5)
    for (begin, end), bits in zip(layout.groups.tolist(), (10, 12), strict=True):
        own = layout.masks[begin:end]
        expected = [m for m in range(1 << bits) if m.bit_count() <= 2]
        assert sorted(own.tolist()) == expected


def test_the_masks_of_a_shard_are_those_that_flip_its_first_bits() -> None:
    layout = Plan(2, (10, 12), 2).layout(5, shard_bits=3)
    for groups, bits in zip(layout.groups.tolist(), (10, 12), strict=True):
        for first, (begin, end) in enumerate(pairwise(groups)):
            expected = [m for m in range(1 << bits) if m.bit_count() <= 2 and m >> (bits - 3) == first]
            assert sorted(layout.masks[begin:end].tolist()) == expected


def test_probes_and_candidates_are_what_the_masks_say() -> None:
    plan = Plan(3, (21, 21, 21), 2)
    masks = plan.layout(8).masks
    assert plan.probes() == len(masks) == 3 * (1 + 21 + 210)
    assert plan.expected_candidates(2**21) == pytest.approx(len(masks))


def test_rotations_bring_each_prefix_to_the_front() -> None:
    plan = Plan(3, (20, 12, 8), 0)
    word = 0b1 << (64 - 21)  # the first bit after the first prefix
    turned = [((word << r) | (word >> (64 - r))) & (2**64 - 1) for r in plan.rotations]
    assert [t >> 63 for t in turned] == [0, 1, 0]


def test_a_lesser_distance_leaves_tables_out() -> None:
    layout = Plan(4, (16,) * 4, 1).layout(1).tables
    assert len(layout) == 2
    assert layout.dtype == np.int64
