"""Defines the policy: distance, agreement, window and link rule; its id, its defaults and its checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from hashlib import blake2b
from numbers import Integral
from typing import Any, Final, Literal, get_args

import msgspec

from simstream.errors import SettingsError
from simstream.index.plan import MAX_DISTANCE
from simstream.model import MatchLimits
from simstream.text.recipe import Recipe, count_sketch_words

SEMANTICS: Final = 1
"""The version of the rules from log to verdicts. Increase it whenever a verdict changes."""
MAX_WINDOW_MS: Final = 1 << 53
Link = Literal["any", "canonical"]
LINKS: Final[tuple[Link, ...]] = get_args(Link)


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules that decide verdicts over a log of one recipe.

    `short_distance` and `short_agreement` are the limits of a pair with a short page, at least as strict as the
    others. If `short_words` is 0, no page is short, and these three are no part of the id.
    """

    recipe_id: str
    sketch_bits: int
    distance: int
    """Greatest Hamming distance of a candidate."""
    agreement: int
    """Least number of agreeing sketch bits of a match; 0 if the recipe has no sketch."""
    window_ms: int | None
    link: Link
    short_words: int = 0
    """Pages with fewer distinct words are short."""
    short_distance: int = 0
    short_agreement: int = 0
    fingerprints: int = 1
    """How many fingerprints a page has. 1 is no part of the id."""
    sketch_lookups: int = 0
    """How many 64-bit words of the sketch also look a page up. 0 is no part of the id."""

    @property
    def sketch_words(self) -> int:
        """See `count_sketch_words`."""
        return count_sketch_words(self.fingerprints, self.sketch_bits)

    @property
    def lookups(self) -> int:
        """How many lookups a page has (`model.lookup_values`). The closest one gives the distance of two pages."""
        return self.fingerprints + self.sketch_lookups

    @property
    def limits(self) -> MatchLimits:
        """Return the limits of a pair without a short page."""
        return MatchLimits(self.distance, self.agreement)

    @property
    def short_limits(self) -> MatchLimits | None:
        """Return the limits of a pair with a short page; None if no page is short."""
        return MatchLimits(self.short_distance, self.short_agreement) if self.short_words else None

    @property
    def id(self) -> str:
        """Return 8 hex digits over all fields and the version of the rules."""
        names = [name for name in self.__slots__ if self.short_words or not name.startswith("short_")]
        if self.fingerprints == 1:
            names.remove("fingerprints")
        names.remove("sketch_lookups")
        fields = [getattr(self, name) for name in names]
        if self.sketch_lookups:
            fields.append({"sketch_lookups": self.sketch_lookups})
        content = msgspec.json.encode([SEMANTICS, *fields])
        return blake2b(content, digest_size=4, person=b"simstream policy").hexdigest()


MAX_DECIMALS = 100


def least_agreement(similarity: str | float | Decimal, bits: int) -> int:
    """Return exactly ceil(bits (1 + S) / 2) for the decimal S as it is written. Raises SettingsError."""
    try:
        number = Decimal(str(similarity))
        in_range = 0 <= number <= 1
    except InvalidOperation as error:
        raise SettingsError(f"similarity is {similarity!r}", "use a number from 0 to 1") from error
    if not in_range:
        raise SettingsError(f"similarity is {similarity}", "use a number from 0 to 1")
    if number.adjusted() < -MAX_DECIMALS:  # its fraction would have as many digits
        raise SettingsError(f"similarity is {similarity}", f"use a number with at most {MAX_DECIMALS} decimals")
    return -(-bits * (1 + Fraction(number)) // 2)


def make_policy(
    recipe: Recipe,
    recipe_id: str,
    distance: int | None = None,
    similarity: str | float | Decimal | None = None,
    window_ms: int | None = None,
    link: Link = "any",
) -> Policy:
    """Return the policy for a recipe; the recipe gives each value that is None. Raises SettingsError out of range.

    It takes over the recipe's rule for short pages, unless `distance` and `similarity` are as strict.
    """
    given: Any = recipe.distance if distance is None else distance  # perhaps a number of numpy
    if isinstance(given, bool) or not isinstance(given, Integral) or not 0 <= int(given) <= MAX_DISTANCE:
        raise SettingsError(f"distance is {given!r}", f"use a whole number from 0 to {MAX_DISTANCE}")
    if window_ms is not None and not 0 < window_ms <= MAX_WINDOW_MS:
        raise SettingsError(f"window is {window_ms} ms", f"use 1 to {MAX_WINDOW_MS} ms, or none")
    if link not in ("any", "canonical"):
        raise SettingsError(f"link is {link!r}", "use any or canonical")
    bits = recipe.sketch_bits
    if bits == 0 and similarity is not None:
        raise SettingsError(
            f"similarity is {similarity}, but the recipe {recipe.name} has no sketch",
            "leave similarity out, or use a recipe with a sketch",
        )
    chosen = recipe.similarity if similarity is None else similarity
    limits = MatchLimits(int(given), _agreement(chosen, bits))
    policy = Policy(
        recipe_id,
        bits,
        *limits,
        window_ms,
        link,
        fingerprints=recipe.fingerprints,
        sketch_lookups=recipe.sketch_lookups,
    )
    strict = _short_limits(recipe, limits)
    if recipe.short_words == 0 or strict == limits:
        return policy
    return replace(
        policy, short_words=recipe.short_words, short_distance=strict.distance, short_agreement=strict.agreement
    )


def _short_limits(recipe: Recipe, limits: MatchLimits) -> MatchLimits:
    """Return the stricter of the recipe's limits for short pages and the limits of every pair."""
    distance = recipe.distance if recipe.short_distance is None else recipe.short_distance
    similarity = recipe.similarity if recipe.short_similarity is None else recipe.short_similarity
    return MatchLimits(
        min(limits.distance, distance), max(limits.agreement, _agreement(similarity, recipe.sketch_bits))
    )


def _agreement(similarity: str | float | Decimal | None, bits: int) -> int:
    return least_agreement(similarity, bits) if bits and similarity is not None else 0
