"""Which flags a policy's id stands for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simstream.errors import WrongPolicy
from simstream.judge.policy import make_policy
from simstream.settings import duration_ms
from simstream.text.recipe import PRESETS, preset
from simstream.tools.explain.policy import check_policy, flags_of
from tests.golden.write_fingerprints import RECIPES

RECIPE_ID = "00000000"


@pytest.mark.parametrize(
    ("name", "distance", "similarity", "window", "link"),
    [
        ("default", None, None, None, "any"),
        ("default", 5, None, "72h", "canonical"),
        ("default", 8, "0.75", "24h", "any"),
        ("default", 0, "0.7", None, "any"),
        ("google2007", 4, None, "7d", "canonical"),
    ],
)
def test_usual_flags_are_found_from_the_id(name, distance, similarity, window, link) -> None:
    recipe = preset(name)
    window_ms = duration_ms("window", window) if window else None
    published = make_policy(recipe, RECIPE_ID, distance, similarity, window_ms, link).id
    found = flags_of(published, RECIPE_ID, recipe)
    assert found is not None
    words = found.split()
    flags = dict(zip(words[::2], words[1::2], strict=True))
    again = make_policy(
        recipe,
        RECIPE_ID,
        int(flags["--distance"]),
        flags.get("--similarity"),
        None if flags["--window"] == "none" else duration_ms("window", flags["--window"]),
        flags["--link"],  # type: ignore[arg-type]
    )
    assert again.id == published


def test_unusual_flags_are_not_guessed_and_the_error_names_all_flags() -> None:
    recipe = preset("google2007")
    mine = make_policy(recipe, RECIPE_ID)
    theirs = make_policy(recipe, RECIPE_ID, window_ms=12_345)
    with pytest.raises(
        WrongPolicy, match=f"{theirs.id}, and these settings make the policy {mine.id}: give --recipe, --dist"
    ):
        check_policy("a", theirs.id, mine, recipe)


@pytest.mark.parametrize("name", PRESETS)
def test_the_policy_at_hand_is_let_pass(name: str) -> None:
    mine = make_policy(preset(name), RECIPE_ID)
    check_policy("a", mine.id, mine, preset(name))


@pytest.mark.parametrize("name", ["default", "former"])
def test_another_number_of_lookups_is_named_and_a_recipe_that_can_have_none_is_no_error(name: str) -> None:
    recipe = RECIPES[name]
    mine = make_policy(recipe, RECIPE_ID)
    alone = replace(make_policy(recipe, RECIPE_ID, 3), sketch_lookups=0)
    found = flags_of(alone.id, RECIPE_ID, recipe)
    assert found is not None
    assert ("sketch_lookups = 0" in found) == bool(recipe.sketch_lookups)
    assert "--distance 3" in found
    with pytest.raises(WrongPolicy, match="give --recipe"):
        check_policy("a", replace(mine, window_ms=12_345).id, mine, recipe)
