"""Finds the distinct words of a page, weighs them, and computes the SimHash.

SimHash: M. Charikar, "Similarity estimation techniques from rounding algorithms", 2002. Over weighted words of web
pages: G. Manku, A. Jain, A. Das Sarma, "Detecting near-duplicates for web crawling", 2007.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.hash_secret import Secret
from simstream.kernels.hashing import pair, place
from simstream.kernels.jit import inlined, kernel, lean_helper, lean_kernel
from simstream.kernels.text.words import Lexicon, PageWords, unknown_kind


class DistinctWords(NamedTuple):
    """The distinct words of one page in the order of their first occurrence.

    `places` is an open-addressing table over them with values page number << 32 | index. Its size is a power of
    two, and at least twice the number of words in a page. Probes are linear from `place(hash, secret)`, so that no
    choice of words makes it slow. It needs no clearing between pages with different numbers. The other arrays have
    room for one word more than a page has.
    """

    places: NDArray[np.int64]
    hash: NDArray[np.uint64]
    times: NDArray[np.int64]  # how often the word occurs
    weight: NDArray[np.int64]  # of the word in this page: (tf factor * word weight) >> 16
    first: NDArray[np.int32]  # index of its first occurrence
    other: NDArray[np.int32]  # scratch: first the words' places, then the words that are not in the dictionary


@inlined
def word_weight(
    value: np.uint64,
    keys: NDArray[np.uint64],
    weights: NDArray[np.int32],
    unknown: NDArray[np.int32],
    kind: int,
    secret: Secret,
) -> int:
    """Return the weight of the word with this hash in the table `keys`, `weights`; `unknown` has the weights of
    other words.

    `kind` is the result of `unknown_kind` for the word, in case the table does not have it.
    """
    mask = np.int64(len(weights) - 1)
    at = np.int64(place(value, secret) & np.uint64(mask))
    while weights[at] >= 0:
        if keys[at] == value:
            return int(weights[at])
        at = (at + 1) & mask
    return int(unknown[-2 - kind])


@lean_kernel
def fill_word_table(
    hashes: NDArray[np.uint64],
    weights: NDArray[np.int32],
    keys: NDArray[np.uint64],
    values: NDArray[np.int32],
    secret: Secret,
) -> None:
    """Put words with distinct hashes into the empty table `keys`, `values` (see Lexicon)."""
    mask = np.int64(len(values) - 1)
    for i in range(len(hashes)):
        at = np.int64(place(hashes[i], secret) & np.uint64(mask))
        while values[at] >= 0:
            at = (at + 1) & mask
        keys[at], values[at] = hashes[i], weights[i]


@lean_helper
def count_words(words: PageWords, m: int, page: int, distinct: DistinctWords, secret: Secret) -> int:
    """Write the distinct words of m words, with the occurrences and the weight of each, and return how many.

    `page` is a number from 1 to 2^31 that this `distinct` has not seen before. Words with the same hash count as
    one. Cost: linear for any words, as long as strangers do not know the `secret`. It computes all places before it
    reads one, so that no wait for a place follows a wrongly predicted branch. It writes every word as if it were
    new before it knows, because the processor cannot predict that.
    """
    hashes, weights, places = words.hash, words.weight, distinct.places
    seen, times, first, weight = distinct.hash, distinct.times, distinct.first, distinct.weight
    size = 64
    while size < 4 * m and size < len(places):
        size *= 2
    mask, own, n, homes = np.uint64(size - 1), np.int64(page) << 32, 0, distinct.other
    for i in range(m):
        homes[i] = place(hashes[i], secret) & mask
    for i in range(m):
        value = hashes[i]
        seen[n], times[n], first[n], weight[n] = value, 0, i, weights[i]
        at = np.uint64(homes[i])
        while True:
            taken = places[at]
            new = taken >> 32 != page
            index = n if new else taken & 0xFFFFFFFF
            if seen[np.uint64(index)] == value:
                break
            at = (at + np.uint64(1)) & mask
        places[at] = own | index
        times[np.uint64(index)] += 1
        n += new
    return n


@lean_helper
def weigh(n: int, lexicon: Lexicon, distinct: DistinctWords) -> int:
    """Write the weight in the page of its n distinct words, drop words of weight 0, and return how many stay.

    On entry `distinct.weight` has the weights from `count_words`.
    """
    keys, table, unknown, factors = lexicon.word_keys, lexicon.word_weights, lexicon.unknown, lexicon.tf_factor
    hashes, times, weight, other = distinct.hash, distinct.times, distinct.weight, distinct.other
    secret = lexicon.secret
    mask, cap, others, positive = np.uint64(len(table) - 1), np.int64(len(factors) - 1), 0, 0
    for i in range(n):
        other[others] = i
        others += weight[i] < 0
    # First compute all places, before an answer decides a branch, so that the waits overlap. Most words are not
    # there.
    known = 0
    for j in range(others):
        which = np.uint64(other[j])
        found = table[place(hashes[which], secret) & mask]
        other[known] = which
        known += found >= 0
        weight[which] = weight[which] if found >= 0 else np.int64(unknown[np.uint64(-2 - weight[which])])
    for j in range(known):
        which = np.uint64(other[j])
        weight[which] = word_weight(hashes[which], keys, table, unknown, int(weight[which]), secret)
    for i in range(n):
        positive += weight[i] > 0
        weight[i] = (factors[np.uint64(min(times[i], cap))] * weight[i]) >> 16
    return n if positive == n else _drop_weightless(n, distinct)


@lean_helper
def _drop_weightless(n: int, distinct: DistinctWords) -> int:
    """Close the gaps of words with weight 0, and return how many of n stay."""
    kept = 0
    for i in range(n):
        if distinct.weight[i] > 0:
            distinct.hash[kept], distinct.weight[kept] = distinct.hash[i], distinct.weight[i]
            distinct.times[kept], distinct.first[kept] = distinct.times[i], distinct.first[i]
            kept += 1
    return kept


@lean_helper
def keep_heaviest(weights: NDArray[np.int64], n: int, top: int) -> None:
    """Set all of n weights to 0 except the `top` greatest; of equal ones the first stay.

    It finds the least weight that stays by bisection: up to 40 passes over the weights, without memory.
    """
    if n <= top:
        return
    low, high = np.int64(0), np.int64(0)  # more than `top` weights are above low, at most `top` above high
    for i in range(n):
        high = max(high, weights[i])
    low -= 1
    while high - low > 1:
        middle, above = (low + high) // 2, 0
        for i in range(n):
            above += weights[i] > middle
        if above > top:
            low = middle
        else:
            high = middle
    room = top
    for i in range(n):
        room -= weights[i] > high
    for i in range(n):
        if weights[i] == high and room > 0:
            room -= 1
        elif weights[i] <= high:
            weights[i] = 0


@lean_kernel
def simhash(hashes: NDArray[np.uint64], weights: NDArray[np.int64], n: int, sums: NDArray[np.int64]) -> np.uint64:
    """Return 64 bits: bit i is 1 if words with bit i in their hash outweigh the others.

    `sums` is scratch for 64 numbers. All arithmetic is in integers, so the order of the words does not matter.
    Cost: 64 n additions.
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


@lean_helper
def rehash(hashes: NDArray[np.uint64], n: int, draw: int) -> None:
    """Replace n hashes by those of the next draw: `draw` is 1 for the second fingerprint, 2 for the third.

    Each draw hashes the hashes of the draw before. The mixer is a bijection, so different words stay different, and
    the SimHashes of two draws have independent bits. Cost: about 1 ns a hash.
    """
    for i in range(n):
        hashes[i] = pair(np.uint64(draw), hashes[i])


@kernel
def known_weights(
    hashes: NDArray[np.uint64],
    kinds: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    keys: NDArray[np.uint64],
    values: NDArray[np.int32],
    unknown: NDArray[np.int32],
    secret: Secret,
) -> NDArray[np.int32]:
    """Return the weight (n,) of each word by its hash (n,), kind (n,) and characters (n,), as `weigh` finds it."""
    out = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        kind = unknown_kind(int(kinds[i] & 0x7F), lengths[i])
        out[i] = word_weight(hashes[i], keys, values, unknown, kind, secret)
    return out
