"""jieba's accurate mode: code points in, the ends of tokens out.

A text is cut into blocks (Han, ASCII letters and digits, and `+#&._%-`) and the rest. The rest gives a token for
each character, and one for CR LF. In a block it finds the most probable route through the dictionary's words, from
the right. The route's single characters go through a hidden Markov model with the states B, M, E, S (beginning,
middle, end of a word, and single), by Viterbi. Sums are added in jieba's order, and ties are decided as in jieba
(the later end; the greater state letter), so that every bit of a score agrees. Source of the method: jieba 0.42.1,
whose output is the definition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import lean_helper, lean_kernel
from simstream.kernels.text.trie import F64, I32, NO_WORD, Points, Trie, is_split, walk

MIN_FLOAT = -3.14e100
"""jieba's logarithm of a probability of 0: for pairs that its HMM tables do not have."""
HAN_FIRST, HAN_LAST = 0x4E00, 0x9FD5
B, M, E, S = 0, 1, 2, 3
OUTSIDE = -2
"""In place of a slot: the character belongs to no block, and therefore to no run of single characters."""


def _classes() -> NDArray[np.uint8]:
    """Return per ASCII character 3 for digits, 2 for letters, 1 for the other characters of a block, else 0."""
    classes = np.zeros(128, np.uint8)
    for text, value in (("0123456789", 3), ("+#&._%-", 1)):
        classes[[ord(character) for character in text]] = value
    classes[ord("a") : ord("z") + 1] = 2
    classes[ord("A") : ord("Z") + 1] = 2
    return classes


ASCII_CLASS = _classes()


class HiddenMarkovModel(NamedTuple):
    """Natural logarithms of the model's probabilities; states in the order B, M, E, S."""

    start: F64  # (4,)
    trans: F64  # (4, 4) from, to
    emit: F64  # (0x10000, 4) by code point


class TokenizeScratch(NamedTuple):
    """Working memory of `cut`, by position in the text. One thread makes it once and uses it for many texts."""

    route: F64  # (n + 1,) score of the best route from here to the end of the block
    next: I32  # (n + 1,) where the token that begins here ends
    slot: I32  # (n + 1,) and its slot; -1 if the route met no word, OUTSIDE if no block is here
    back: NDArray[np.int8]  # (n + 1, 4) the HMM's state before


def make_scratch(n_points: int) -> TokenizeScratch:
    """Make working memory for texts of up to `n_points` code points: 20 bytes for each, touched only when used."""
    size = n_points + 1
    return TokenizeScratch(
        np.empty(size, np.float64),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty((size, 4), np.int8),
    )


@lean_helper
def is_han(point: int) -> bool:
    return HAN_FIRST <= point <= HAN_LAST


@lean_helper
def is_in_block(point: int) -> bool:
    return ASCII_CLASS[point] != 0 if point < 128 else is_han(point)


@lean_helper
def is_alnum(point: int) -> bool:
    return point < 128 and ASCII_CLASS[point] >= 2


@lean_helper
def _is_digit(point: int) -> bool:
    return point < 128 and ASCII_CLASS[point] == 3


@lean_helper
def _find_second_slots(points: Points, n: int, trie: Trie, second: I32) -> None:
    """Write the slot to which each character and the next one lead from the root; -1 where they lead nowhere.

    The value means nothing where the first character begins no word; the last place is not written. The trie is
    larger than the cache. Here no step waits for the one before, so the waits for memory overlap.
    """
    nodes, code = trie.nodes, trie.code
    root = np.uint32(nodes[0].base)
    label = np.uint32(code[points[0]])
    for at in range(np.uint64(n - 1)):
        first = root + label
        label = np.uint32(code[points[at + np.uint64(1)]])
        below = np.uint32(nodes[np.uint64(first)].base) + label
        leads = (nodes[np.uint64(below)].check == np.int32(first)) & (label != 0)
        second[at] = np.int32(below) if leads else np.int32(-1)


