"""Refuses a verdict of another policy, and names the flags of that policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import product

from simstream.errors import WrongPolicy
from simstream.index.plan import MAX_DISTANCE
from simstream.judge.policy import LINKS, Policy, make_policy
from simstream.settings import duration_ms
from simstream.text.recipe import Recipe

_HOURS, _DAYS = (1, 2, 6, 12, 24, 48, 72, 96), (7, 14, 28, 30, 60, 90, 365)
WINDOWS = (None, *(f"{hours}h" for hours in _HOURS), *(f"{days}d" for days in _DAYS))
"""The windows that are tried: a policy's id does not tell its window."""


def check_policy(page_id: str, published: str, policy: Policy, recipe: Recipe) -> None:
    """Raise WrongPolicy if a verdict has another policy; the error names its flags, if they can be found."""
    if published == policy.id:
        return
    flags = flags_of(published, policy.recipe_id, recipe)
    advice = (
        f"use {flags}"
        if flags
        else "give --recipe, --distance, --similarity, --window and --link as `simstream serve` has them"
    )
    raise WrongPolicy(
        f"the verdict of {page_id} has the policy {published}, and these settings make the policy {policy.id}",
        advice,
    )


def flags_of(policy_id: str, recipe_id: str, recipe: Recipe) -> str | None:
    """Return what makes the policy with this id: flags, or a recipe file and flags; None if no usual ones do.

    Tries the recipe's own number of lookups by the sketch, then 0 and 1. At most about 2 s.
    """
    for window, link, similarity, distance in product(
        WINDOWS, LINKS, _similarities(recipe), range(MAX_DISTANCE + 1)
    ):
        window_ms = duration_ms("window", window) if window else None
        policy = make_policy(recipe, recipe_id, distance, similarity, window_ms, link)
        for count in dict.fromkeys((recipe.sketch_lookups, 0, 1)):
            if replace(policy, sketch_lookups=count).id == policy_id:
                named = {"distance": distance, "similarity": similarity, "window": window or "none", "link": link}
                flags = " ".join(f"--{name} {value}" for name, value in named.items() if value is not None)
                own = count == recipe.sketch_lookups
                return flags if own else f"a recipe file with sketch_lookups = {count}, and {flags}"
    return None


def _similarities(recipe: Recipe) -> Iterator[str | None]:
    """Yield the similarity of each agreement that a sketch can have, the recipe's own first."""
    yield recipe.similarity
    bits = recipe.sketch_bits
    for agreement in range(bits // 2, bits + 1) if bits else ():
        yield format((Decimal(2 * agreement) / bits - 1).normalize(), "f")
