"""The way of a batch for recipes with another mode, hash, least word length, tie rule or shingles.

All other recipes use the fused kernel of `kernels/text/fingerprint`. This kernel allocates for every page.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.hashing import hash_word
from simstream.kernels.jit import helper, kernel
from simstream.kernels.text.compose import fold_page
from simstream.kernels.text.fingerprint import FingerprintResult, FingerprintWork, RecipeRules
from simstream.kernels.text.modes import ACCURATE, SEARCH, full_tokens, search_tokens
from simstream.kernels.text.other_hashes import FNV1, MMH3, cyclic, fnv1, jenkins
from simstream.kernels.text.simhash import DistinctWords, count_words, keep_heaviest, rehash, simhash, weigh
from simstream.kernels.text.sketch import sketch, sketch_runs
from simstream.kernels.text.tokenize import HiddenMarkovModel, cut, is_han
from simstream.kernels.text.trie import I32, Points, Trie
from simstream.kernels.text.words import Lexicon, PageWords, regroup, unknown_kind


class RecipeVariant(NamedTuple):
    """The settings of a recipe besides its `RecipeRules`."""

    mode: int
    """ACCURATE, SEARCH or FULL."""
    least_chars: int
    """Words with fewer code points do not count at all."""
    hash: int
    """The hash of the SimHash: MMH3, FNV1 or JENKINS. The sketch always uses MMH3."""
    shingle_words: int
    """The SimHash is made of windows of this many words; with 0, of words."""
    ties: bool
    """Whether a bit is 1 if the words with this bit and the words without it weigh the same."""


@helper
def _has_han(points: Points, start: int, end: int) -> bool:
    for at in range(start, end):  # noqa: SIM110 - kernels have no generators
        if is_han(points[at]):
            return True
    return False


@helper
def _make_words(size: int, scratch: NDArray[np.uint8]) -> PageWords:
    i32 = np.int32
    return PageWords(
        np.empty(size, np.uint64), np.empty(size, i32), np.empty(size, i32), np.empty(size, i32), scratch
    )


@helper
def make_distinct(m: int) -> DistinctWords:
    places = 64
    while places < 2 * m:
        places *= 2
    i32, i64, size = np.int32, np.int64, m + 1
    return DistinctWords(
        np.zeros(places, i64),
        np.empty(size, np.uint64),
        np.empty(size, i64),
        np.empty(size, i64),
        np.empty(size, i32),
        np.empty(size, i32),
    )


@helper
def _put(words: PageWords, m: int, value: np.uint64, weight: int, start: int, end: int) -> None:
    words.hash[m], words.weight[m], words.start[m], words.end[m] = value, weight, start, end


@helper
def _hash_into(
    words: PageWords, m: int, points: Points, start: int, end: int, lexicon: Lexicon, seed: np.uint64
) -> int:
    """Write `points[start:end]` as word number m, unless it is no word, and return the number of words."""
    value, kind = hash_word(points, start, end, lexicon.traits, seed, words.bytes)
    if value == 0:
        return m
    _put(words, m, value, unknown_kind(kind, end - start), start, end)
    return m + 1


@helper
def _overlapping(
    n: int, tokens: int, m: int, lexicon: Lexicon, trie: Trie, seed: np.uint64, mode: int, work: FingerprintWork
) -> tuple[Points, PageWords, int]:
    """Write the words of the search or full mode.

    First come the mode's tokens with a Han character, in its order. Then come the words without one among the m
    words of the accurate mode. So parts outside Han that jieba splits are regrouped once.
    """
    if mode == SEARCH:
        text, ends, count = search_tokens(work.points, work.ends, tokens, trie)
    else:
        text, ends, count = full_tokens(work.points, n, trie)
    own, used = work.words, (ends[count - 1] if count > 0 else 0)
    points, words = np.empty(used + n, np.uint32), _make_words(count + m, own.bytes)
    points[:used] = text[:used]
    found, start = 0, 0
    for token in range(count):
        end = ends[token]
        if _has_han(points, start, end):
            found = _hash_into(words, found, points, start, end, lexicon, seed)
        start = end
    for word in range(m):
        first, last = own.start[word], own.end[word]
        if not _has_han(work.points, first, last):
            # Bigrams overlap, so each of their characters is counted once.
            for at in range(first, last):
                points[used + at] = work.points[at]
            _put(words, found, own.hash[word], own.weight[word], used + first, used + last)
            found += 1
    return points, words, found


@helper
def _is_letter(point: int) -> bool:
    return bool(65 <= point <= 90 or 97 <= point <= 122)


@helper
def _split_letters(
    points: Points, words: PageWords, m: int, lexicon: Lexicon, seed: np.uint64
) -> tuple[PageWords, int]:
    """Return the words, with ASCII words split at every character that is no letter. An ASCII word without letters
    stays."""
    room = 0
    for word in range(m):
        room += words.end[word] - words.start[word]
    out, found = _make_words(room, words.bytes), 0
    for word in range(m):
        start, end = words.start[word], words.end[word]
        ascii_only, letters = True, False
        for at in range(start, end):
            ascii_only &= points[at] < 128
            letters |= _is_letter(points[at])
        if not (ascii_only and letters):
            _put(out, found, words.hash[word], words.weight[word], start, end)
            found += 1
            continue
        while start < end:
            stop = start
            while stop < end and _is_letter(points[stop]):
                stop += 1
            if stop > start:
                found = _hash_into(out, found, points, start, stop, lexicon, seed)
            start = stop + 1
    return out, found


@helper
def _without_short(words: PageWords, m: int, least_chars: int) -> int:
    """Remove words with fewer code points, and return how many stay."""
    kept = 0
    for word in range(m):
        if words.end[word] - words.start[word] >= least_chars:
            _put(words, kept, words.hash[word], words.weight[word], words.start[word], words.end[word])
            kept += 1
    return kept


@kernel
def find_words(
    utf8: NDArray[np.uint8],
    lexicon: Lexicon,
    trie: Trie,
    hmm: HiddenMarkovModel,
    rules: RecipeRules,
    variant: RecipeVariant,
    work: FingerprintWork,
) -> tuple[Points, PageWords, int, int]:
    """Return the code points with the words of one page, the words, their number, and the length of the text.

    The folded text itself stays in `work.points`.
    """
    n = fold_page(utf8, 0, len(utf8), lexicon.fold, lexicon.composition, work.points)
    tokens = cut(work.points, n, trie, hmm, rules.hmm, work.scratch, work.ends, work.slots)
    m = regroup(work.points, work.ends, work.slots, tokens, lexicon, rules.seed, work.words)
    points, words = work.points, work.words
    if variant.mode != ACCURATE:
        points, words, m = _overlapping(n, tokens, m, lexicon, trie, rules.seed, variant.mode, work)
    if variant.shingle_words > 0:
        words, m = _split_letters(points, words, m, lexicon, rules.seed)
    if variant.least_chars > 1:
        m = _without_short(words, m, variant.least_chars)
    return points, words, m, n


@kernel
def weigh_words(words: PageWords, m: int, lexicon: Lexicon) -> tuple[DistinctWords, int]:
    """Return the distinct words of a page that have a weight, and their number."""
    distinct = make_distinct(m)
    return distinct, weigh(count_words(words, m, 1, distinct, lexicon.secret), lexicon, distinct)


@helper
def _hashes_of(
    points: Points, starts: I32, ends: I32, which: I32, lexicon: Lexicon, kind: int, seed: np.uint64
) -> NDArray[np.uint64]:
    """Return the recipe's hash of the words `which`."""
    out = np.empty(len(which), np.uint64)
    for i in range(len(which)):
        start, end = starts[which[i]], ends[which[i]]
        if kind == FNV1:
            out[i] = fnv1(points, start, end, lexicon.traits)
        else:
            out[i] = jenkins(points, start, end, lexicon.traits, seed)
    return out


