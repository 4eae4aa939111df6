"""The obvious way from text to fingerprint and sketch: plain Python over dicts and strings, with jieba itself.

Shares nothing with `simstream` but the recipe's settings and the shipped table of characters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import jieba
import mmh3
import numpy as np

import simstream.text
from simstream.text.recipe import Recipe

OTHER, HAN, LETTER, DIGIT, MARK, BIGRAM = range(6)
M64 = (1 << 64) - 1
BASE = 0x9E3779B97F4A7C15
TABLES = Path(simstream.text.__file__).parent / "tables"
TABLE = np.load(TABLES / "unicode.npy").tolist()
STARTS = [row[0] for row in TABLE]
JIEBA = Path(jieba.__file__).parent


@cache
def traits(char: str) -> tuple[str, str, int, bool]:
    """A character's fold, its casefold, its class, and whether it is a letter or a number."""
    point = ord(char)
    _, fold, casefold, kind = TABLE[bisect_right(STARTS, point) - 1]
    return chr(point + fold), chr(point + casefold), kind & 7, kind & 8 != 0


def decode(utf8: bytes) -> str:
    """UTF-8 as the kernel reads it: a lone surrogate is one U+FFFD, else as Python replaces."""
    return re.sub(b"\xed[\xa0-\xbf][\x80-\xbf]", b"\xef\xbf\xbd", utf8).decode("utf-8", "replace")


def fold(text: str, script: str = "as-is") -> str:
    folded = "".join(traits(char)[0] for char in text)
    return folded.translate(simplified()) if script == "simplified" else folded


def read(text: str, recipe: Recipe) -> str:
    """A text as the recipe reads it."""
    folded = fold(text, recipe.script)
    return compose(folded) if recipe.normalization == "nfc" else folded


def compose(text: str) -> str:
    """Normalization form C of a folded text, but a mark passes at most 16 others."""
    parts: list[str] = []
    for char, after in zip(text, text[1:] + " ", strict=False):
        apart = joins(after) or (char in COMPOSING and not COMPOSING[char][1])
        for part in unicodedata.normalize("NFD", char) if apart and char in COMPOSING else char:
            at = len(parts)
            while at and len(parts) - at < 16 and mark_class(parts[at - 1]) > mark_class(part) > 0:
                at -= 1
            parts.insert(at, part)
    out: list[str] = []
    starter, last = -1, 0
    for char in parts:
        own = mark_class(char)
        if joins(char) and starter >= 0 and (starter == len(out) - 1 or last < own):
            joined = unicodedata.normalize("NFC", out[starter] + char)
            if len(joined) == 1:
                out[starter] = joined
                continue
        starter, last = (starter if own else len(out)), own
        out.append(char)
    return "".join(out)


COMPOSING = {
    chr(point): (mark, bool(composed))
    for point, mark, _, _, composed in np.load(TABLES / "composition.npy").tolist()
}
"""The canonical combining class of each character that has a part in composing, and whether it stays composed."""
SECONDS = {unicodedata.normalize("NFD", char)[-1] for char, (_, composed) in COMPOSING.items() if composed}


def mark_class(char: str) -> int:
    return COMPOSING.get(char, (0, True))[0]


def joins(char: str) -> bool:
    """Whether a character may be composed with one before it; Hangul's vowels and last consonants among them."""
    return mark_class(char) > 0 or char in SECONDS or "\u1161" <= char <= "\u1175" or "\u11a8" <= char <= "\u11c2"


@cache
def simplified() -> dict[int, str]:
    lines = (TABLES / "simplified.txt").read_text(encoding="utf-8").splitlines()
    return {ord(line[0]): traits(line[1])[0] for line in lines if not line.startswith("#")}


def casefold(text: str) -> str:
    return "".join(traits(char)[1] for char in text)


def java_fnv1(word: str) -> int:
    """The Java program's hash: numbers without bounds, a string's chars, and the mask at the end."""
    value = 14695981039346656037
    units = word.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        value = value * 1099511628211 ^ int.from_bytes(units[at : at + 2], "little")
    return value & M64


def java_signature(counts: dict[str, int]) -> str:
    """The Java program's signature of words and how often each occurs: 64 characters, the highest bit first."""
    vector = [0] * 64
    for word, count in counts.items():
        value = java_fnv1(word)
        for i in range(64):
            vector[i] += count if value & (1 << (64 - i - 1)) else -count
    return "".join("1" if total >= 0 else "0" for total in vector)


def one_at_a_time(data: bytes, seed: int) -> int:
    """Jenkins' hash of 32 bits."""
    value, m32 = seed, (1 << 32) - 1
    for byte in data:
        value = value + byte & m32
        value = value + (value << 10) & m32
        value ^= value >> 6
    value = value + (value << 3) & m32
    value ^= value >> 11
    return value + (value << 15) & m32


def rotate(value: int, by: int) -> int:
    by %= 64
    return (value << by | value >> (64 - by)) & M64


