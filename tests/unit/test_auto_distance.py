"""`dedup --distance auto`: as wide as the index affords, and never wider where nothing confirms a candidate."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from simstream.index import plan
from simstream.text.recipe import PRESETS
from simstream.tools.dedup.auto_distance import MAX_AUTO_DISTANCE, MAX_INDEX_NS, choose_distance, estimate_pages

DEFAULT = PRESETS["default"]


def test_the_distance_shrinks_with_the_collection_down_to_the_recipes() -> None:
    sizes = [10**power for power in range(1, 10)]
    found = [choose_distance(DEFAULT, pages) for pages in sizes]
    assert found[0] == MAX_AUTO_DISTANCE
    assert found[-1] == DEFAULT.distance
    assert all(small >= large for small, large in pairwise(found))
    for pages, distance in zip(sizes, found, strict=True):
        affordable = plan.choose(distance, pages).cost_ns(pages, distance) <= MAX_INDEX_NS
        assert affordable or distance == DEFAULT.distance


def test_the_distance_shrinks_within_ten_megabytes_of_the_documented_sizes() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs/how-to/files.md").read_text("utf-8").split())
    told = re.search(r"is (\d+) up to (\d+) MB, (\d+) up to (\d+) MB, (\d+) up to (\d+) MB, and (\d+) above", page)
    assert told is not None
    distances, sizes = [int(one) for one in told.groups()[::2]], [int(one) for one in told.groups()[1::2]]
    for before, after, size in zip(distances[:-1], distances[1:], sizes, strict=True):
        around = [
            choose_distance(DEFAULT, estimate_pages(megabytes * 10**6)) for megabytes in (size - 10, size + 10)
        ]
        assert around == [before, after]


def test_a_second_fingerprint_and_pages_that_the_texts_confirm() -> None:
    two = replace(DEFAULT, fingerprints=2)
    chosen = [(choose_distance(DEFAULT, 10**power), choose_distance(two, 10**power)) for power in range(1, 9)]
    assert chosen[0] == (MAX_AUTO_DISTANCE, MAX_AUTO_DISTANCE)
    assert all(one >= other for one, other in chosen)
    assert any(one > other for one, other in chosen)
    assert choose_distance(PRESETS["google2007"], 100, confirmed=True) == MAX_AUTO_DISTANCE


@pytest.mark.parametrize("name", [name for name, recipe in PRESETS.items() if not recipe.sketch_bits])
def test_a_recipe_without_a_sketch_keeps_its_distance(name: str) -> None:
    assert choose_distance(PRESETS[name], 100) == PRESETS[name].distance


def test_input_of_unknown_size_keeps_the_recipes_distance() -> None:
    assert estimate_pages(None) is None
    assert choose_distance(DEFAULT, None) == DEFAULT.distance
    assert choose_distance(DEFAULT, estimate_pages(0)) == MAX_AUTO_DISTANCE


def test_pages_without_anything_in_common_do_not_match_for_the_distance() -> None:
    assert choose_distance(DEFAULT, 100, "0.5") == MAX_AUTO_DISTANCE
    for low in ("0", "0.49", "much"):
        assert choose_distance(DEFAULT, 100, low) == DEFAULT.distance
