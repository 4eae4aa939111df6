"""The methods that `peers` compares: each finds all pairs of alike pages, as its own documents use it.

The MinHashes have 128 permutations over runs of five word characters, the runs of which J is made.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simstream.evaluate.minhash import PERMUTATIONS, least_equal
from simstream.judge.policy import make_policy
from simstream.judge.state import make_index
from simstream.settings import default_cache
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe import preset

THRESHOLD = 0.7
RUN = 5
BATCH_PAGES = 256
SEED = 42
NOT_WORDS = re.compile(r"[\W_]+")


class PlacePairs(NamedTuple):
    """Pairs of places of texts, a < b, each once."""

    a: NDArray[np.int64]
    b: NDArray[np.int64]


class Method(Protocol):
    """One way to find alike pages. `bytes_per_page` is what it keeps of a page, without tables for looking up."""

    bytes_per_page: int

    def find(self, texts: Sequence[str]) -> dict[str, PlacePairs]:
        """Return all pairs of alike texts, by the name of a row of the table."""


class SimstreamMethod:
    """A preset of this project: the fingerprints and sketch of each page, and the index of the judge."""

    def __init__(self, recipe: str) -> None:
        self._recipe = preset(recipe)
        self._fingerprinter = Fingerprinter(self._recipe, default_cache(), workers=0)
        self._policy = make_policy(self._recipe, self._fingerprinter.recipe_id)
        self.bytes_per_page = 8 * (self._policy.fingerprints + self._policy.sketch_bits // 64)

    def find(self, texts: Sequence[str]) -> dict[str, PlacePairs]:
        index, found = make_index(self._policy), []
        for first in range(0, len(texts), BATCH_PAGES):
            fingerprints, sketches, words = self._fingerprinter.texts(texts[first : first + BATCH_PAGES])
            kept = np.flatnonzero(words >= self._recipe.min_words)
            keys = fingerprints[kept], sketches[kept], words[kept] < self._policy.short_words
            places = first + kept
            index.add(places.astype(np.uint32), *keys, None)
            while len(places):
                near = index.query(*keys)
                found.append((near.entry, np.repeat(places[: near.done], np.diff(near.starts))))
                places, keys = places[near.done :], tuple(key[near.done :] for key in keys)
        index.close()
        return {f"simstream, {self._recipe.name}": earlier(found)}


class DatasketchMethod:
    """MinHashLSH of datasketch, with its own hash and permutations."""

    def __init__(self) -> None:
        self._library = import_module("datasketch")
        self.bytes_per_page = self._library.MinHash(PERMUTATIONS).hashvalues.nbytes

    def find(self, texts: Sequence[str]) -> dict[str, PlacePairs]:
        index = self._library.MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)
        return look_up("datasketch", index, texts, self._hashes, lambda one: one.hashvalues)

    def _hashes(self, tokens: Sequence[Sequence[str]]) -> Sequence[Any]:
        made: list[Any] = self._library.MinHash.bulk(
            [[run.encode() for run in page] for page in tokens], num_perm=PERMUTATIONS
        )
        return made


class RensaMethod:
    """RMinHashLSH of rensa. Its bands must divide 128; at this threshold datasketch takes 14 of 9."""

    BANDS = 16
    bytes_per_page = 4 * PERMUTATIONS

    def __init__(self) -> None:
        self._library = import_module("rensa")

    def find(self, texts: Sequence[str]) -> dict[str, PlacePairs]:
        index = self._library.RMinHashLSH(THRESHOLD, PERMUTATIONS, self.BANDS)
        return look_up("rensa", index, texts, self._hashes, lambda one: one.digest())

    def _hashes(self, tokens: Sequence[Sequence[str]]) -> Sequence[Any]:
        made: list[Any] = self._library.RMinHash.from_token_sets(tokens, PERMUTATIONS, SEED)
        return made


class TextDedupMethod:
    """SimHash of text-dedup with the defaults of its command: runs of three, 64 bits, 3 of them may differ."""

    def __init__(self) -> None:
        self._library = import_module("text_dedup.simhash")
        self._bits = import_module("bitarray").frozenbitarray
        self._options = self._library.SimHashArgs()
        self.bytes_per_page = self._options.f // 8

    def find(self, texts: Sequence[str]) -> dict[str, PlacePairs]:
        library, options = self._library, self._options
        ways = library._create_permutations(options.f, k=options.bit_diff, b=options.num_bucket)
        facts = {"ngram": options.ngram, "permutations": ways, "hash_func": library.xxh3_64_digest}
        buckets: dict[tuple[bytes, bytes], list[tuple[int, Any]]] = defaultdict(list)
        found = []
        for place, text in enumerate(texts):
            if len(text) < RUN:  # it has no fingerprint of so short a text
                continue
            made = library.embed_func(text, place, **facts)
            bits, near = self._bits(buffer=made["__signature__"]), set()
            for key in made["__keys__"]:
                for other, known in buckets[key]:
                    if other not in near and library._hamming_distance(bits, known) <= options.bit_diff:
                        near.add(other)
                buckets[key].append((place, bits))
            found.append(asked(near, place))
        return {"text-dedup SimHash": earlier(found)}


METHODS: dict[str, Callable[[], Method]] = {
    "default": lambda: SimstreamMethod("default"),
    "google2007": lambda: SimstreamMethod("google2007"),
    "datasketch": DatasketchMethod,
    "rensa": RensaMethod,
    "text-dedup": TextDedupMethod,
}
"""By the name of a preset of this project, or of the package."""


def runs(text: str) -> list[str]:
    """Return the distinct runs of five word characters; of a shorter text itself, of an empty one nothing."""
    kept = NOT_WORDS.sub("", text.lower())
    return list({kept[at : at + RUN] for at in range(max(1, len(kept) - RUN + 1))}) if kept else []


def asked(found: Sequence[int] | set[int], place: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places that were found for one place as two columns."""
    return np.fromiter(found, np.int64), np.full(len(found), place, np.int64)


def earlier(found: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> PlacePairs:
    """Return the pairs of an earlier and a later place."""
    none = np.empty(0, np.int64)
    a, b = (np.concatenate([none, *columns]) for columns in (zip(*found, strict=True) if found else ((), ())))
    return PlacePairs(a[a < b], b[a < b])


def look_up(
    name: str,
    index: Any,
    texts: Sequence[str],
    hash_all: Callable[[Sequence[Sequence[str]]], Sequence[Any]],
    minima_of: Callable[[Any], Any],
) -> dict[str, PlacePairs]:
    """Return the pairs as they were looked up, and those whose minima say J >= the threshold."""
    found, minima = [], np.zeros((len(texts), PERMUTATIONS), np.uint32)
    for first in range(0, len(texts), BATCH_PAGES):
        tokens = [runs(text) for text in texts[first : first + BATCH_PAGES]]
        for place, (one, page) in enumerate(zip(hash_all(tokens), tokens, strict=True), first):
            if page:
                found.append(asked(index.query(one), place))
                index.insert(place, one)
                minima[place] = minima_of(one)
    pairs = earlier(found)
    good = np.empty(len(pairs.a), np.bool_)
    for first in range(0, len(good), BATCH_PAGES):
        part = slice(first, first + BATCH_PAGES)
        equal = (minima[pairs.a[part]] == minima[pairs.b[part]]).sum(axis=1)
        good[part] = equal >= least_equal(THRESHOLD)
    return {f"{name}, as looked up": pairs, f"{name}, estimate >= .7": PlacePairs(pairs.a[good], pairs.b[good])}
