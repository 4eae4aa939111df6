"""`simstream plan`: designs that miss nothing, the numbers that they promise, and what fits into a memory."""

from __future__ import annotations

import time
from itertools import product

import msgspec
import numpy as np
import pytest

from simstream.amounts import count, nbytes
from simstream.cli.main import invoke
from simstream.errors import SettingsError, UsageError
from simstream.index.packed import TableBuild, build
from simstream.index.plan import MAX_DISTANCE, choose
from simstream.tools.plan import speed
from simstream.tools.plan.costs import STATE_BYTES, PageLookups, PlanReport, weigh
from simstream.tools.plan.designs import ALL, TableDesign, cut_into, designs, least_flips, paper_designs
from simstream.tools.plan.speed import MachineSpeed, SizeCosts

SPEED = MachineSpeed(0.1, 10.0, (SizeCosts(1 << 20, 10.0, 8.0, 0.1), SizeCosts(1 << 26, 100.0, 32.0, 0.4)))
ALONE = PageLookups()
"""Pages that are looked up by their fingerprint alone."""
REST_S = 0.05
PAPER = {"paper's 4": 4, "paper's 10": 10, "paper's 16": 16, "paper's 20": 20}


def meets(design: TableDesign, difference: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Per table (t, n) whether it meets pairs with these differing bits (n,)."""
    masks = np.array(design.masks, np.uint64)[:, None]
    return np.bitwise_count(difference & masks) <= np.array(design.flips)[:, None]


def differing(rng: np.random.Generator, bits: int, count: int) -> np.ndarray:  # type: ignore[type-arg]
    """`count` words with exactly so many ones."""
    places = np.argsort(rng.random((count, 64)), axis=1)[:, :bits].astype(np.uint64)
    return np.bitwise_or.reduce(np.uint64(1) << places, axis=1) if bits else np.zeros(count, np.uint64)


def test_the_time_of_other_threads_and_processes_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "TURN_S", 0)

    def rests(first: int) -> int:
        time.sleep(REST_S)
        return first + 1

    assert speed._each(rests, 1) < REST_S * 1e9 / 2


@pytest.mark.parametrize("cut", range(1, 7))
def test_the_formulas_flips_are_the_least_that_no_fall_of_the_bits_defeats(cut: int) -> None:
    for distance in range(9):
        spreads = [s for s in product(range(distance + 1), repeat=cut) if sum(s) == distance]
        for leading in range(1, cut + 1):
            worst = max(sum(sorted(spread)[:leading]) for spread in spreads)
            assert least_flips(cut, leading, distance) == worst, (leading, distance)


@pytest.mark.parametrize("distance", [0, 1, 3, 5, 8, 12, MAX_DISTANCE])
def test_every_design_meets_every_pair_within_the_distance(distance: int) -> None:
    rng = np.random.default_rng(distance)
    for design in designs(distance, 10**6):
        for bits in range(distance + 1):
            assert not design.masks or meets(design, differing(rng, bits, 4000)).any(axis=0).all(), design.name


def test_for_three_bits_the_designs_are_the_papers_own() -> None:
    four, ten, sixteen, twenty = paper_designs(3)
    assert [len(design.masks) for design in (four, ten, sixteen, twenty)] == list(PAPER.values())
    assert all(set(design.flips) == {0} for design in (four, ten, sixteen, twenty))
    assert set(four.bits) == {16}
    assert set(ten.bits) == {25, 26}
    assert set(sixteen.bits) == {28}
    assert (min(twenty.bits), max(twenty.bits)) == (31, 33)
    papers = 2**34  # its eight billion pages, a table
    assert four.expected_candidates(papers) / 4 == 2**18
    assert sixteen.expected_candidates(papers) / 16 == 64


@pytest.mark.parametrize("distance", [3, 8])
def test_expected_candidates_are_what_random_fingerprints_bring(distance: int) -> None:
    rng = np.random.default_rng(20 + distance)
    known = rng.integers(0, 1 << 64, 200_000, np.uint64)
    queries = rng.integers(0, 1 << 64, 40, np.uint64)
    for design in designs(distance, len(known)):
        expected = design.expected_candidates(len(known))
        found = sum(int(meets(design, known ^ query).sum()) for query in queries) if design.masks else 0
        mean = found / len(queries)
        # The count is a sum of nearly independent rare hits: five standard deviations, and one hit at all.
        if design.masks:
            assert abs(mean - expected) <= 5 * np.sqrt(expected / len(queries)) + 0.03 * expected + 1, design.name


@pytest.mark.parametrize("distance", [3, 5, 8])
def test_table_bytes_are_those_of_the_tables_that_the_index_builds(distance: int) -> None:
    entries = 50_000
    column = np.unique(np.random.default_rng(5).integers(0, 1 << 64, entries, np.uint64))
    chosen = choose(distance, entries)
    built = build(column, TableBuild(chosen, distance), lambda: None).arrays()
    [row] = [row for row in weigh(entries, distance, None, SPEED, ALONE).designs if row.serves]
    assert row.tables == chosen.tables > 0
    assert sum(array.nbytes for array in built.values()) == pytest.approx(row.table_bytes, rel=1e-3)


@pytest.mark.parametrize("entries", [1, 1000, 10**6, 10**10])
@pytest.mark.parametrize("distance", [0, 3, 8, 16])
def test_one_design_is_the_services_and_no_table_stands_twice(distance: int, entries: int) -> None:
    rows = weigh(entries, distance, None, SPEED, ALONE).designs
    assert sum(row.serves for row in rows) == 1
    assert len({row.name for row in rows}) == len(rows)
    assert all(any(f"{name}" in row.name for row in rows) for name in PAPER)


def test_blocks_are_as_even_as_can_be_and_cover_all_bits() -> None:
    parts = cut_into(6, ALL)
    assert [part.bit_count() for part in parts] == [11, 11, 11, 11, 10, 10]
    assert sum(parts) == ALL
    assert parts[0] >> 53 == (1 << 11) - 1


def test_what_fits_is_what_tables_and_pages_take_together() -> None:
    free = weigh(10**7, 3, None, SPEED, ALONE)
    assert all(row.fits and row.all_bytes == row.table_bytes + STATE_BYTES * 10**7 for row in free.designs)
    limit = free.served.all_bytes - 1
    tight = weigh(10**7, 3, limit, SPEED, ALONE)
    assert not tight.served.fits
    assert tight.fastest.fits
    assert tight.fastest.all_bytes <= limit
    assert [row.fits for row in tight.designs] == [row.all_bytes <= limit for row in tight.designs]


def test_where_none_fits_the_error_says_what_would() -> None:
    with pytest.raises(UsageError, match="no design for 10,000,000 pages fits") as error:
        weigh(10**7, 3, 10**8, SPEED, ALONE)
    assert "give --memory 0.6GB or more" in error.value.todo
    assert weigh(10**7, 3, nbytes("--memory", "0.6GB"), SPEED, ALONE).fastest.fits


def test_a_distance_out_of_range_is_refused() -> None:
    with pytest.raises(SettingsError, match="out of range"):
        weigh(1000, 17, None, SPEED, ALONE)


def test_between_two_sizes_costs_lie_between() -> None:
    assert SPEED.at(1 << 10).probe_ns == 8
    assert SPEED.at(1 << 23) == SizeCosts(1 << 23, 55.0, 20.0, 0.25)
    assert SPEED.at(1 << 40).probe_ns == SPEED.at(1 << 70).probe_ns == 32


@pytest.mark.parametrize(
    ("text", "value"),
    [("250000", 250_000), ("1_000,000.5k", 1_000_000_500), ("10M", 10**7), ("1.5k", 1500), ("8G", 8 * 10**9)],
)
def test_counts_are_read_with_their_units(text: str, value: int) -> None:
    assert count("--pages", text) == value


@pytest.mark.parametrize(
    "text", ["", "x", "0", "-3", "10Q", "1e6", "9" * 400, "1.2.3", "999999999999G", "1,5M", "1_5"]
)
def test_a_wrong_amount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an amount"):
        count("--pages", text)


def test_bytes_are_read_with_their_units() -> None:
    assert [nbytes("-", text) for text in ("512MB", "64GB", "1gib", "7", "7b")] == [
        512 << 20,
        64 << 30,
        1 << 30,
        7,
        7,
    ]


def test_the_command_measures_and_marks_what_the_service_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["plan", "--pages", "1M", "--distance", "3", "--memory", "64GB", "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out, type=PlanReport)
    assert found.served.prefix_bits == choose(3, 10**6).prefix_bits
    assert found.measured.scanned_ns > 0
    assert all(row.microseconds > 0 and row.fits for row in found.designs)
    assert invoke(["plan", "--pages", "1M", "--distance", "3", "--memory", "80MB"]) == 0
    printed = capsys.readouterr()
    assert [line for line in printed.out.splitlines() if line.startswith("→   4 x 16 bits (paper's 4)")]
    assert [line for line in printed.out.splitlines() if line.startswith("✗   paper's 20")]


def test_the_command_takes_the_greatest_number_of_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["plan", "--pages", "2000000000G", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["pages"] == 2 * 10**18


def test_the_command_says_in_one_line_where_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["plan", "--pages", "1M", "--memory", "1MB"]) == 2
    assert capsys.readouterr().err.startswith("simstream: no design for 1,000,000 pages fits into 1,048,576 bytes")
    assert invoke(["plan", "--pages", "0"]) == 2
