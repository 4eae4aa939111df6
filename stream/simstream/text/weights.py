"""Makes the weights of words from jieba's tables, and keeps them in a cache file."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import Secret, process_secret
from simstream.kernels.hashing import hash_words
from simstream.kernels.text.simhash import fill_word_table, known_weights
from simstream.kernels.text.trie import slots_of
from simstream.kernels.text.words import MAX_WEIGHED_CHARACTERS, Lexicon
from simstream.text import jieba_tables, word_lists
from simstream.text import unicode_tables as tables
from simstream.text.cached_file import cached
from simstream.text.composition import composition, composition_digests, read_text
from simstream.text.dictionary import Dictionary
from simstream.text.recipe import Recipe

FORMAT: Final = 7
ONE: Final = 1 << 16
"""An integer weight is the weight times this, rounded."""
_BUILT_FROM: Final = (
    *("weights", "seed", "weight_cap"),
    *("number_weight", "number_step", "default_weight", "default_step"),
)
"""The settings on which the arrays of a lexicon depend."""


class Weights(NamedTuple):
    """The lexicon of a recipe, and 16 hex digits over its words and weights."""

    lexicon: Lexicon
    digest: str


class CachedWeights(NamedTuple):
    """The arrays of a cache file. Its words have no places yet: places depend on a secret, and files may be
    shipped."""

    slots: NDArray[np.uint64]
    hashes: NDArray[np.uint64]  # (n,) of all words, ascending
    weights: NDArray[np.int32]  # (n,)
    unknown: NDArray[np.int32]
    content: NDArray[np.uint8]
    """The digest over words and weights."""


class WeightSource(NamedTuple):
    """Words, each with its share of all text or pages, before equal words are joined."""

    words: list[str]
    share: NDArray[np.float64]


def load(recipe: Recipe, dictionary: Dictionary, cache: Path, secret: Secret | None = None) -> Weights:
    """Return the weights of a recipe, built at most once per `cache` folder and its settings.

    `secret` places the words, by default the process's secret. A damaged file is built again; a folder that cannot
    be written only costs time. Raises InputMissing if a table is not there. Cost: about 20 ms if the cache has
    them, else about 1.5 s.
    """
    content, secret = _table_content(recipe), secret or process_secret()
    stopped = word_lists.stop_words(recipe.stop_words)
    settings: list[object] = [FORMAT, stopped, *(getattr(recipe, name) for name in _BUILT_FROM)]
    read_by = (tables.digest(recipe.script), *composition_digests(recipe.normalization))
    key = blake2b(repr([*settings, dictionary.key, *read_by]).encode(), digest_size=8)
    key.update(mmh3.mmh3_x64_128_digest(content))

    def build() -> dict[str, NDArray[Any]]:
        return _build(recipe, dictionary, _shares(recipe, dictionary, content), stopped, secret)._asdict()

    # The copies lie in large pages of memory, which the kernels read faster than mapped files.
    mapped = cached(cache, "weights", key.hexdigest(), build)
    arrays = CachedWeights(**{name: array.copy() for name, array in mapped.items()})
    fold, traits = tables.fold_table(recipe.script), tables.unicode_table().traits
    factors = tf_factors(recipe.tf_power, recipe.tf_cap)
    placed = _place(arrays.hashes, arrays.weights, secret)
    known = (arrays.slots, *placed, arrays.unknown, factors, secret)
    lexicon = Lexicon(fold, traits, *known, composition(recipe.normalization))
    digest = mmh3.mmh3_x64_128_digest(arrays.content.tobytes() + _digest(lexicon.tf_factor))
    return Weights(lexicon, digest[:8].hex())


def tf_factors(power: float, cap: int) -> NDArray[np.int64]:
    """Return round(2^16 tf^power) for tf from 0 to `cap`."""
    if power == 1:
        return np.arange(cap + 1, dtype=np.int64) * ONE
    return np.array([0, *(round(ONE * tf**power) for tf in range(1, cap + 1))], np.int64)


def _table_content(recipe: Recipe) -> bytes:
    """Return the file of the weights, if they do not come from the dictionary. Raises InputMissing."""
    if recipe.weights == "file" and recipe.idf_file is not None:
        return word_lists.read_content(recipe.idf_file)
    return jieba_tables.packed("analyse/idf.txt") if recipe.weights == "jieba-idf" else b""


def _shares(recipe: Recipe, dictionary: Dictionary, content: bytes) -> WeightSource:
    """Return the words' weights by this recipe, as shares; no words if every word weighs 1."""
    if recipe.weights == "dictionary":
        return _dictionary_shares(dictionary)
    if recipe.weights == "none":
        return WeightSource([], np.empty(0))
    if recipe.weights == "jieba-idf":
        return _idf_shares(jieba_idf())
    return _idf_shares(word_lists.idf_rows(str(recipe.idf_file), content))


