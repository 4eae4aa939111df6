"""Defines recipes: all settings from bytes to fingerprint and sketch, the presets, and recipe ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import Any, Final, Literal

import msgspec

from simstream.errors import SettingsError
from simstream.text.word_lists import SHIPPED, content_digest

Script = Literal["as-is", "simplified"]
Normalization = Literal["as-is", "nfc"]
HtmlPart = Literal["main", "prose", "fast"]
TF_CAP: Final = 4095
"""The default limit of a word's occurrences in a page; further ones do not count."""
MAX_WEIGHT: Final = 1000.0
MAX_WORD_WEIGHT: Final = 1 << 31
"""A word's weight in a page, with 32 bits behind the point."""
MAX_WEIGHED_CHARACTERS: Final = 8
"""The characters of a word that number_step and default_step count; `kernels/text/words` has the same."""
MAX_RUN: Final = 16
MAX_DISTANCE: Final = 16
"""The index's `MAX_DISTANCE`. It is not imported, because that would import numpy."""
MAX_WORDS: Final = 1 << 20
MAX_LOOKUPS: Final = 4
"""The most words of 64 bits that a page is looked up by; `index/keys.MAX_FURTHER` and one."""
MAX_SHINGLE_WORDS: Final = 32
MIN_TEXT_BYTES: Final = 64
MAX_TEXT_BYTES: Final = 1 << 28
_UNSEEN: Final = frozenset(
    {"name", "distance", "similarity", "short_words", "short_distance", "short_similarity", "sketch_lookups"}
)
"""Settings that change no fingerprint."""
FILES: Final = frozenset({"idf_file", "stop_words", "user_dictionaries"})
"""Settings that name files. The content of the files counts for the id."""
_NEUTRAL: Final[dict[str, Any]] = {
    "tf_cap": TF_CAP,
    "weight_cap": MAX_WEIGHT,
    "number_step": 0.0,
    "default_step": 0.0,
    "sketch_characters": 0,
    "top": 0,
    "idf_file": None,
    "stop_words": (),
    "mode": "accurate",
    "user_dictionaries": (),
    "add_words": (),
    "remove_words": (),
    "least_chars": 1,
    "script": "as-is",
    "normalization": "as-is",
    "features": "words",
    "shingle_words": 4,
    "hash": "mmh3",
    "ties": 0,
    "fingerprints": 1,
    "sketch_fill": "copied",
}
"""Settings that came later, each with the value that means the earlier behaviour. With it the setting is no part of
the id."""


def at_least(similarity: str, least: str | None) -> bool:
    """Whether a similarity is a number from `least` to 1; False if one of them is not a number."""
    try:
        return least is not None and Decimal(least) <= Decimal(similarity) <= 1
    except InvalidOperation:
        return False


