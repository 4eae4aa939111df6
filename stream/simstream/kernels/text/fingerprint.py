"""The default way of a batch in one call: UTF-8 in, fingerprints, sketches and word counts out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import lean_helper, lean_kernel
from simstream.kernels.text.compose import fold_page, room_for
from simstream.kernels.text.simhash import DistinctWords, count_words, keep_heaviest, rehash, simhash, weigh
from simstream.kernels.text.sketch import sketch, sketch_runs
from simstream.kernels.text.tokenize import HiddenMarkovModel, TokenizeScratch, cut, make_scratch
from simstream.kernels.text.trie import Trie
from simstream.kernels.text.words import Lexicon, PageWords, regroup


class RecipeRules(NamedTuple):
    """The numbers of a recipe that the kernel needs."""

    seed: np.uint64
    hmm: bool
    min_words: int
    sketch_characters: int
    """The sketch covers runs of this many letters and digits; with 0, pairs of words."""
    top: int
    """How many of a page's words count in its SimHash, by falling weight, then in the order of the text; 0 for
    all."""
    further: int
    """How many further fingerprints a page has, 0 to 2."""
    mixed: bool
    """Whether each bin of the sketch mixes its bit anew."""


class FingerprintWork(NamedTuple):
    """Working memory for pages of up to n bytes: about 160 bytes for each byte, touched only as far as a page
    reaches."""

    points: NDArray[np.uint32]
    ends: NDArray[np.int32]
    slots: NDArray[np.int32]
    scratch: TokenizeScratch
    words: PageWords
    distinct: DistinctWords
    sums: NDArray[np.int64]
    bins: NDArray[np.uint64]


class FingerprintResult(NamedTuple):
    """The result of a batch of n pages; made by `make_result`."""

    fingerprints: NDArray[np.uint64]  # (n,)
    sketches: NDArray[np.uint64]  # (n, further + sketch bits / 64): the further fingerprints, then the sketch
    words: NDArray[np.uint32]  # (n,) distinct words with a weight


def make_work(n_bytes: int, sketch_bits: int) -> FingerprintWork:
    """Make working memory for one batch whose longest page has `n_bytes`. Threads must not share it."""
    size = max(n_bytes, 64)
    places = 1 << (2 * size - 1).bit_length()
    i32, i64, u64 = np.int32, np.int64, np.uint64
    words = PageWords(
        np.empty(size + 1, u64),
        np.empty(size + 1, i32),
        np.empty(size + 1, i32),
        np.empty(size + 1, i32),
        np.empty(4 * size + 4, np.uint8),
    )
    distinct = DistinctWords(
        np.zeros(places, i64),
        np.empty(size + 1, u64),
        np.empty(size + 1, i64),
        np.empty(size + 1, i64),
        np.empty(size + 1, i32),
        np.empty(size + 1, i32),
    )
    return FingerprintWork(
        np.empty(room_for(size), np.uint32),
        np.empty(size, i32),
        np.empty(size, i32),
        make_scratch(size),
        words,
        distinct,
        np.empty(64, i64),
        np.empty(2 * sketch_bits, u64),
    )


def make_result(n: int, sketch_words: int) -> FingerprintResult:
    """Make room for the result of n pages."""
    return FingerprintResult(np.zeros(n, np.uint64), np.zeros((n, sketch_words), np.uint64), np.zeros(n, np.uint32))


@lean_helper
def _find_words(
    utf8: NDArray[np.uint8],
    start: int,
    end: int,
    lexicon: Lexicon,
    trie: Trie,
    hmm: HiddenMarkovModel,
    rules: RecipeRules,
    work: FingerprintWork,
) -> int:
    """Fold, segment and regroup `utf8[start:end]` into `work.words`, and return how many words it has."""
    n = fold_page(utf8, start, end, lexicon.fold, lexicon.composition, work.points)
    tokens = cut(work.points, n, trie, hmm, rules.hmm, work.scratch, work.ends, work.slots)
    return regroup(work.points, work.ends, work.slots, tokens, lexicon, rules.seed, work.words)


@lean_kernel
def fingerprint_batch(
    utf8: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    lexicon: Lexicon,
    trie: Trie,
    hmm: HiddenMarkovModel,
    rules: RecipeRules,
    work: FingerprintWork,
    result: FingerprintResult,
) -> None:
    """Fingerprint n pages: page i is `utf8[offsets[i]:offsets[i + 1]]`, and its results go to row i.

    Words of weight 0 count only in the sketch, neither in the SimHash nor as distinct words. A page with fewer
    distinct words than `rules.min_words` gets fingerprints and sketch 0. No page may be longer than `work` was made
    for, and `work` must be fresh. Cost: linear in the bytes, without the GIL and without allocation.
    """
    for page in range(len(offsets) - 1):
        start, end = offsets[page], offsets[page + 1]
        points = fold_page(utf8, start, end, lexicon.fold, lexicon.composition, work.points)
        tokens = cut(work.points, points, trie, hmm, rules.hmm, work.scratch, work.ends, work.slots)
        m = regroup(work.points, work.ends, work.slots, tokens, lexicon, rules.seed, work.words)
        n = weigh(count_words(work.words, m, page + 1, work.distinct, lexicon.secret), lexicon, work.distinct)
        result.words[page] = n
        if n < rules.min_words:
            result.fingerprints[page] = 0
            result.sketches[page, :] = 0
            continue
        if rules.top > 0:
            keep_heaviest(work.distinct.weight, n, rules.top)
        result.fingerprints[page] = simhash(work.distinct.hash, work.distinct.weight, n, work.sums)
        for i in range(rules.further):
            rehash(work.distinct.hash, n, i + 1)
            result.sketches[page, i] = simhash(work.distinct.hash, work.distinct.weight, n, work.sums)
        if len(work.bins) == 0:
            continue
        out = result.sketches[page][rules.further :]
        if rules.sketch_characters > 0:
            run = (rules.sketch_characters, rules.seed, rules.mixed)
            sketch_runs(work.points, points, lexicon.traits, run, work.bins, out)
        else:
            sketch(work.words.hash, m, rules.mixed, work.bins, out)


@lean_kernel
def weigh_page(
    utf8: NDArray[np.uint8],
    lexicon: Lexicon,
    trie: Trie,
    hmm: HiddenMarkovModel,
    rules: RecipeRules,
    work: FingerprintWork,
) -> int:
    """Write the distinct words of one page that have a weight to `work.distinct`, and return how many."""
    m = _find_words(utf8, 0, len(utf8), lexicon, trie, hmm, rules, work)
    return int(weigh(count_words(work.words, m, 1, work.distinct, lexicon.secret), lexicon, work.distinct))
