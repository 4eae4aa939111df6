"""`dedup --distance auto`: as wide as the index affords, and never wider where nothing confirms a candidate."""

from __future__ import annotations

from itertools import pairwise

import pytest

from simstream.index import plan
from simstream.text.recipe import PRESETS
from simstream.tools.dedup.auto_distance import BUDGET_NS, WIDEST, expected_pages, widest_distance

DEFAULT = PRESETS["default"]


def test_the_distance_shrinks_with_the_collection_down_to_the_recipes() -> None:
    sizes = [10**power for power in range(1, 10)]
    found = [widest_distance(DEFAULT, pages) for pages in sizes]
    assert found[0] == WIDEST
    assert found[-1] == DEFAULT.distance
    assert all(small >= large for small, large in pairwise(found))
    for pages, distance in zip(sizes, found, strict=True):
        affordable = plan.choose(distance, pages).cost_ns(pages, distance) <= BUDGET_NS
        assert affordable or distance == DEFAULT.distance


@pytest.mark.parametrize("name", [name for name, recipe in PRESETS.items() if not recipe.sketch_bits])
def test_a_recipe_without_a_sketch_keeps_its_distance(name: str) -> None:
    assert widest_distance(PRESETS[name], 100) == PRESETS[name].distance


def test_input_of_unknown_size_keeps_the_recipes_distance() -> None:
    assert expected_pages(None) is None
    assert widest_distance(DEFAULT, None) == DEFAULT.distance
    assert widest_distance(DEFAULT, expected_pages(0)) == WIDEST