def count_sketch_words(fingerprints: int, sketch_bits: int) -> int:
    """Return the 64-bit words of the column `sketch`: the further fingerprints of a page, then its sketch."""
    return fingerprints - 1 + sketch_bits // 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a page becomes a fingerprint and a sketch, and by default when two pages match.

    Take a preset by `load_recipe` and change fields with `dataclasses.replace`. Files that a recipe names are read
    when it is applied.

    Raises:
        SettingsError: A value is out of range.

    Examples:
        >>> from dataclasses import replace
        >>> from simstream import Deduper, load_recipe
        >>> stricter = replace(load_recipe("default"), name="stricter", distance=4)
        >>> with Deduper(recipe=stricter) as deduper:
        ...     deduper.policy.distance
        4
    """

    name: str
    weights: Literal["dictionary", "jieba-idf", "none", "file"] = "dictionary"
    """The source of words' weights: -ln(frequency / total) of jieba's dictionary; jieba's table of inverse document
    frequencies; 1 for every word; or the table `idf_file`."""
    idf_file: str | None = None
    """A table in jieba's format, a word and its inverse document frequency a line; only with `weights = "file"`."""
    stop_words: tuple[str, ...] = ()
    """Names of shipped lists (zh, en) or files, a word a line. These words count only in the sketch."""
    tf_power: float = 0.75
    """A word that occurs tf times weighs tf^tf_power times its weight."""
    tf_cap: int = TF_CAP
    """The most occurrences of a word that count."""
    top: int = 0
    """How many of a page's heaviest words count in its fingerprint; 0 for all."""
    seed: int = 0
    """The seed of the words' hashes, below 2^32. A seed from 1 to 8 leaves words of that many bytes without the
    lowest bit."""
    sketch_bits: int = 128
    """Bits of the sketch: 0, 64, 128, 192 or 256."""
    sketch_characters: int = 0
    """The sketch covers runs of this many letters and digits; with 0, pairs of successive words."""
    sketch_fill: Literal["copied", "mixed"] = "copied"
    """The bit of a bin of the sketch that no run falls into: copied from another bin, or mixed anew from that bin's
    run. Mixed bits tell short pages apart that have nothing in common."""
    hmm: bool = True
    """Whether jieba's hidden Markov model finds words that the dictionary does not have."""
    mode: Literal["accurate", "search", "full"] = "accurate"
    """jieba's mode; the tokens of the last two overlap."""
    user_dictionaries: tuple[str, ...] = ()
    """Files in jieba's format: a word a line, optionally with its frequency and a tag."""
    add_words: tuple[str, ...] = ()
    """Words to add after the files, each optionally with a space and a frequency."""
    remove_words: tuple[str, ...] = ()
    """Words to remove from the dictionary, last of all."""
    least_chars: int = 1
    """Words with fewer characters do not count at all."""
    script: Script = "as-is"
    """`simplified`: traditional characters are folded to simplified ones, one to one, before segmentation."""
    normalization: Normalization = "as-is"
    """`nfc`: a letter and its marks become one character where Unicode has it, as in normalization form C. Without
    it a text with é as one character and a text with e and a mark have different words."""
    features: Literal["words", "shingles"] = "words"
    """What the fingerprint is made of: words, or windows of `shingle_words` words. Windows split ASCII words at
    every character that is no letter."""
    shingle_words: int = 4
    hash: Literal["mmh3", "fnv1", "jenkins"] = "mmh3"
    """The hash of the fingerprint's words: MurmurHash3, FNV-1 over UTF-16 (without a seed), or Jenkins'
    one-at-a-time. The sketch always uses MurmurHash3."""
    ties: Literal[0, 1] = 0
    """The value of a fingerprint's bit if the words for and against it weigh the same."""
    fingerprints: int = 1
    """How many independent fingerprints a page has. Pages are candidates if any of these is within the distance:
    two at distance 7 find more than one at 8."""
    sketch_lookups: int = 0
    """How many 64-bit words of the sketch also look a page up; fewer than it has. Pages are candidates if any
    lookup is within the distance. It needs mixed bits, and changes no fingerprint."""
    min_words: int = 8
    """Pages with fewer distinct words are `too_short`."""
    max_text_bytes: int = 1 << 20
    """The first bytes of a text, which are fingerprinted; the rest does not count."""
    number_weight: float = 4.0
    number_step: float = 0.0
    """The weight of a word without letters that is not in the table. Each of its first 8 characters adds
    number_step."""
    default_weight: float = 8.0
    default_step: float = 0.0
    """The same for a word without Han characters: a longer word is rarer."""
    weight_cap: float = MAX_WEIGHT
    """The greatest weight of words in the table, and of unknown words with Han characters."""
    extract: HtmlPart = "main"
    """The part of an HTML page that counts: its main content, only the lines of prose in it, or with `fast` the
    article as kernels find it, without a parser and without other processes."""
    distance: int = 8
    similarity: str | None = "0.5625"
    """A decimal, so that the least agreement is exact; None without a sketch."""
    short_words: int = 0
    """Pages with fewer distinct words are short, and a pair with a short page must agree better; 0 for no short
    pages."""
    short_distance: int | None = None
    short_similarity: str | None = None
    """The limit for a pair with a short page, at least as strict as `distance` and `similarity`; None for the same
    limit."""

    @property
    def sketch_words(self) -> int:
        """See `count_sketch_words`."""
        return count_sketch_words(self.fingerprints, self.sketch_bits)

    @property
    def lookups(self) -> int:
        """The number of words of 64 bits that a page is looked up by: fingerprints, then words of the sketch."""
        return self.fingerprints + self.sketch_lookups

    def __post_init__(self) -> None:
        for name, fits, allowed in (*self._word_checks(), *self._page_checks(), *self._short_checks()):
            if not fits:
                raise SettingsError(f"recipe setting {name} is {getattr(self, name)!r}", f"use {allowed}")
        self._check_heaviest()

    def _check_heaviest(self) -> None:
        """Raise SettingsError if the kernel's 64 bits do not hold what a word may weigh in a page."""
        numbers = self.number_weight + self.number_step * MAX_WEIGHED_CHARACTERS
        others = self.default_weight + self.default_step * MAX_WEIGHED_CHARACTERS
        most = 1.0 if self.weights == "none" else max(self.weight_cap, numbers, others)
        heaviest = self.tf_cap**self.tf_power * most
        if heaviest >= MAX_WORD_WEIGHT:
            raise SettingsError(
                f"under the recipe, a word could weigh {heaviest:.0f} in a page",
                f"lower tf_cap, tf_power or the weights: less than {MAX_WORD_WEIGHT} can be counted",
            )

    def _word_checks(self) -> tuple[tuple[str, bool, str], ...]:
        tables = ("dictionary", "jieba-idf", "none", "file")
        return (
            ("weights", self.weights in tables, "dictionary, jieba-idf, none or file"),
            (
                "idf_file",
                (self.idf_file is not None) == (self.weights == "file"),
                'a table of weights with weights = "file", and only there',
            ),
            ("stop_words", all(self.stop_words), f"{' or '.join(SHIPPED)}, or files"),
            *self._segmenting_checks(),
            ("tf_power", 0 <= self.tf_power <= 1, "0 to 1"),
            ("tf_cap", 1 <= self.tf_cap <= MAX_WORDS, f"1 to {MAX_WORDS}"),
            ("top", 0 <= self.top <= MAX_WORDS, f"1 to {MAX_WORDS}, or 0 for all"),
            ("number_weight", 0 <= self.number_weight <= MAX_WEIGHT, f"0 to {MAX_WEIGHT:g}"),
            ("number_step", 0 <= self.number_step <= MAX_WEIGHT, f"0 to {MAX_WEIGHT:g}"),
            ("default_weight", 0 <= self.default_weight <= MAX_WEIGHT, f"0 to {MAX_WEIGHT:g}"),
            ("default_step", 0 <= self.default_step <= MAX_WEIGHT, f"0 to {MAX_WEIGHT:g}"),
            ("weight_cap", 0 < self.weight_cap <= MAX_WEIGHT, f"above 0 to {MAX_WEIGHT:g}"),
        )

    def _segmenting_checks(self) -> tuple[tuple[str, bool, str], ...]:
        most = MAX_SHINGLE_WORDS
        shingles_weigh = self.features == "words" or (self.weights == "none" and self.top == 0)
        return (
            ("mode", self.mode in ("accurate", "search", "full"), "accurate, search or full"),
            ("user_dictionaries", all(self.user_dictionaries), "files in jieba's format"),
            ("add_words", all(word.strip() for word in self.add_words), "words, each perhaps with its frequency"),
            ("remove_words", all(word.strip() for word in self.remove_words), "words"),
            ("least_chars", 1 <= self.least_chars <= MAX_WORDS, f"1 to {MAX_WORDS}"),
            ("script", self.script in ("as-is", "simplified"), "as-is or simplified"),
            ("normalization", self.normalization in ("as-is", "nfc"), "as-is or nfc"),
            ("features", self.features in ("words", "shingles"), "words or shingles"),
            ("features", shingles_weigh, 'words, or weights = "none" and no top: shingles weigh by their number'),
            ("shingle_words", 1 <= self.shingle_words <= most, f"1 to {most}"),
            ("hash", self.hash in ("mmh3", "fnv1", "jenkins"), "mmh3, fnv1 or jenkins"),
            ("ties", self.ties in (0, 1), "0 or 1"),
            ("fingerprints", str(self.fingerprints) in ("1", "2", "3"), "1, 2 or 3"),
        )

    def _page_checks(self) -> tuple[tuple[str, bool, str], ...]:
        return (
            ("seed", 0 <= self.seed < 1 << 32, "0 to 4294967295"),
            ("sketch_bits", self.sketch_bits in (0, 64, 128, 192, 256), "0, 64, 128, 192 or 256"),
            ("sketch_fill", self.sketch_fill in ("copied", "mixed"), "copied or mixed"),
            ("sketch_characters", 0 <= self.sketch_characters <= MAX_RUN, f"0 to {MAX_RUN}"),
            ("min_words", 1 <= self.min_words <= MAX_WORDS, f"1 to {MAX_WORDS}"),
            (
                "max_text_bytes",
                MIN_TEXT_BYTES <= self.max_text_bytes <= MAX_TEXT_BYTES,
                f"{MIN_TEXT_BYTES} to {MAX_TEXT_BYTES}",
            ),
            ("extract", self.extract in ("main", "prose", "fast"), "main, prose or fast"),
            ("distance", 0 <= self.distance <= MAX_DISTANCE, f"0 to {MAX_DISTANCE}"),
            ("similarity", self.similarity is None or at_least(self.similarity, "0"), "0 to 1"),
            *self._lookup_checks(),
        )

    def _lookup_checks(self) -> tuple[tuple[str, bool, str], ...]:
        count = self.sketch_lookups if str(self.sketch_lookups) in ("0", "1", "2", "3") else None
        most = MAX_LOOKUPS - int(self.fingerprints)
        return (
            ("sketch_lookups", count is not None, "0 to 3"),
            ("sketch_lookups", not count or int(count) <= most, f"at most {most} beside the fingerprints"),
            (
                "sketch_lookups",
                not count or 64 * int(count) < self.sketch_bits,
                f"at most {max(0, self.sketch_bits // 64 - 1)} with sketch_bits = {self.sketch_bits}",
            ),
            ("sketch_lookups", not count or self.sketch_fill == "mixed", '0, or sketch_fill = "mixed"'),
        )

    def _short_checks(self) -> tuple[tuple[str, bool, str], ...]:
        least, most = self.min_words + 1, self.distance
        unsketched = "no similarity without a sketch"
        return (
            (
                "short_words",
                self.short_words == 0 or least <= self.short_words <= MAX_WORDS,
                f"{least} to {MAX_WORDS}, or 0 for none",
            ),
            (
                "short_distance",
                self.short_distance is None or 0 <= self.short_distance <= most,
                f"0 to {most}, the limit of other pages",
            ),
            (
                "short_similarity",
                self.short_similarity is None or at_least(self.short_similarity, self.similarity),
                unsketched
                if self.similarity is None
                else f"{self.similarity} to 1: at least the limit of other pages",
            ),
        )