def jieba_idf() -> list[tuple[str, float]]:
    """Return word and inverse document frequency of each line of jieba's table. Raises InputMissing."""
    words, values = jieba_tables.columns("analyse/idf.txt")
    return list(zip(words, map(float, values), strict=True))


def _idf_shares(rows: list[tuple[str, float]]) -> WeightSource:
    # A weight is -ln of a share of documents, so shares of words with the same casefold can be added.
    return WeightSource([word for word, _ in rows], np.exp(-np.array([idf for _, idf in rows])))


def _dictionary_shares(dictionary: Dictionary) -> WeightSource:
    frequencies = {word: count for word, count in dictionary.frequencies().items() if count > 0}
    counts = np.fromiter(frequencies.values(), np.float64, len(frequencies))
    return WeightSource(list(frequencies), counts / counts.sum())


def _flat(words: list[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return all code points of the words, and where each word ends."""
    points = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32).copy()  # writable: for
    # kernels read-only arrays are other types, and each kernel would be compiled twice
    return points, np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))


def _build(
    recipe: Recipe, dictionary: Dictionary, source: WeightSource, stopped: list[str], secret: Secret
) -> CachedWeights:
    """Build the arrays of a cache file. `secret` only protects the tables of this computation."""
    seed = np.uint64(recipe.seed)
    hashes, counts = _hash_folded(source.words, recipe)
    unique, which = np.unique(hashes[counts], return_inverse=True)
    shares = np.bincount(which, source.share[counts], len(unique))
    weights = np.rint(ONE * np.minimum(np.maximum(0.0, -np.log(shares)), recipe.weight_cap)).astype(np.int32)
    unknown = _unknown(recipe, weights)
    unique, weights = _stop(unique, weights, _hash_folded(stopped, recipe))
    content = np.frombuffer(_digest(unique) + _digest(weights) + _digest(unknown), np.uint8)
    slots = _slots(dictionary, seed, (*_place(unique, weights, secret), unknown), secret)
    return CachedWeights(slots, unique, weights, unknown, content)


def _place(
    hashes: NDArray[np.uint64], weights: NDArray[np.int32], secret: Secret
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return words as the open-addressing table of a Lexicon: its keys and weights."""
    size = 1 << (2 * len(hashes)).bit_length()
    keys, values = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
    fill_word_table(hashes, weights, keys, values, secret)
    return keys, values


def _hash_folded(words: list[str], recipe: Recipe) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the hash of each word, as the recipe reads it, and whether it is a word: has a letter or a number."""
    folded, ends = _flat(read_text("\n".join(words), recipe).split("\n") if words else [])
    hashes, kinds = hash_words(folded, ends, tables.unicode_table().traits, np.uint64(recipe.seed))
    return hashes, kinds & 0x80 != 0


def _unknown(recipe: Recipe, weights: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the weights of words that are not in the table, by kind and length. A word with Han characters gets
    the table's median."""
    characters = np.arange(MAX_WEIGHED_CHARACTERS + 1)
    if recipe.weights == "none":
        return np.full(3 * len(characters), ONE, np.int32)
    median = int(np.sort(weights)[len(weights) // 2]) if len(weights) else ONE
    number = ONE * (recipe.number_weight + recipe.number_step * characters)
    other = ONE * (recipe.default_weight + recipe.default_step * characters)
    weights_by_length = np.stack([np.full(len(characters), float(median)), number, other], axis=1)
    return np.asarray(np.rint(weights_by_length.ravel()), np.int32)


def _stop(
    unique: NDArray[np.uint64], weights: NDArray[np.int32], stopped: tuple[NDArray[np.uint64], NDArray[np.bool_]]
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return the table's words and weights together with stop words, which weigh 0."""
    none = np.unique(stopped[0][stopped[1]])
    others = ~np.isin(unique, none)
    hashes = np.concatenate([unique[others], none])
    order = np.argsort(hashes)
    return hashes[order], np.concatenate([weights[others], np.zeros(len(none), np.int32)])[order]


def _slots(
    dictionary: Dictionary,
    seed: np.uint64,
    table_of_words: tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int32]],
    secret: Secret,
) -> NDArray[np.uint64]:
    """Return hash and weight of every dictionary word, by its slot in the trie."""
    unicode, trie = tables.unicode_table(), dictionary.trie
    points, ends = _flat([word for word, count in dictionary.frequencies().items() if count > 0])
    hashes, kinds = hash_words(points, ends, unicode.traits, seed)
    words = kinds & 0x80 != 0
    slots, lengths = slots_of(points, ends, trie)[words], np.diff(ends, prepend=0)[words]
    table = np.zeros((len(trie.nodes), 2), np.uint64)
    table[slots, 0] = hashes[words]
    table[slots, 1] = known_weights(hashes[words], kinds[words], lengths, *table_of_words, secret)
    return table


def _digest(array: NDArray[np.generic]) -> bytes:
    return mmh3.mmh3_x64_128_digest(np.ascontiguousarray(array).data.cast("B"))