@helper
def _weigh_windows(
    windows: NDArray[np.uint64], tf_factor: NDArray[np.int64], secret: Secret
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct windows in the order of the text, and their weights: the power of their occurrences.

    It counts and does not sort: numba's sort takes quadratic time in orders that a stranger can choose.
    """
    m = len(windows)
    counted, distinct = _make_words(m, np.empty(0, np.uint8)), make_distinct(m)
    counted.hash[:], counted.weight[:] = windows, 0
    n = count_words(counted, m, 1, distinct, secret)
    weights = np.empty(n, np.int64)
    for i in range(n):
        weights[i] = tf_factor[min(distinct.times[i], len(tf_factor) - 1)]
    return distinct.hash[:n].copy(), weights


@kernel
def features(
    points: Points,
    words: PageWords,
    m: int,
    distinct: DistinctWords,
    n: int,
    lexicon: Lexicon,
    rules: RecipeRules,
    variant: RecipeVariant,
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return hashes and weights of the parts of a page's SimHash: its n distinct words, or its shingles."""
    if variant.shingle_words > 0:
        hashes = words.hash[:m].copy()
        if variant.hash != MMH3:
            every = np.arange(m).astype(np.int32)
            hashes = _hashes_of(points, words.start, words.end, every, lexicon, variant.hash, rules.seed)
        return _weigh_windows(cyclic(hashes, variant.shingle_words), lexicon.tf_factor, lexicon.secret)
    hashes, weights = distinct.hash[:n].copy(), distinct.weight[:n].copy()
    if variant.hash != MMH3:
        hashes = _hashes_of(
            points, words.start, words.end, distinct.first[:n].copy(), lexicon, variant.hash, rules.seed
        )
    if rules.top > 0:
        keep_heaviest(weights, n, rules.top)
    return hashes, weights


@kernel
def fingerprint_variants(
    utf8: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    lexicon: Lexicon,
    trie: Trie,
    hmm: HiddenMarkovModel,
    rules: RecipeRules,
    variant: RecipeVariant,
    work: FingerprintWork,
    result: FingerprintResult,
) -> None:
    """Do what `fingerprint_batch` does for a recipe with this `variant`. Holds no GIL."""
    for page in range(len(offsets) - 1):
        part = utf8[offsets[page] : offsets[page + 1]]
        points, words, m, length = find_words(part, lexicon, trie, hmm, rules, variant, work)
        distinct, n = weigh_words(words, m, lexicon)
        result.words[page] = n
        if n < rules.min_words:
            result.fingerprints[page] = 0
            result.sketches[page, :] = 0
            continue
        hashes, weights = features(points, words, m, distinct, n, lexicon, rules, variant)
        result.fingerprints[page] = _simhash(hashes, weights, variant.ties, work)
        for i in range(rules.further):
            rehash(hashes, len(hashes), i + 1)
            result.sketches[page, i] = _simhash(hashes, weights, variant.ties, work)
        if len(work.bins) == 0:
            continue
        out = result.sketches[page][rules.further :]
        if rules.sketch_characters > 0:
            run = (rules.sketch_characters, rules.seed, rules.mixed)
            sketch_runs(work.points, length, lexicon.traits, run, work.bins, out)
        else:
            sketch(words.hash, m, rules.mixed, work.bins, out)


@helper
def _simhash(
    hashes: NDArray[np.uint64], weights: NDArray[np.int64], ties: bool, work: FingerprintWork
) -> np.uint64:
    """Return the SimHash with the bit `ties` where the words for and against it weigh the same."""
    if ties:  # on complements the strict rule gives 0 if the sum is 0 or above
        return ~simhash(~hashes, weights, len(hashes), work.sums)
    return simhash(hashes, weights, len(hashes), work.sums)
