"""Distinct words of a page, their weights, and the SimHash over them.

SimHash: M. Charikar, "Similarity estimation techniques from rounding algorithms", 2002; over weighted words of
web pages: G. Manku, A. Jain, A. Das Sarma, "Detecting near-duplicates for web crawling", 2007.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream.kernels.words import Lexicon, Words


class Distinct(NamedTuple):
    """The distinct words of one page in the order of their first occurrence.

    `places` is an open-addressing table over them, at least twice as large as a page has words and a power of
    two: page number << 32 | index. It need not be cleared between pages whose numbers differ.
    """

    places: NDArray[np.int64]
    hash: NDArray[np.uint64]
    count: NDArray[np.int64]
    weight: NDArray[np.int64]  # of the word in this page: (tf factor * word weight) >> 16
    first: NDArray[np.int32]  # which word it was first


@njit(nogil=True, cache=True)
def word_weight(value: np.uint64, lexicon: Lexicon, unknown: int) -> int:
    """The weight of the word with this hash; `unknown` (UNKNOWN_*) says what it is if no table has it."""
    mask = np.int64(len(lexicon.word_weights) - 1)
    at = np.int64(value & np.uint64(mask))
    while lexicon.word_weights[at] >= 0:
        if lexicon.word_keys[at] == value:
            return np.int64(lexicon.word_weights[at])
        at = (at + 1) & mask
    return np.int64(lexicon.unknown[-2 - unknown])


@njit(nogil=True, cache=True)
def fill_word_table(
    hashes: NDArray[np.uint64], weights: NDArray[np.int32], keys: NDArray[np.uint64], values: NDArray[np.int32]
) -> None:
    """Put words into the empty table `keys`, `values` (see Lexicon); their hashes are distinct."""
    mask = np.int64(len(values) - 1)
    for i in range(len(hashes)):
        at = np.int64(hashes[i] & np.uint64(mask))
        while values[at] >= 0:
            at = (at + 1) & mask
        keys[at], values[at] = hashes[i], weights[i]


@njit(nogil=True, cache=True)
def count_words(words: Words, m: int, page: int, distinct: Distinct) -> int:
    """Write the distinct ones of m words and how often each occurs; returns how many.

    `page` is a number from 1 to 2^31 that this `distinct` has not seen before. Linear.
    """
    size = 64
    while size < 2 * m:
        size *= 2
    mask, n = np.int64(size - 1), 0
    for i in range(m):
        value = words.hash[i]
        at = np.int64(value & np.uint64(mask))
        while True:
            place = distinct.places[at]
            if place >> 32 != page:
                distinct.places[at] = (np.int64(page) << 32) | n
                distinct.hash[n], distinct.count[n], distinct.first[n] = value, 1, i
                n += 1
                break
            index = place & 0xFFFFFFFF
            if distinct.hash[index] == value:
                distinct.count[index] += 1
                break
            at = (at + 1) & mask
    return n


@njit(nogil=True, cache=True)
def weigh(words: Words, n: int, lexicon: Lexicon, distinct: Distinct) -> None:
    """Write the weight in the page of its n distinct words."""
    cap = len(lexicon.tf_factor) - 1
    for i in range(n):
        weight = np.int64(words.weight[distinct.first[i]])
        if weight < 0:
            weight = word_weight(distinct.hash[i], lexicon, weight)
        distinct.weight[i] = (lexicon.tf_factor[min(distinct.count[i], cap)] * weight) >> 16


@njit(nogil=True, cache=True)
def simhash(hashes: NDArray[np.uint64], weights: NDArray[np.int64], n: int, sums: NDArray[np.int64]) -> np.uint64:
    """64 bits: bit i is 1 where the words whose hash has it outweigh the others.

    `sums` is scratch for 64. Integers only, so the order of the words does not matter; cost 64 n additions.
    """
    total = np.int64(0)
    sums[:] = 0
    for i in range(n):
        value, weight = hashes[i], weights[i]
        total += weight
        for bit in range(64):
            sums[bit] += weight & -np.int64((value >> np.uint64(bit)) & np.uint64(1))
    out = np.uint64(0)
    for bit in range(64):
        if 2 * sums[bit] > total:
            out |= np.uint64(1) << np.uint64(bit)
    return out
