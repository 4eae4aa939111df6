"""Recipes: all that leads from bytes to fingerprint and sketch, and the presets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import Final, Literal

import msgspec

from stream.errors import SettingsError, Unavailable

TF_CAP: Final = 4095
"""Occurrences of a word in a page beyond this many count as this many."""
MAX_WEIGHT: Final = 1000.0
MOST_WORDS: Final = 1 << 20
LEAST_TEXT_BYTES: Final = 64
MOST_TEXT_BYTES: Final = 1 << 28
_UNSEEN: Final = frozenset({"name", "distance", "similarity", "short_words", "short_distance", "short_similarity"})
"""Settings that change no fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a page becomes fingerprint and sketch; `distance` and `similarity` are the preset's defaults.

    Raises SettingsError where a value is out of range.
    """

    name: str
    weights: Literal["dictionary", "jieba-idf"] = "dictionary"
    """-ln(frequency / total) of jieba's dictionary, or jieba's table of inverse document frequencies."""
    tf_power: float = 0.75
    """A word that occurs tf times weighs tf^tf_power times its weight."""
    seed: int = 0
    """Of the words' hashes, below 2^32."""
    sketch_bits: int = 128
    """0, 64, 128, 192 or 256."""
    hmm: bool = True
    min_words: int = 8
    """Pages with fewer distinct words are `too_short`."""
    max_text_bytes: int = 1 << 20
    """Bytes of a text that are fingerprinted."""
    number_weight: float = 4.0
    """Weight of a word without letters that the table does not have."""
    default_weight: float = 8.0
    """Weight of a word without Han characters that the table does not have."""
    extract: Literal["main"] = "main"
    """What of an HTML page counts: its main content."""
    distance: int = 8
    similarity: str | None = "0.5625"
    """Decimal, so that the least agreement is exact; None without a sketch."""
    short_words: int = 0
    """Pages with fewer distinct words are short, and a pair with one of them must agree better; 0: none is."""
    short_distance: int | None = None
    short_similarity: str | None = None
    """What a pair with a short page needs: at least as strict as `distance` and `similarity`; None: as they are."""

    def __post_init__(self) -> None:
        checks: tuple[tuple[str, bool, str], ...] = (
            ("weights", self.weights in ("dictionary", "jieba-idf"), "dictionary or jieba-idf"),
            ("tf_power", 0 <= self.tf_power <= 1, "0 to 1"),
            ("seed", 0 <= self.seed < 1 << 32, "0 to 4294967295"),
            ("sketch_bits", self.sketch_bits in (0, 64, 128, 192, 256), "0, 64, 128, 192 or 256"),
            ("min_words", 1 <= self.min_words <= MOST_WORDS, f"1 to {MOST_WORDS}"),
            (
                "max_text_bytes",
                LEAST_TEXT_BYTES <= self.max_text_bytes <= MOST_TEXT_BYTES,
                f"{LEAST_TEXT_BYTES} to {MOST_TEXT_BYTES}",
            ),
            ("number_weight", 0 <= self.number_weight <= MAX_WEIGHT, f"0 to {MAX_WEIGHT:g}"),
            ("default_weight", 0 <= self.default_weight <= MAX_WEIGHT, f"0 to {MAX_WEIGHT:g}"),
            ("extract", self.extract == "main", "main"),
            *self._short_checks(),
        )
        for name, fits, allowed in checks:
            if not fits:
                raise SettingsError(f"recipe setting {name} is {getattr(self, name)!r}", f"use {allowed}")

    def _short_checks(self) -> tuple[tuple[str, bool, str], ...]:
        least, most = self.min_words + 1, self.distance
        unsketched = "no similarity where there is no sketch"
        return (
            (
                "short_words",
                self.short_words == 0 or least <= self.short_words <= MOST_WORDS,
                f"{least} to {MOST_WORDS}, or 0 for none",
            ),
            (
                "short_distance",
                self.short_distance is None or 0 <= self.short_distance <= most,
                f"0 to {most}, which is what other pages need",
            ),
            (
                "short_similarity",
                self.short_similarity is None or _at_least(self.short_similarity, self.similarity),
                unsketched if self.similarity is None else f"{self.similarity} to 1: no less than other pages need",
            ),
        )


PRESETS: Final = {
    "default": Recipe(name="default"),
    "google2007": Recipe(
        name="google2007",
        weights="jieba-idf",
        tf_power=1.0,
        sketch_bits=0,
        number_weight=2.0,
        default_weight=6.0,
        distance=3,
        similarity=None,
    ),
}
LATER: Final = ("fnv1-tf", "shingles")


def preset(name: str) -> Recipe:
    """The preset of this name. Raises SettingsError where there is none, Unavailable for one still to come."""
    if name in LATER:
        raise Unavailable(f"the recipe {name} is not there yet", f"use {' or '.join(PRESETS)}")
    if name not in PRESETS:
        raise SettingsError(f"there is no recipe {name!r}", f"use {' or '.join(PRESETS)}")
    return PRESETS[name]


def _at_least(similarity: str, least: str | None) -> bool:
    """Whether a similarity is one from `least` to 1; False where either is no number."""
    try:
        return least is not None and Decimal(least) <= Decimal(similarity) <= 1
    except InvalidOperation:
        return False


def recipe_id(recipe: Recipe, tables: Sequence[str], output: bytes) -> str:
    """8 hex digits over the settings that change a fingerprint, the tables' digests and the probes' output."""
    settings = {field: getattr(recipe, field) for field in recipe.__slots__ if field not in _UNSEEN}
    content = msgspec.json.encode([settings, list(tables), output.hex()])
    return blake2b(content, digest_size=4, person=b"simstream recipe").hexdigest()
