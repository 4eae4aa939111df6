"""Each study over a small sample: it runs, its numbers have their n, and what must hold at any size holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.studies import report
from tests.studies.__main__ import NAMES, main, run
from tests.studies.context import StudyContext

pytestmark = pytest.mark.corpora
LIMIT = 40


@pytest.fixture(scope="module")
def context(cache: Path) -> StudyContext:
    return StudyContext("default", cache, LIMIT)


@pytest.fixture(scope="module")
def few(cache: Path) -> StudyContext:
    """A sample for what holds whatever the numbers are."""
    return StudyContext("default", cache, 12)


def shares(found: Any) -> Iterator[dict[str, Any]]:
    """Every share within a study's numbers."""
    if isinstance(found, dict) and {"count", "n", "share", "low", "high"} <= found.keys():
        yield found
    elif isinstance(found, dict):
        for part in found.values():
            yield from shares(part)
    elif isinstance(found, list):
        for part in found:
            yield from shares(part)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.long
def test_a_study_gives_shares_with_intervals_and_tables_of_them(name: str, few: StudyContext) -> None:
    found = run(name, few)
    parts = list(shares(found))
    assert sum(part["n"] for part in parts) > 0
    for part in parts:
        assert 0 <= part["count"] <= part["n"]
        if part["n"]:
            assert part["low"] <= part["share"] == part["count"] / part["n"] <= part["high"]
    tables = report.tables(name, found)
    assert tables
    for table in tables:
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_command_writes_numbers_and_tables_for_a_recipe_file(tmp_path: Path) -> None:
    recipe = tmp_path / "strict.toml"
    recipe.write_text("distance = 0\nsketch_lookups = 0\n", encoding="utf-8")
    arguments = ["containment", "--out", str(tmp_path), "--limit", "5", "--recipe", str(recipe)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    numbers = json.loads((tmp_path / "studies.json").read_text(encoding="utf-8"))
    assert list(numbers["studies"]) == ["containment"]
    assert sum(part["count"] for part in shares(numbers["studies"])) <= 5  # hardly anything matches within 0 bits
    assert "## containment" in (tmp_path / "studies.md").read_text(encoding="utf-8")


def test_an_unknown_recipe_is_wrong_usage(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["containment", "--out", str(tmp_path), "--recipe", "nonesuch"])
    assert done.exit_code == 2
    assert "nonesuch" in done.output


def test_a_small_part_of_a_page_is_no_near_duplicate_of_it(context: StudyContext) -> None:
    for found in run("containment", context).values():
        matched = found["kinds"]["part 10%"]["matched"]
        assert matched["n"] > 0
        assert matched["count"] == 0


def test_a_second_copy_of_a_short_page_matches_from_the_least_number_of_words_on(context: StudyContext) -> None:
    least, lengths = context.recipe.min_words, run("short", context)
    copies = {tuple(map(int, length.split("-"))): found["identical"] for length, found in lengths.items()}
    compared = [found for (low, _), found in copies.items() if low >= least]
    too_short = [found for (_, high), found in copies.items() if high <= least]
    assert compared
    assert all(found["count"] == found["n"] > 0 for found in compared)
    assert too_short
    assert all(found["count"] == 0 < found["n"] for found in too_short)


def test_no_real_page_shares_a_cluster_with_boilerplate(context: StudyContext) -> None:
    found = run("boilerplate", context)
    for link in ("any", "canonical"):
        assert found[link]["real_pages_with_boilerplate"]["n"] > 0
        assert found[link]["real_pages_with_boilerplate"]["count"] == 0
        assert found[link]["largest"]