def window_hash(hashes: list[int]) -> int:
    """The cyclic hash of one window: each word's turned by the number of words behind it."""
    value = 0
    for behind, one in enumerate(reversed(hashes)):
        value ^= rotate(one, behind)
    return value


def has_han(text: str) -> bool:
    """Whether jieba takes one of the characters for Chinese."""
    return any("\u4e00" <= char <= "\u9fd5" for char in text)


def split_letters(word: str) -> list[str]:
    """An ASCII word at what is no letter; whole where it has no letters, or others than ASCII."""
    return re.findall("[a-zA-Z]+", word) or [word] if word.isascii() else [word]


def mix(x: int) -> int:
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & M64
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & M64
    return x ^ (x >> 33)


def unmix(x: int) -> int:
    """The number of which `x` is the mix."""
    x ^= x >> 33
    for factor in (0xC4CEB9FE1A85EC53, 0xFF51AFD7ED558CCD):
        x = x * pow(factor, -1, 1 << 64) & M64
        x ^= x >> 33
    return x


def keeps_boundary(left: str, right: str) -> bool:
    """Whether two tokens stay apart, by the characters on both sides of their boundary."""
    joining = (LETTER, MARK, DIGIT)
    both = traits(left)[2] in joining and traits(right)[2] in joining
    return not both or (ord(left) < 128 and ord(right) < 128)


def regroup(tokens: list[str]) -> list[str]:
    """From jieba's tokens to words, as they stand in the text."""
    text, ends, at = "".join(tokens), set(), 0
    for token in tokens:
        at += len(token)
        ends.add(at)
    pieces, start = [], 0
    for end in range(1, len(text) + 1):
        left, right = text[end - 1], text[end] if end < len(text) else None
        bigrams = (traits(left)[2] == BIGRAM) + (right is not None and traits(right)[2] == BIGRAM)
        if right is None or bigrams == 1 or (bigrams == 0 and end in ends and keeps_boundary(left, right)):
            pieces.append(text[start:end])
            start = end
    words = []
    for piece in pieces:
        if traits(piece[0])[2] == BIGRAM and len(piece) > 1:
            words += [piece[i : i + 2] for i in range(len(piece) - 1)]
        else:
            words.append(piece)
    return [word for word in words if any(traits(char)[3] for char in word)]


