"""From jieba's tokens to words: regrouping, and the hash and known weight of every word of a page."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream.kernels.hashing import hash_word

BIGRAM: Final = 5
_JOINING: Final = 0b11100  # 1 << LETTER | 1 << DIGIT | 1 << MARK
_HAN_BIT: Final = 0b10
_LETTER_BITS: Final = 0b100100  # 1 << LETTER | 1 << BIGRAM
_COUNTS: Final = 0x80
UNKNOWN_HAN, UNKNOWN_NUMBER, UNKNOWN_OTHER = -2, -3, -4
"""Stand for the weight of a word that is not one of the dictionary's tokens: look it up by its hash."""


class Lexicon(NamedTuple):
    """All that is known about words and characters before a page comes.

    `word_keys` and `word_weights` are an open-addressing table by word hash, of a power of two entries, probed
    linearly from `hash & (size - 1)`; weight -1 marks an empty place.
    """

    fold: NDArray[np.uint32]  # (0x110000,)
    traits: NDArray[np.uint32]  # (0x110000,) casefold, class, letter or number
    slot_hash: NDArray[np.uint64]  # (slots,) hash of the dictionary word that ends in a slot of the trie
    slot_weight: NDArray[np.int32]  # (slots,) its weight; -1 where it is no word
    word_keys: NDArray[np.uint64]  # (2^p,)
    word_weights: NDArray[np.int32]  # (2^p,)
    unknown: NDArray[np.int32]  # (3,) weights of unknown words: with Han, without letters, others
    tf_factor: NDArray[np.int64]  # (cap + 1,) round(2^16 tf^p)


class Words(NamedTuple):
    """The words of one page in the order of its text; arrays with room for as many as it has code points."""

    hash: NDArray[np.uint64]
    weight: NDArray[np.int32]  # known weight, or UNKNOWN_*
    start: NDArray[np.int32]  # first code point
    end: NDArray[np.int32]  # one past the last
    bytes: NDArray[np.uint8]  # scratch for one word's UTF-8: 4 bytes a code point


@njit(nogil=True, cache=True, inline="always")
def _class(points: NDArray[np.uint32], at: int, traits: NDArray[np.uint32]) -> int:
    return np.int64((traits[points[at]] >> np.uint32(24)) & np.uint32(7))


@njit(nogil=True, cache=True)
def joins(points: NDArray[np.uint32], at: int, traits: NDArray[np.uint32]) -> bool:
    """Whether the boundary before `at` goes away: letters, digits or marks on both sides, not both ASCII."""
    if points[at - 1] < 128 and points[at] < 128:
        return False
    left, right = 1 << _class(points, at - 1, traits), 1 << _class(points, at, traits)
    return left & _JOINING != 0 and right & _JOINING != 0


@njit(nogil=True, cache=True)
def unknown_kind(kind: int) -> int:
    """Which of UNKNOWN_* a word of this kind (see `hash_words`) is."""
    if kind & _HAN_BIT:
        return UNKNOWN_HAN
    return UNKNOWN_OTHER if kind & _LETTER_BITS else UNKNOWN_NUMBER


@njit(nogil=True, cache=True)
def _put(
    points: NDArray[np.uint32], start: int, end: int, lexicon: Lexicon, seed: np.uint64, words: Words, m: int
) -> int:
    """Append `points[start:end]` as word m if it has a letter or a number; returns the new count."""
    value, kind = hash_word(points, start, end, lexicon.traits, seed, words.bytes)
    if kind & _COUNTS == 0:
        return m
    words.hash[m] = value
    words.weight[m] = unknown_kind(kind)
    words.start[m], words.end[m] = start, end
    return m + 1


@njit(nogil=True, cache=True)
def _put_bigrams(
    points: NDArray[np.uint32], start: int, end: int, lexicon: Lexicon, seed: np.uint64, words: Words, m: int
) -> int:
    """Append the overlapping bigrams of a run of BIGRAM characters; a run of one is its own word."""
    if end - start == 1:
        return _put(points, start, end, lexicon, seed, words, m)
    for at in range(start, end - 1):
        m = _put(points, at, at + 2, lexicon, seed, words, m)
    return m


@njit(nogil=True, cache=True)
def regroup(
    points: NDArray[np.uint32],
    ends: NDArray[np.int32],
    slots: NDArray[np.int32],
    tokens: int,
    lexicon: Lexicon,
    seed: np.uint64,
    words: Words,
) -> int:
    """Write the words of a page to `words`; returns how many.

    `ends` and `slots` are the tokenizer's. Assumes that a token with a BIGRAM character is that character
    alone, as jieba has it. Linear; a dictionary word costs two look-ups, no hash.
    """
    m, token, start = 0, 0, 0
    n = np.int64(ends[tokens - 1]) if tokens > 0 else 0
    while token < tokens:
        if _class(points, start, lexicon.traits) == BIGRAM:
            end = start + 1
            while end < n and _class(points, end, lexicon.traits) == BIGRAM:
                end += 1
            m = _put_bigrams(points, start, end, lexicon, seed, words, m)
            token += end - start
            start = end
            continue
        end, slot = np.int64(ends[token]), np.int64(slots[token])
        token += 1
        while token < tokens and joins(points, end, lexicon.traits):
            end, slot = np.int64(ends[token]), np.int64(-1)
            token += 1
        if slot < 0:
            m = _put(points, start, end, lexicon, seed, words, m)
        elif lexicon.slot_weight[slot] >= 0:
            words.hash[m] = lexicon.slot_hash[slot]
            words.weight[m] = lexicon.slot_weight[slot]
            words.start[m], words.end[m] = start, end
            m += 1
        start = end
    return m