PRESETS: Final = {
    "default": Recipe(
        name="default",
        weights="jieba-idf",
        weight_cap=9.0,
        stop_words=("web",),
        tf_power=0.85,
        tf_cap=64,
        number_weight=3.0,
        number_step=2.5,
        default_weight=2.0,
        default_step=1.5,
        seed=18,
        sketch_bits=256,
        sketch_characters=5,
        extract="fast",
        similarity="0.6",
        sketch_fill="mixed",
        sketch_lookups=1,
        short_words=32,
        short_similarity="0.6875",
    ),
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
    "fnv1-tf": Recipe(
        name="fnv1-tf",
        weights="none",
        tf_power=1.0,
        tf_cap=MAX_WORDS,
        hash="fnv1",
        ties=1,
        sketch_bits=0,
        distance=3,
        similarity=None,
    ),
    "shingles": Recipe(
        name="shingles",
        weights="none",
        tf_power=1.0,
        tf_cap=MAX_WORDS,
        features="shingles",
        hash="jenkins",
        sketch_bits=0,
        distance=3,
        similarity=None,
    ),
}


FORMER_DEFAULTS: Final = {
    "b28fd24e": 'base = "default", extract = "prose", sketch_bits = 192 and sketch_fill = "copied"',
    "a00cff47": 'base = "default" and extract = "prose"',
}
"""Recipe ids of former versions of `default`, and the settings of a file that bring them back."""


