"""Policies: all but the log that decides a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from hashlib import blake2b
from typing import Final, Literal

import msgspec

from stream.errors import SettingsError
from stream.index.plan import MAX_DISTANCE
from stream.text.recipe import Recipe

SEMANTICS: Final = 1
"""Version of the rules by which a log becomes verdicts; raised whenever a verdict changes."""
MOST_WINDOW_MS: Final = 1 << 53
Link = Literal["any", "canonical"]


@dataclass(frozen=True, slots=True)
class Policy:
    """What decides verdicts over a log of one recipe."""

    recipe_id: str
    sketch_bits: int
    distance: int
    """Greatest Hamming distance of a candidate."""
    agreement: int
    """Least number of agreeing sketch bits of a match; 0 where the recipe has no sketch."""
    window_ms: int | None
    link: Link

    @property
    def id(self) -> str:
        """8 hex digits over all of it and the version of the semantics."""
        fields = [getattr(self, name) for name in self.__slots__]
        content = msgspec.json.encode([SEMANTICS, *fields])
        return blake2b(content, digest_size=4, person=b"simstream policy").hexdigest()


def least_agreement(similarity: str | float | Decimal, bits: int) -> int:
    """ceil(bits (1 + S) / 2), exactly, for the decimal S as it is written. Raises SettingsError."""
    try:
        exact = Fraction(Decimal(str(similarity)))
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise SettingsError(f"similarity is {similarity!r}", "use a number from 0 to 1") from error
    if not 0 <= exact <= 1:
        raise SettingsError(f"similarity is {similarity}", "use a number from 0 to 1")
    return -(-bits * (1 + exact) // 2)


def make_policy(
    recipe: Recipe,
    recipe_id: str,
    distance: int | None = None,
    similarity: str | float | Decimal | None = None,
    window_ms: int | None = None,
    link: Link = "any",
) -> Policy:
    """The policy for a recipe; what is None comes from the recipe. Raises SettingsError where out of range."""
    distance = recipe.distance if distance is None else distance
    if not isinstance(distance, int) or not 0 <= distance <= MAX_DISTANCE:
        raise SettingsError(f"distance is {distance!r}", f"use 0 to {MAX_DISTANCE}")
    if window_ms is not None and not 0 < window_ms <= MOST_WINDOW_MS:
        raise SettingsError(f"window is {window_ms} ms", f"use 1 to {MOST_WINDOW_MS} ms, or none")
    if link not in ("any", "canonical"):
        raise SettingsError(f"link is {link!r}", "use any or canonical")
    bits = recipe.sketch_bits
    if bits == 0 and similarity is not None:
        raise SettingsError(
            f"similarity is {similarity}, but the recipe {recipe.name} has no sketch",
            "leave similarity out, or use a recipe with a sketch",
        )
    similarity = recipe.similarity if similarity is None else similarity
    agreement = least_agreement(similarity, bits) if bits and similarity is not None else 0
    return Policy(recipe_id, bits, distance, agreement, window_ms, link)
