"""Counts in how many pages each word occurs, for `train-idf`."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.hashing import _utf8_of, place_bytes
from simstream.kernels.jit import helper, inlined, kernel
from simstream.kernels.text.fingerprint import FingerprintWork, RecipeRules, _find_words
from simstream.kernels.text.simhash import DistinctWords, count_words
from simstream.kernels.text.tokenize import HiddenMarkovModel
from simstream.kernels.text.trie import Trie
from simstream.kernels.text.variants import RecipeVariant, find_words, make_distinct
from simstream.kernels.text.words import Lexicon, PageWords
from simstream.model import U64

MAX_WORD_BYTES: Final = 255
"""Bytes of the longest word that is counted. Longer words, as in pages of encoded data, are skipped."""
WORDS, BYTES, PAGES = range(3)
"""Places of the counters: words in the table, their bytes in `blob`, counted pages."""
CASEFOLD: Final = np.uint32(0x1FFFFF)


class WordCounts(NamedTuple):
    """Words and their numbers of pages, in the order in which they came; made by `make_counts`.

    `places` is an open-addressing table of word numbers, -1 for an empty place. Its size is a power of two and at
    least twice the number of words. Word i is `blob[starts[i]:starts[i + 1]]`; `hash` is a hash of its bytes and
    the secret. It is not the hash of fingerprints: strangers can make words with equal ones, and each would be
    compared with all others here.
    """

    places: NDArray[np.int32]
    hash: U64  # `place_bytes`
    pages: NDArray[np.int64]
    starts: NDArray[np.int64]
    blob: NDArray[np.uint8]
    filled: NDArray[np.int64]  # (3,) WORDS, BYTES, PAGES
    secret: Secret


def make_counts(words: int, n_bytes: int, places: int, secret: Secret) -> WordCounts:
    """Make room for `words` words of `n_bytes` bytes, touched only as far as it fills; `places` is a power of
    two."""
    counts = WordCounts(
        np.full(places, -1, np.int32),
        np.empty(words, np.uint64),
        np.empty(words, np.int64),
        np.empty(words + 1, np.int64),
        np.empty(n_bytes, np.uint8),
        np.zeros(3, np.int64),
        secret,
    )
    counts.starts[0] = 0
    return counts


def with_more_places(counts: WordCounts) -> WordCounts:
    """Return the same counts with twice the places."""
    wider = counts._replace(places=np.full(2 * len(counts.places), -1, np.int32))
    place_again(wider)
    return wider


def with_more_room(counts: WordCounts) -> WordCounts:
    """Return the same counts with twice the room for everything."""
    wider = make_counts(2 * len(counts.hash), 2 * len(counts.blob), 2 * len(counts.places), counts.secret)
    words, n_bytes = int(counts.filled[WORDS]), int(counts.filled[BYTES])
    wider.hash[:words], wider.pages[:words] = counts.hash[:words], counts.pages[:words]
    wider.starts[: words + 1], wider.blob[:n_bytes] = counts.starts[: words + 1], counts.blob[:n_bytes]
    wider.filled[:] = counts.filled
    place_again(wider)
    return wider


@inlined
def _is_word(blob: NDArray[np.uint8], at: int, size: int, data: NDArray[np.uint8], start: int, n: int) -> bool:
    if size != n:
        return False
    same = True
    for i in range(n):
        same &= blob[at + i] == data[start + i]
    return same


@helper
def _add(counts: WordCounts, data: NDArray[np.uint8], start: int, n: int, pages: np.int64) -> bool:
    """Add `pages` to the word `data[start:start + n]`; return False if there is no room."""
    value = place_bytes(data, start, n, counts.secret)
    places, starts, blob, filled = counts.places, counts.starts, counts.blob, counts.filled
    mask = np.int64(len(places) - 1)
    at = np.int64(value & np.uint64(mask))
    while places[at] >= 0:
        word = np.int64(places[at])
        if counts.hash[word] == value:
            begin = starts[word]
            if _is_word(blob, begin, starts[word + 1] - begin, data, start, n):
                counts.pages[word] += pages
                return True
        at = (at + 1) & mask
    number, end = filled[WORDS], filled[BYTES]
    if number == len(counts.hash) or 2 * (number + 1) > len(places) or end + n > len(blob):
        return False
    blob[end : end + n] = data[start : start + n]
    places[at], counts.hash[number], counts.pages[number] = number, value, pages
    starts[number + 1] = end + n
    filled[WORDS], filled[BYTES] = number + 1, end + n
    return True


@helper
def _write_word(
    points: NDArray[np.uint32], start: int, end: int, traits: NDArray[np.uint32], out: NDArray[np.uint8]
) -> int:
    """Casefold `points[start:end]` to UTF-8; return how many bytes, or 0 if they are more than MAX_WORD_BYTES."""
    n = 0
    if end - start > MAX_WORD_BYTES:
        return 0
    for i in range(start, end):
        encoded, size = _utf8_of(traits[points[i]] & CASEFOLD)
        if n + size > MAX_WORD_BYTES:
            return 0
        for _ in range(size):
            out[n] = np.uint8(encoded & np.uint64(0xFF))
            encoded >>= np.uint64(8)
            n += 1
    return n


@helper
def _has_room(counts: WordCounts, n: int, words: PageWords, first: NDArray[np.int32]) -> bool:
    """Whether there is surely room for the n distinct words of a page."""
    number, n_bytes = counts.filled[WORDS] + n, counts.filled[BYTES]
    for i in range(n):
        n_bytes += min(4 * (words.end[first[i]] - words.start[first[i]]), MAX_WORD_BYTES)
    return bool(2 * number <= len(counts.places) and number <= len(counts.hash) and n_bytes <= len(counts.blob))


@helper
def _count_page(
    counts: WordCounts,
    n: int,
    points: NDArray[np.uint32],
    words: PageWords,
    distinct: DistinctWords,
    traits: NDArray[np.uint32],
) -> bool:
    """Add the n distinct words of a page; return False if there is no room."""
    if not _has_room(counts, n, words, distinct.first):
        return False
    word = np.empty(MAX_WORD_BYTES, np.uint8)
    counts.filled[PAGES] += 1
    for i in range(n):
        at = distinct.first[i]
        size = _write_word(points, words.start[at], words.end[at], traits, word)
        if size > 0:
            _add(counts, word, 0, size, np.int64(1))
    return True


@kernel
def count_batch(
    utf8: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    lexicon: Lexicon,
    trie: Trie,
    hmm: HiddenMarkovModel,
    rules: RecipeRules,
    work: FingerprintWork,
    counts: WordCounts,
    first: int,
) -> int:
    """Add the words of pages from number `first` on to `counts`, each once a page.

    Page i is `utf8[offsets[i]:offsets[i + 1]]`. A page with fewer distinct words than `rules.min_words` does not
    count. Returns the number of pages, or the number of the first page without room. `work` is fresh and made for
    the longest page. Cost: linear in the bytes, without the GIL.
    """
    for page in range(first, len(offsets) - 1):
        m = _find_words(utf8, offsets[page], offsets[page + 1], lexicon, trie, hmm, rules, work)
        n = count_words(work.words, m, page + 1, work.distinct, lexicon.secret)
        if n == 0 or n < rules.min_words:
            continue
        if not _count_page(counts, n, work.points, work.words, work.distinct, lexicon.traits):
            return page
    return len(offsets) - 1


@kernel
def count_variants(
    utf8: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    lexicon: Lexicon,
    trie: Trie,
    hmm: HiddenMarkovModel,
    rules: RecipeRules,
    variant: RecipeVariant,
    work: FingerprintWork,
    counts: WordCounts,
    first: int,
) -> int:
    """Do what `count_batch` does for recipes that need `find_words`. It counts words, never windows of words."""
    for page in range(first, len(offsets) - 1):
        text = utf8[offsets[page] : offsets[page + 1]]
        points, words, m, _ = find_words(text, lexicon, trie, hmm, rules, variant, work)
        distinct = make_distinct(m)
        n = count_words(words, m, 1, distinct, lexicon.secret)
        if n == 0 or n < rules.min_words:
            continue
        if not _count_page(counts, n, points, words, distinct, lexicon.traits):
            return page
    return len(offsets) - 1


@kernel
def add_counts(counts: WordCounts, other: WordCounts, first: int) -> int:
    """Add the words of `other` from number `first` on, and return the first one without room. The counter of pages
    stays."""
    for i in range(first, other.filled[WORDS]):
        start = other.starts[i]
        size = other.starts[i + 1] - start
        if not _add(counts, other.blob, start, size, other.pages[i]):
            return i
    return int(other.filled[WORDS])


@kernel
def place_again(counts: WordCounts) -> None:
    """Fill empty `places` with the existing words."""
    places = counts.places
    mask = np.int64(len(places) - 1)
    for word in range(counts.filled[WORDS]):
        at = np.int64(counts.hash[word] & np.uint64(mask))
        while places[at] >= 0:
            at = (at + 1) & mask
        places[at] = word


@kernel
def beginnings(counts: WordCounts) -> U64:
    """Return the first 8 bytes of each word as a number of the same order; shorter words are filled with zeros."""
    starts, blob = counts.starts, counts.blob
    out = np.zeros(counts.filled[WORDS], np.uint64)
    for word in range(len(out)):
        value = np.uint64(0)
        for i in range(8):
            at = starts[word] + i
            value <<= np.uint64(8)
            if at < starts[word + 1]:
                value |= np.uint64(blob[at])
        out[word] = value
    return out


@inlined
def _before(counts: WordCounts, a: int, b: int) -> bool:
    """Whether word a comes before word b in the order of their bytes."""
    starts, blob = counts.starts, counts.blob
    size = min(starts[a + 1] - starts[a], starts[b + 1] - starts[b])
    for i in range(size):
        left, right = blob[starts[a] + i], blob[starts[b] + i]
        if left != right:
            return bool(left < right)
    return bool(starts[a + 1] - starts[a] < starts[b + 1] - starts[b])


@helper
def _sink(counts: WordCounts, order: NDArray[np.int64], low: int, at: int, size: int) -> None:
    """Let `order[low + at]` sink in the heap `order[low:low + size]`, which has the last word on top."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(counts, order[low + child], order[low + child + 1]):
            child += 1
        if not _before(counts, order[low + at], order[low + child]):
            return
        order[low + at], order[low + child] = order[low + child], order[low + at]
        at = child


@kernel
def sort_ties(counts: WordCounts, keys: U64, order: NDArray[np.int64]) -> None:
    """Finish an `order` of words that sorts `keys`, their `beginnings`: sort equal ones by their whole bytes.

    It is a heap sort. Cost: n log n comparisons of words with equal beginnings, without memory.
    """
    low, n = 0, len(order)
    while low < n:
        high = low + 1
        while high < n and keys[order[high]] == keys[order[low]]:
            high += 1
        size = high - low
        for at in range(size // 2 - 1, -1, -1):
            _sink(counts, order, low, at, size)
        for last in range(size - 1, 0, -1):
            order[low], order[low + last] = order[low + last], order[low]
            _sink(counts, order, low, 0, last)
        low = high
