"""Regroups jieba's tokens into words, and hashes every word of a page."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.hashing import hash_word
from simstream.kernels.jit import inlined, lean_helper
from simstream.kernels.text.compose import Composition

OTHER: Final = 0
BIGRAM: Final = 5
HAN_FIRST, HAN_LAST = 0x4E00, 0x9FFF  # all of the class HAN
_JOINING: Final = 0b11100  # 1 << LETTER | 1 << DIGIT | 1 << MARK
_HAN_BIT: Final = 0b10
_LETTER_BITS: Final = 0b100100  # 1 << LETTER | 1 << BIGRAM
UNKNOWN_HAN, UNKNOWN_NUMBER, UNKNOWN_OTHER = -2, -3, -4
"""Marks, in place of a weight, for a word that is not one of the dictionary's tokens; each of its characters
subtracts 3. Its weight is found by its hash."""
MAX_WEIGHED_CHARACTERS: Final = 8
"""Longer unknown words weigh as words of this length: hardly any word of 8 characters is common."""
LETTER_OR_NUMBER: Final = np.uint32(1 << 27)
"""The bit of a character's traits that makes a token a word."""


class Lexicon(NamedTuple):
    """Everything about words and characters that is known before a page comes.

    `word_keys` and `word_weights` are an open-addressing table by word hash, of a power of two entries, probed
    linearly from `place(hash, secret) & (size - 1)`; weight -1 marks an empty place.
    """

    fold: NDArray[np.uint32]  # (0x110000,)
    traits: NDArray[np.uint32]  # (0x110000,) casefold, class, letter or number
    # (slots, 2) hash and weight of the dictionary word of a slot in the trie; 0 for no word
    slots: NDArray[np.uint64]
    word_keys: NDArray[np.uint64]  # (2^p,)
    word_weights: NDArray[np.int32]  # (2^p,)
    # (3 LONGEST + 3,) weights of unknown words by length: with Han, without letters, others
    unknown: NDArray[np.int32]
    tf_factor: NDArray[np.int64]  # (cap + 1,) round(2^16 tf^p)
    secret: Secret  # the secret of all tables by word hash; no result depends on it
    composition: Composition


class PageWords(NamedTuple):
    """The words of one page in the order of its text. The arrays have room for as many words as the page has code
    points."""

    hash: NDArray[np.uint64]
    weight: NDArray[np.int32]  # weight of a dictionary word; for others the result of `unknown_kind`
    start: NDArray[np.int32]  # first code point
    end: NDArray[np.int32]  # one past the last
    bytes: NDArray[np.uint8]  # scratch for one word's UTF-8: 4 bytes a code point


@inlined
def unknown_kind(kind: int, characters: int) -> int:
    """Return the mark in place of the weight of a word of this kind (see `hash_words`): `-2 - n` is place n of
    `unknown`."""
    length = 3 * min(characters, MAX_WEIGHED_CHARACTERS)
    if kind & _HAN_BIT:
        return UNKNOWN_HAN - length
    return (UNKNOWN_OTHER if kind & _LETTER_BITS else UNKNOWN_NUMBER) - length


@inlined
def _class(points: NDArray[np.uint32], at: int, traits: NDArray[np.uint32]) -> int:
    return int((traits[points[np.uint64(at)]] >> np.uint32(24)) & np.uint32(7))


@inlined
def _is_common_han(point: np.uint32) -> bool:
    return bool(np.uint32(point - np.uint32(HAN_FIRST)) <= np.uint32(HAN_LAST - HAN_FIRST))


@inlined
def _end_of_word(
    points: NDArray[np.uint32], ends: NDArray[np.int32], tokens: int, token: int, traits: NDArray[np.uint32]
) -> int:
    """Return how many tokens from `token` on, at least one, make one word.

    A boundary goes away only between letters, digits or marks that are not both ASCII.
    """
    at = token
    while at + 1 < tokens:
        end = int(ends[np.uint64(at)])
        if points[np.uint64(end - 1)] < 128 and points[np.uint64(end)] < 128:
            break
        if (1 << _class(points, end - 1, traits)) & _JOINING == 0:
            break
        if (1 << _class(points, end, traits)) & _JOINING == 0:
            break
        at += 1
    return at + 1 - token


@lean_helper
def regroup(
    points: NDArray[np.uint32],
    ends: NDArray[np.int32],
    slots: NDArray[np.int32],
    tokens: int,
    lexicon: Lexicon,
    seed: np.uint64,
    words: PageWords,
) -> int:
    """Write the words of a page to `words`, and return how many.

    `ends` and `slots` come from the tokenizer. A run of BIGRAM characters becomes overlapping bigrams; a run of one
    stays that character. Assumes that a token with a BIGRAM character is that character alone, as in jieba. Cost:
    linear; a dictionary word costs one look-up and no hash.
    """
    # Local arrays and unsigned indices: each saves an addition or a comparison at every access.
    traits, table, scratch = lexicon.traits, lexicon.slots, words.bytes
    out_hash, out_weight, out_start, out_end = words.hash, words.weight, words.start, words.end
    # Prefetch every row before one is needed: the table is outside the cache, and here the waits overlap.
    for i in range(tokens):
        row = np.uint64(max(int(slots[i]), 0))
        out_hash[i], out_weight[i] = table[row, 0], table[row, 1]
    m, token, start = 0, 0, 0
    while token < tokens:
        end, slot = int(ends[np.uint64(token)]), int(slots[np.uint64(token)])
        value, weight = out_hash[np.uint64(token)], int(out_weight[np.uint64(token)])
        token += 1
        after, to = end, np.uint64(m)
        between = _is_common_han(points[np.uint64(start)]) & _is_common_han(points[np.uint64(end - 1)])
        if (slot < 0) | (not between):  # otherwise nothing more applies, as for by far the most words
            if not between:
                first = _class(points, start, traits)
                if first == OTHER and end - start == 1:
                    start = end  # a sign
                    continue
                if first == BIGRAM:
                    if token < tokens and _class(points, end, traits) == BIGRAM:
                        end += 1
                    elif start > 0 and _class(points, start - 1, traits) == BIGRAM:
                        start = end  # the last character of a run ends a bigram and begins none
                        continue
                else:
                    joined = _end_of_word(points, ends, tokens, token - 1, traits)
                    if joined > 1:
                        token += joined - 1
                        end, slot = int(ends[np.uint64(token - 1)]), -1
                        after = end
            if slot < 0:
                value, kind = hash_word(points, start, end, traits, seed, scratch)
                weight = unknown_kind(kind, end - start)
        out_hash[to], out_weight[to], out_start[to], out_end[to] = value, weight, start, end
        m += value != 0
        start = after
    return m