def name_recipe(recipe_id: str) -> str:
    """Return how to get the recipe of this id, for an error's advice."""
    former = FORMER_DEFAULTS.get(recipe_id)
    return (
        f"a recipe file with {former}"
        if former
        else f"the recipe {recipe_id}, with the versions of simstream and jieba that made it"
    )


def preset(name: str) -> Recipe:
    """Return the preset of this name. Raises SettingsError if there is none."""
    if name not in PRESETS:
        raise SettingsError(f"there is no recipe {name!r}", f"use {' or '.join(PRESETS)}, or a file NAME.toml")
    return PRESETS[name]


def recipe_id(recipe: Recipe, tables: Sequence[str], output: bytes) -> str:
    """Return 8 hex digits over the settings that change a fingerprint, the tables' digests and the probes' output.

    Reads the files that the recipe names; raises InputMissing if one cannot be read.
    """
    settings = {field: _content(recipe, field) for field in recipe.__slots__ if field not in _UNSEEN}
    settings = {
        field: value for field, value in settings.items() if field not in _NEUTRAL or value != _NEUTRAL[field]
    }
    content = msgspec.json.encode([settings, list(tables), output.hex()])
    return blake2b(content, digest_size=4, person=b"simstream recipe").hexdigest()


def _content(recipe: Recipe, field: str) -> Any:
    """Return a setting as it counts for the id: a file by its content."""
    value = getattr(recipe, field)
    if field not in FILES or not value:
        return value
    return content_digest(value) if isinstance(value, str) else [content_digest(name) for name in value]