@lean_helper
def _find_routes(points: Points, n: int, trie: Trie, scratch: TokenizeScratch) -> None:
    """Fill route, next and slot of the whole text, from the right.

    Cost: for each character a walk through the trie, at most as long as the longest word. Unsigned indices save the
    question whether they are negative.
    """
    nodes, code = trie.nodes, trie.code
    route, ends, slots = scratch.route, scratch.next, scratch.slot
    unknown = -trie.log_total
    root = np.uint32(nodes[0].base)
    stop = n
    route[n] = 0.0
    if n > 0:
        _find_second_slots(points, n, trie, slots)
    for at in range(n - 1, -1, -1):
        point = points[at]
        if not is_in_block(point):
            ends[at] = at + 2 if point == 13 and at + 1 < n and points[at + 1] == 10 else at + 1
            slots[at] = OUTSIDE
            route[at] = 0.0
            stop = at
            continue
        best, best_end, best_slot = -np.inf, at + 1, np.int64(-1)
        label = np.uint32(code[point])
        slot = np.uint64(root + label)
        if (label != 0) & (nodes[slot].check == 0):
            if nodes[slot].log_frequency > NO_WORD:
                best, best_slot = nodes[slot].log_frequency + route[np.uint64(at + 1)], np.int64(slot)
            to, second = at + 1, slots[at]
            if (to < stop) & (second >= 0):
                slot = np.uint64(second)
                while True:
                    to += 1
                    if nodes[slot].log_frequency > NO_WORD:
                        score = nodes[slot].log_frequency + route[np.uint64(to)]
                        if score >= best:  # of equal scores the later end
                            best, best_end, best_slot = score, to, np.int64(slot)
                    if to == stop:
                        break
                    label = np.uint32(code[points[np.uint64(to)]])
                    below = np.uint64(np.uint32(nodes[slot].base) + label)
                    if (label == 0) | (nodes[below].check != np.int32(slot)):
                        break
                    slot = below
        route[at] = best if best_slot >= 0 else unknown + route[at + 1]
        ends[at] = best_end
        slots[at] = best_slot


@lean_helper
def _cut_han(
    points: Points,
    start: int,
    end: int,
    hmm_start: F64,
    trans: F64,
    emit: F64,
    back: NDArray[np.int8],
    ends: I32,
    slots: I32,
) -> None:
    """Set the ends of the words that the HMM finds in the Han run [start, end), by Viterbi.

    On equal scores the state with the greater letter wins: B < E < M < S.
    """
    e_b, s_b, b_m, m_m = trans[E, B], trans[S, B], trans[B, M], trans[M, M]
    b_e, m_e, e_s, s_s = trans[B, E], trans[M, E], trans[E, S], trans[S, S]
    point = points[start]
    b, m = hmm_start[B] + emit[point, B], hmm_start[M] + emit[point, M]
    e, s = hmm_start[E] + emit[point, E], hmm_start[S] + emit[point, S]
    for at in range(start + 1, end):
        point = points[at]
        b_of_e, b_of_s = e + e_b + emit[point, B], s + s_b + emit[point, B]
        m_of_b, m_of_m = b + b_m + emit[point, M], m + m_m + emit[point, M]
        e_of_b, e_of_m = b + b_e + emit[point, E], m + m_e + emit[point, E]
        s_of_e, s_of_s = e + e_s + emit[point, S], s + s_s + emit[point, S]
        back[at, B] = E if b_of_e > b_of_s else S
        back[at, M] = B if m_of_b > m_of_m else M
        back[at, E] = B if e_of_b > e_of_m else M
        back[at, S] = E if s_of_e > s_of_s else S
        b, m = max(b_of_e, b_of_s), max(m_of_b, m_of_m)
        e, s = max(e_of_b, e_of_m), max(s_of_e, s_of_s)
    state = E if e > s else S
    word_end = end
    for at in range(end - 1, start - 1, -1):
        if state >= E:
            word_end = at + 1
        ends[at] = word_end  # the last write for a word is at its first character
        slots[at] = -1
        state = back[at, state] if at > start else B