class NaiveRecipe:
    """One recipe, the slow way. The tokenizer is jieba's, initialized with a private `tmp_dir`."""

    def __init__(self, recipe: Recipe, tokenizer: jieba.Tokenizer) -> None:
        self.recipe = recipe
        self.tokenizer = tokenizer
        self.table = self._table()
        ordered = sorted(self.table.values())
        self.median = ordered[len(ordered) // 2] if ordered else 65536
        self.table |= dict.fromkeys(self._stopped(), 0)

    def _table(self) -> dict[str, int]:
        shares: dict[str, float] = {}
        for word, share in self._shares():
            key = casefold(read(word, self.recipe))
            if any(traits(char)[3] for char in key):
                shares[key] = shares.get(key, 0.0) + share
        return {word: self.scaled(max(0.0, -math.log(share))) for word, share in shares.items()}

    def _shares(self) -> list[tuple[str, float]]:
        if self.recipe.weights == "none":
            return []
        if self.recipe.weights in ("jieba-idf", "file"):
            path = Path(self.recipe.idf_file or JIEBA / "analyse" / "idf.txt")
            lines = path.read_text(encoding="utf-8").splitlines()
            return [(line.split(" ")[0], math.exp(-float(line.split(" ")[1]))) for line in lines]
        words = {word: count for word, count in self.tokenizer.FREQ.items() if count > 0}
        total = sum(words.values())
        return [(word, count / total) for word, count in words.items()]

    def _stopped(self) -> set[str]:
        """The stop words, as words are counted."""
        paths = [
            TABLES / f"stop_{name}.txt" if name in ("zh", "en", "web") else Path(name)
            for name in self.recipe.stop_words
        ]
        lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
        return {
            casefold(read(line.strip(), self.recipe)) for line in lines if line.strip() and not line.startswith("#")
        }

    def words(self, utf8: bytes) -> list[str]:
        """The casefolded words of a text in their order."""
        recipe, text = self.recipe, read(decode(utf8), self.recipe)
        words = regroup(self.tokenizer.lcut(text, HMM=recipe.hmm))
        if recipe.mode != "accurate":
            search = recipe.mode == "search"
            tokens = (
                self.tokenizer.lcut_for_search(text, HMM=recipe.hmm)
                if search
                else self.tokenizer.lcut(text, cut_all=True)
            )
            words = [*filter(has_han, tokens), *(word for word in words if not has_han(word))]
        if recipe.features == "shingles":
            words = [part for word in words for part in split_letters(word)]
        return [casefold(word) for word in words if len(word) >= recipe.least_chars]

    def weight(self, word: str) -> int:
        if word in self.table:
            return self.table[word]
        if self.recipe.weights == "none":
            return 65536
        kinds, recipe = {traits(char)[2] for char in word}, self.recipe
        if HAN in kinds:
            return self.median
        if kinds & {LETTER, BIGRAM}:
            return round(65536 * (recipe.default_weight + recipe.default_step * min(len(word), 8)))
        return round(65536 * (recipe.number_weight + recipe.number_step * min(len(word), 8)))

    def scaled(self, weight: float) -> int:
        return round(65536 * min(weight, self.recipe.weight_cap))

    def hash(self, word: str) -> int:
        return mmh3.hash64(word.encode(), self.recipe.seed, x64arch=True, signed=False)[0]

    def weighted(self, words: list[str]) -> dict[str, int]:
        """The weight of each distinct word in a page of these words; those of weight 0 do not count."""
        power, cap = self.recipe.tf_power, self.recipe.tf_cap
        return {
            word: (round(65536 * min(count, cap) ** power) * self.weight(word)) >> 16
            for word, count in Counter(words).items()
            if self.weight(word) > 0
        }

    def heaviest(self, weighted: dict[str, int]) -> dict[str, int]:
        """The `top` heaviest words, equal ones in the order of the text; all of them where `top` is 0."""
        ordered = sorted(weighted.items(), key=lambda item: -item[1])
        return dict(ordered[: self.recipe.top or None])

    def feature(self, word: str) -> int:
        """What stands for a word in the fingerprint."""
        if self.recipe.hash == "fnv1":
            return java_fnv1(word)
        if self.recipe.hash == "jenkins":
            low = one_at_a_time(word.encode(), self.recipe.seed)
            return one_at_a_time(word.encode(), low) << 32 | low
        return self.hash(word)

    def features(self, words: list[str], weighted: dict[str, int]) -> list[tuple[int, int]]:
        """Hashes and weights of what the fingerprint is made of."""
        if self.recipe.features == "words":
            return [(self.feature(word), weight) for word, weight in self.heaviest(weighted).items()]
        size = self.recipe.shingle_words
        hashes = [self.feature(word) for word in words]
        windows = [hashes[at : at + size] for at in range(max(len(hashes) - size + 1, 1))]
        counts = Counter(window_hash(window) for window in windows)
        power, cap = self.recipe.tf_power, self.recipe.tf_cap
        return [(value, round(65536 * min(count, cap) ** power)) for value, count in counts.items()]

    def fingerprint(self, utf8: bytes) -> tuple[int, list[int], int]:
        """Fingerprint, further fingerprints and sketch in words of 64 bits, and number of distinct words."""
        words = self.words(utf8)
        weighted = self.weighted(words)
        if len(weighted) < self.recipe.min_words:
            return 0, [0] * self.recipe.sketch_words, len(weighted)
        features, fingerprints = self.features(words, weighted), []
        for draw in range(self.recipe.fingerprints):
            if draw:
                features = [(mix(draw * BASE & M64 ^ value), w) for value, w in features]
            fingerprints.append(self.simhash(features))
        hashes = self.runs(utf8) if self.recipe.sketch_characters else self.pairs(words)
        return fingerprints[0], fingerprints[1:] + self.sketch(hashes), len(weighted)

    def simhash(self, features: list[tuple[int, int]]) -> int:
        out = 0
        for bit in range(64):
            balance = sum(w if value >> bit & 1 else -w for value, w in features)
            out |= (balance > 0 or (balance == 0 and self.recipe.ties == 1)) << bit
        return out

    def pairs(self, words: list[str]) -> set[int]:
        """The hashes of all pairs of successive words."""
        hashes = [self.hash(word) for word in words]
        pairs = {mix(a * BASE & M64 ^ b) for a, b in pairwise(hashes)}
        return pairs or {mix(value) for value in hashes}

    def runs(self, utf8: bytes) -> set[int]:
        """The hashes of all runs of so many successive letters and digits, whatever stands between them."""
        text = "".join(traits(char)[1] for char in read(decode(utf8), self.recipe) if traits(char)[3])
        size, salt = self.recipe.sketch_characters, mix(self.recipe.seed ^ BASE)
        found = set()
        for run in {text[i : i + size] for i in range(max(1, len(text) - size + 1))} - {""}:
            value = 0
            for char in run:
                value = (value * BASE + ord(char)) & M64
            found.add(mix(value ^ salt))
        return found

    def sketch(self, hashes: set[int]) -> list[int]:
        bins = self.recipe.sketch_bits
        minima: dict[int, int] = {}
        for value in hashes:
            at = (value >> 32) * bins >> 32
            minima[at] = min(value, minima.get(at, M64))
        bits = 0
        for at in range(bins if minima else 0):
            source, attempt = at, 0
            while source not in minima:
                attempt += 1
                source = (mix(at << 32 | attempt) >> 32) * bins >> 32
            least = minima[source] ^ at if self.recipe.sketch_fill == "mixed" else minima[source]
            bits |= (mix(least) & 1) << at
        return [bits >> shift & M64 for shift in range(0, bins, 64)]
