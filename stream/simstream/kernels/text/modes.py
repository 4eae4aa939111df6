"""jieba's search mode and full mode, whose tokens overlap.

Tokens stand one after another in their own array, because some are no contiguous part of the text. Token i is
`text[ends[i - 1]:ends[i]]`, and may be empty. Source of the method: jieba 0.42.1, whose output is the definition.
"""

from __future__ import annotations

import numpy as np

from simstream.kernels.jit import helper, kernel
from simstream.kernels.text.tokenize import is_alnum, is_in_block
from simstream.kernels.text.trie import I32, NO_WORD, Points, Trie, find

ACCURATE, SEARCH, FULL = 0, 1, 2
_CR, _LF = 13, 10


@helper
def _is_space(point: int) -> bool:
    """Whether `\\s` matches it in Python's regular expressions."""
    if point < 0x85:
        return bool(9 <= point <= 13 or 28 <= point <= 32)
    if point < 0x2000:
        return bool(point == 0x85 or point == 0xA0 or point == 0x1680)
    if point <= 0x200A:
        return True
    return bool(point == 0x2028 or point == 0x2029 or point == 0x202F or point == 0x205F or point == 0x3000)


@helper
def _emit(points: Points, start: int, end: int, text: Points, ends: I32, count: int) -> int:
    """Write `points[start:end]` as token number `count`, and return the number of tokens."""
    to = ends[count - 1] if count > 0 else np.int32(0)
    for at in range(start, end):
        text[to] = points[at]
        to += np.int32(1)
    ends[count] = to
    return count + 1


@kernel
def search_tokens(points: Points, cut_ends: I32, cut_count: int, trie: Trie) -> tuple[Points, I32, int]:
    """Write the tokens of jieba's search mode: before each token of `cut` its words of two characters, then of
    three.

    Returns text, ends and number of the tokens. Cost: linear, and about 20 bytes a character.
    """
    n = cut_ends[cut_count - 1] if cut_count > 0 else 0
    text, ends = np.empty(6 * n, np.uint32), np.empty(3 * n, np.int32)
    count, start = 0, 0
    for token in range(cut_count):
        end = cut_ends[token]
        for size in range(2, 4):
            if end - start > size:
                for at in range(start, end - size + 1):
                    if find(points, at, at + size, trie) >= 0:
                        count = _emit(points, at, at + size, text, ends, count)
        count = _emit(points, start, end, text, ends, count)
        start = end
    return text, ends, count


@helper
def _words_from(points: Points, start: int, stop: int, trie: Trie, found: I32) -> int:
    """Write the ends of all words that begin at `start` and end by `stop`, ascending, and return how many."""
    nodes, code = trie.nodes, trie.code
    slot, n = 0, 0
    for at in range(start, stop):
        label = code[points[at]]
        below = nodes[slot].base + label
        if label == 0 or nodes[below].check != slot:
            break
        slot = below
        if nodes[slot].log_frequency > NO_WORD:
            found[n] = at + 1
            n += 1
    return n


@helper
def _full_block(
    points: Points, start: int, stop: int, trie: Trie, found: I32, run: Points, text: Points, ends: I32, count: int
) -> int:
    """Write the full mode's tokens of one block: every word of at least two characters, and characters that no word
    covers.

    It gathers uncovered letters and digits in `run`, and writes them before the next other character.
    """
    covered, length = start, 0
    for at in range(start, stop):
        if length > 0 and not is_alnum(points[at]):
            count = _emit(run, 0, length, text, ends, count)
            length = 0
        n = _words_from(points, at, stop, trie, found)
        if n == 0:
            found[0] = at + 1
            n = 1
        if n == 1 and at >= covered:
            covered = found[0]
            if is_alnum(points[at]):
                for i in range(at, covered):
                    run[length] = points[i]
                    length += 1
            else:
                count = _emit(points, at, covered, text, ends, count)
            continue
        for i in range(n):
            if found[i] > at + 1:
                count = _emit(points, at, found[i], text, ends, count)
                covered = found[i]
    return _emit(run, 0, length, text, ends, count) if length > 0 else count


@helper
def _full_gap(points: Points, start: int, stop: int, text: Points, ends: I32, count: int) -> int:
    """Write the full mode's tokens between two blocks: each white space, and the parts before, between and after
    them.

    An empty part gives an empty token, as in jieba.
    """
    begin, at = start, start
    while at < stop:
        if not _is_space(points[at]):
            at += 1
            continue
        end = at + 2 if points[at] == _CR and at + 1 < stop and points[at + 1] == _LF else at + 1
        count = _emit(points, begin, at, text, ends, count)
        count = _emit(points, at, end, text, ends, count)
        begin = at = end
    return _emit(points, begin, stop, text, ends, count)


@helper
def _full_room(points: Points, n: int, trie: Trie, found: I32) -> tuple[int, int]:
    """Return the most tokens that the full mode can have, and the most characters in them."""
    tokens, characters, stop = 2 * n + 1, 2 * n, n
    for at in range(n - 1, -1, -1):
        if not is_in_block(points[at]):
            stop = at
            continue
        words = _words_from(points, at, stop, trie, found)
        tokens += words
        for i in range(words):
            characters += found[i] - at
    return tokens, characters


@kernel
def full_tokens(points: Points, n: int, trie: Trie) -> tuple[Points, I32, int]:
    """Return the tokens of jieba's full mode of `points[:n]`: text, ends and number.

    Cost: two walks through the trie a character, and memory for the tokens' characters.
    """
    found, run = np.empty(n + 1, np.int32), np.empty(n + 1, np.uint32)
    tokens, characters = _full_room(points, n, trie, found)
    text, ends = np.empty(characters, np.uint32), np.empty(tokens, np.int32)
    count, at = 0, 0
    while at < n:
        start, inside = at, is_in_block(points[at])
        while at < n and is_in_block(points[at]) == inside:
            at += 1
        if inside:
            count = _full_block(points, start, at, trie, found, run, text, ends, count)
        else:
            count = _full_gap(points, start, at, text, ends, count)
    return text, ends, count


@kernel
def separate(text: Points, ends: I32, count: int) -> Points:
    """Return a copy of the tokens' text, uint32, with a zero between successive tokens. Assumes at least one
    token."""
    separated = np.empty(ends[count - 1] + count - 1, np.uint32)
    start, to = 0, 0
    for token in range(count):
        for at in range(start, ends[token]):
            separated[to] = text[at]
            to += 1
        if token < count - 1:
            separated[to] = 0
            to += 1
        start = ends[token]
    return separated