@lean_helper
def _end_of_number(points: Points, start: int, end: int) -> int:
    """Return the end of the match of jieba's `[a-zA-Z0-9]+(?:\\.\\d+)?%?` at `start`, a letter or digit."""
    at = start + 1
    while at < end and is_alnum(points[at]):
        at += 1
    if at + 1 < end and points[at] == 46 and _is_digit(points[at + 1]):
        at += 2
        while at < end and _is_digit(points[at]):
            at += 1
    if at < end and points[at] == 37:
        at += 1
    return at


@lean_helper
def _end_of_run(points: Points, start: int, end: int) -> int:
    """Return the end of the run of Han, of the number, or of the run of signs that begins at `start`."""
    at = start
    if is_han(points[at]):
        while at < end and is_han(points[at]):
            at += 1
        return at
    if is_alnum(points[at]):
        return _end_of_number(points, at, end)
    while at < end and not is_han(points[at]) and not is_alnum(points[at]):
        at += 1
    return at


@lean_helper
def _join_unknown(points: Points, n: int, trie: Trie, hmm: HiddenMarkovModel, scratch: TokenizeScratch) -> None:
    """Join single characters of the routes to the words that the HMM finds in them.

    Characters that together are a word of the dictionary stay single, as in jieba.
    """
    nodes, code = trie.nodes, trie.code
    hmm_start, trans, emit = hmm.start, hmm.trans, hmm.emit
    ends, slots, back = scratch.next, scratch.slot, scratch.back
    at = 0
    while at < n:
        start = at
        while at < n and ends[at] == at + 1 and slots[at] != OUTSIDE:
            at += 1
        if at - start > 1 and walk(points, start, at, nodes, code) < 0:
            while start < at:
                end = _end_of_run(points, start, at)
                if end - start > 1:
                    if is_han(points[start]):
                        _cut_han(points, start, end, hmm_start, trans, emit, back, ends, slots)
                    else:
                        ends[start], slots[start] = end, -1
                start = end
        if at < n:
            at = ends[at]


@lean_helper
def _split_again(points: Points, n: int, trie: Trie, scratch: TokenizeScratch) -> None:
    """Split the HMM's words again that were removed from the dictionary."""
    ends, slots = scratch.next, scratch.slot
    at = 0
    while at < n:
        start, end = at, ends[at]
        at = end
        if end - start > 1 and slots[start] == -1 and is_han(points[start]) and is_split(points, start, end, trie):
            for single in range(start, end):
                ends[single] = single + 1


@lean_helper
def _join_letters(points: Points, n: int, scratch: TokenizeScratch) -> None:
    """Without the HMM: join single letters and digits of the routes."""
    ends, slots = scratch.next, scratch.slot
    at = 0
    while at < n:
        start = at
        while at < n and ends[at] == at + 1 and is_alnum(points[at]):
            at += 1
        if at - start > 1:
            ends[start], slots[start] = at, -1
        if at < n:
            at = ends[at]


@lean_helper
def _write(n: int, scratch: TokenizeScratch, ends: I32, slots: I32) -> int:
    """Write the tokens from the left, and return their number."""
    count, at = 0, 0
    while at < n:
        slots[count] = max(scratch.slot[at], -1)
        at = scratch.next[at]
        ends[count] = at
        count += 1
    return count


@lean_kernel
def cut(
    points: Points,
    n: int,
    trie: Trie,
    hmm: HiddenMarkovModel,
    use_hmm: bool,
    scratch: TokenizeScratch,
    ends: I32,
    slots: I32,
) -> int:
    """Cut the text `points[:n]` into jieba's tokens, and return their number.

    Writes each token's exclusive end into `ends` (at least n long); token i begins where token i - 1 ends. Writes
    into `slots` the slot of a token that the route through the dictionary chose as a word, else -1. A token with -1
    may still be a word (see `find`). Assumes `make_scratch` of at least n points, and code points below 0x110000.
    Cost: linear in time, without allocation and recursion.
    """
    _find_routes(points, n, trie, scratch)
    if use_hmm:
        _join_unknown(points, n, trie, hmm, scratch)
        if len(trie.split) > 0:
            _split_again(points, n, trie, scratch)
    else:
        _join_letters(points, n, scratch)
    return _write(n, scratch, ends, slots)
