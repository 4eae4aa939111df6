"""Finds words that tell what an element is for in its `class`, `id`, `role` and `itemprop`, all words in one
pass.

Source of the method: the automaton of Alfred Aho and Margaret Corasick, "Efficient string matching", 1975.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.tags import HtmlBytes
from simstream.kernels.jit import lean_helper

NAVIGATION: Final = 1 << 0
FOOT: Final = 1 << 1
COMMENTS: Final = 1 << 2
RELATED: Final = 1 << 3
SHARING: Final = 1 << 4
ADVERTISING: Final = 1 << 5
SIDE: Final = 1 << 6
ABOUT: Final = 1 << 7
"""About the article: author, date, source, caption."""

WORD_LISTS: Final = (
    (
        NAVIGATION,
        "nav menu crumb toolbar topbar ^tabs^ pagination pager skip^ skip-link daohang mbx navbar topnav ^toc^",
    ),
    (FOOT, "footer ^foot^ copyright colophon bottom legal disclaimer banquan"),
    (COMMENTS, "comment disqus replies ^reply respond discuss pinglun guestbook"),
    (
        RELATED,
        "related recommend similar popular trending ^latest readmore read-more ^more^ most-read ^hot rank tuijian"
        " xiangguan xgwz promoted teaser also-like outbrain taboola recirc ^rec^ next-article prev-next ^links^",
    ),
    (
        SHARING,
        "share sharing social follow subscri newsletter signup sign-up login ^tags^ ^tag^ taglist donate fenxiang"
        " bdshare weixin qrcode erweima ^tools^ print feedback",
    ),
    (
        ADVERTISING,
        "^ad^ ^ads^ advert sponsor promo banner popup modal cookie consent gdpr paywall guanggao dfp ^gg^",
    ),
    (SIDE, "sidebar ^side^ ^side ^aside rail^ widget ^right^ ^left^ column-right col-right"),
    (ABOUT, "author byline ^meta^ metadata post-meta caption timestamp ^date^ ^time^ ^source^ ^info^ ^bio^ credit"),
)
"""Words by flag. `^`, `-` and `_` stand for any sign that is no letter, or an end of the value."""
_CLASSES: Final = 27
_ROW: Final = 32
_FLAGS: Final = 27


class ClassTables(NamedTuple):
    """The automaton. State 0 has matched nothing.

    A value begins in state `follows[0, 0]`, as after a sign that is no letter.
    """

    follows: NDArray[np.int16]  # (states, 27): the next state by letter; letter 0 is all that is no letter
    flags: NDArray[np.int64]  # (states,): what has been found when this state is reached
    letters: NDArray[np.uint8]  # (256,): 1 to 26, or 0


class ClassWords(NamedTuple):
    """The automaton as the kernel takes it: a state is the place of its row, and a row is one line of the cache."""

    rows: NDArray[np.uint16]  # (states * _ROW,): the next state by letter, and in _FLAGS what has been found
    letters: NDArray[np.uint8]  # (256,): 1 to 26, or 0


def _letters() -> NDArray[np.uint8]:
    letters = np.zeros(256, np.uint8)
    for i in range(26):
        letters[65 + i] = letters[97 + i] = i + 1
    return letters


def _automaton() -> ClassTables:
    letters = _letters()
    follows: list[dict[int, int]] = [{}]
    flags = [0]
    for flag, words in WORD_LISTS:
        for word in words.split():
            state = 0
            for byte in word.encode():
                letter = int(letters[byte])
                if letter not in follows[state]:
                    follows[state][letter] = len(follows)
                    follows.append({})
                    flags.append(0)
                state = follows[state][letter]
            flags[state] |= flag
    table = np.zeros((len(follows), _CLASSES), np.int16)
    back = [0] * len(follows)
    waiting = deque([0])
    while waiting:
        state = waiting.popleft()
        flags[state] |= flags[back[state]]
        for letter in range(_CLASSES):
            after = follows[state].get(letter)
            if after is None:
                table[state, letter] = table[back[state], letter] if state else 0
                continue
            table[state, letter] = after
            back[after] = int(table[back[state], letter]) if state else 0
            waiting.append(after)
    return ClassTables(table, np.array(flags, np.int64), letters)


def _in_rows(tables: ClassTables) -> ClassWords:
    size = len(tables.flags) * _ROW
    room = np.zeros(size + _ROW, np.uint16)
    begin = -room.ctypes.data % (2 * _ROW) // 2  # where a line of the cache begins
    rows = room[begin : begin + size].reshape(-1, _ROW)
    rows[:, :_CLASSES] = tables.follows.astype(np.uint16) * _ROW
    rows[:, _FLAGS] = tables.flags
    return ClassWords(rows.ravel(), tables.letters)


CLASS_TABLES: Final = _automaton()
CLASS_WORDS: Final = _in_rows(CLASS_TABLES)


@lean_helper
def class_flags(html: HtmlBytes, start: int, end: int, words: ClassWords) -> int:
    """Return the flags of all words in these bytes. Cost: 1 ns a byte."""
    rows, state, found = words.rows, np.uint64(words.rows[0]), np.uint64(0)
    for at in range(start, end):
        state = np.uint64(rows[state + words.letters[html.bytes[np.uint64(at)]]])
        found |= np.uint64(rows[state + np.uint64(_FLAGS)])
    state = np.uint64(rows[state])
    return int(found | rows[state + np.uint64(_FLAGS)])
