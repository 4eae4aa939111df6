"""Composes letters and their marks, as Unicode's normalization form C does, so that one text has one form.

A letter with a mark, such as é, is one code point or two. Pages come in both forms: windows-1258 and some keyboards
write two. Source of the method: Unicode Standard Annex 15.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import inlined, lean_helper, lean_kernel
from simstream.kernels.text.fold import fold_utf8
from simstream.kernels.text.trie import Points

MAX_REORDERED: Final = 16
"""A mark moves before at most so many others. Thus a text of marks costs no more than a constant for each."""
CLASS: Final = 0xFF
JOINS: Final = 1 << 8
NEVER_COMPOSED: Final = 1 << 9
_LEADS, _VOWELS, _TAILS, _SYLLABLES = 0x1100, 0x1161, 0x11A7, 0xAC00
_VOWEL_COUNT, _TAIL_COUNT, _SYLLABLE_COUNT = 21, 28, 11_172


class Composition(NamedTuple):
    """The folded characters that have a part in composing; all arrays are empty if texts stay as they are."""

    rows: NDArray[np.uint16]
    """(0x110000,) the row of a character in the next two arrays; 0 for a character that never changes."""
    kinds: NDArray[np.uint16]
    """(n,) the canonical combining class, with JOINS if a character before it may be composed with it, and with
    NEVER_COMPOSED if form C always has its parts instead."""
    parts: NDArray[np.uint32]
    """(n, 4) the full canonical decomposition, and 0 behind it; 0 for none."""
    pairs: NDArray[np.uint64]
    """(m,) two characters that become one, first << 32 | second, in ascending order."""
    composed: NDArray[np.uint32]
    """(m,) what each pair becomes."""


def room_for(size: int) -> int:
    """Return how many code points `fold_page` needs for a page of `size` bytes: parts may be more than bytes."""
    return size + size // 3 + 4


@inlined
def _kind(point: np.uint32, composition: Composition) -> int:
    return int(composition.kinds[composition.rows[point]])


@lean_helper
def _put(points: Points, to: int, point: np.uint32, composition: Composition) -> int:
    """Write a character at `to`, a mark before the marks of a greater class; return the end."""
    own, at = _kind(point, composition) & CLASS, to
    if own:
        least = max(0, to - MAX_REORDERED)
        while at > least and _kind(points[at - 1], composition) & CLASS > own:
            points[at] = points[at - 1]
            at -= 1
    points[at] = point
    return to + 1


@lean_helper
def _take_apart(points: Points, at: int, start: int, composition: Composition) -> int:
    """Move `points[at:]` to `start`: letters before marks as their parts, and marks in order. Return the end."""
    to, end = start, points.size
    while at < end:
        point = points[at]
        at += 1
        row = composition.rows[point]
        joined = at < end and _kind(points[at], composition) & JOINS != 0
        if composition.parts[row, 0] and (joined or composition.kinds[row] & NEVER_COMPOSED):
            for i in range(4):
                if composition.parts[row, i]:
                    to = _put(points, to, composition.parts[row, i], composition)
        else:
            to = _put(points, to, point, composition)
    return to


@lean_helper
def _pair(first: np.uint32, second: np.uint32, composition: Composition) -> np.uint32:
    """Return what two characters become; 0 if they stay two."""
    vowel, tail = int(second) - _VOWELS, int(second) - _TAILS
    lead, syllable = int(first) - _LEADS, int(first) - _SYLLABLES
    if 0 <= vowel < _VOWEL_COUNT:
        is_lead = 0 <= lead < _SYLLABLE_COUNT // (_VOWEL_COUNT * _TAIL_COUNT)
        return np.uint32(_SYLLABLES + (lead * _VOWEL_COUNT + vowel) * _TAIL_COUNT if is_lead else 0)
    if 0 < tail < _TAIL_COUNT:
        is_open = 0 <= syllable < _SYLLABLE_COUNT and syllable % _TAIL_COUNT == 0
        return np.uint32(int(first) + tail if is_open else 0)
    wanted = np.uint64(first) << np.uint64(32) | np.uint64(second)
    low, high = 0, composition.pairs.size
    while low < high:
        middle = (low + high) >> 1
        if composition.pairs[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    is_found = low < composition.pairs.size and composition.pairs[low] == wanted
    return composition.composed[low] if is_found else np.uint32(0)


@lean_helper
def _join(points: Points, start: int, end: int, composition: Composition) -> int:
    """Compose `points[start:end]`, whose marks are in order, in place; return the end."""
    to, starter, last = start, -1, 0
    for at in range(start, end):
        point = points[at]
        kind = _kind(point, composition)
        own = kind & CLASS
        if kind & JOINS and starter >= 0 and (to - 1 == starter or last < own):
            joined = _pair(points[starter], point, composition)
            if joined:
                points[starter] = joined
                continue
        if own == 0:
            starter = to
        last = own
        points[to] = point
        to += 1
    return to


@lean_kernel
def fold_page(
    utf8: NDArray[np.uint8],
    start: int,
    end: int,
    fold: NDArray[np.uint32],
    composition: Composition,
    points: Points,
) -> int:
    """Write the folded and composed code points of `utf8[start:end]` to `points`, and return how many.

    Without a composition it is `fold_utf8`. With one, `points` has room for `room_for(end - start)`. The result has
    no more code points than bytes. Cost: linear; 1 ns a character, and some 10 ns for each letter with marks.
    """
    n = fold_utf8(utf8, start, end, fold, points)
    if composition.rows.size == 0:
        return n
    at = 0
    while at < n and _kind(points[at], composition) & (JOINS | NEVER_COMPOSED) == 0:
        at += 1
    if at == n:
        return n
    at = max(at - 1, 0)  # the letter before the first mark
    # The rest goes to the end of the room, as its parts may need more room than itself.
    shift = points.size - n
    for i in range(n - 1, at - 1, -1):
        points[i + shift] = points[i]
    return min(_join(points, at, _take_apart(points, at + shift, at, composition), composition), end - start)
