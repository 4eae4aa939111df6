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
_COUNTS: Final = np.uint32(1 << 27)
_KIND_COUNTS: Final = 0x80
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


@njit(nogil=True, cache=True)
def unknown_kind(kind):
    """Which of UNKNOWN_* a word of this kind (see `hash_words`) is."""
    if kind & _HAN_BIT:
        return UNKNOWN_HAN
    return UNKNOWN_OTHER if kind & _LETTER_BITS else UNKNOWN_NUMBER


@njit(nogil=True)  # not cached by itself: it calls into another file, see stamp.py
def regroup(points, ends, slots, tokens, lexicon, seed, words):
    """Write the words of a page to `words`; returns how many.

    `ends` and `slots` are the tokenizer's. Boundaries between letters, digits and marks go away where not both
    sides are ASCII; runs of BIGRAM characters become overlapping bigrams, a run of one that character. Assumes
    that a token with a BIGRAM character is that character alone, as jieba has it. Linear; a dictionary word
    costs two look-ups and no hash.
    """
    # Arrays by themselves: a tuple of them that is handed on costs two atomic counts an array.
    traits, slot_hash, slot_weight = lexicon.traits, lexicon.slot_hash, lexicon.slot_weight
    out_hash, out_weight, out_start, out_end = words.hash, words.weight, words.start, words.end
    n = np.int64(ends[tokens - 1]) if tokens > 0 else 0
    m, token, start, run_end, run = 0, 0, 0, 0, 0
    while start < n:
        first = traits[points[start]]
        if (first >> np.uint32(24)) & np.uint32(7) == BIGRAM:
            if start >= run_end:
                run_end = start + 1
                while run_end < n and (traits[points[run_end]] >> np.uint32(24)) & np.uint32(7) == BIGRAM:
                    run_end += 1
                run = run_end - start
            # The last character of a longer run ends a bigram and begins none.
            end = start + (2 if run > 1 else 1)
            after, slot = start + 1, np.int64(-1)
            token += 1
            if run > 1 and after == run_end:
                start = after
                continue
        else:
            end, slot = np.int64(ends[token]), np.int64(slots[token])
            token += 1
            while token < tokens and (points[end - 1] >= 128 or points[end] >= 128):
                left = 1 << np.int64((traits[points[end - 1]] >> np.uint32(24)) & np.uint32(7))
                right = 1 << np.int64((traits[points[end]] >> np.uint32(24)) & np.uint32(7))
                if left & _JOINING == 0 or right & _JOINING == 0:
                    break
                end, slot = np.int64(ends[token]), np.int64(-1)
                token += 1
            after = end
        if slot >= 0:
            value, weight = slot_hash[slot], slot_weight[slot]
        elif end - start == 1 and first & _COUNTS == 0:
            value, weight = np.uint64(0), np.int32(-1)
        else:
            value, kind = hash_word(points, start, end, traits, seed, words.bytes)
            weight = np.int32(unknown_kind(kind) if kind & _KIND_COUNTS else -1)
        if weight != -1:
            out_hash[m], out_weight[m], out_start[m], out_end[m] = value, weight, start, end
            m += 1
        start = after
    return m
