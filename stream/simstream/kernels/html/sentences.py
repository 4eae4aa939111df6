"""Measures a line of text as `extraction.prose` does: its width, and its marks of sentences. The limits are for
both."""

from __future__ import annotations

from typing import Final

import numpy as np

from simstream.kernels.bits import LANES, equal_64, lowest
from simstream.kernels.html.tags import Bytes
from simstream.kernels.jit import inlined, lean_helper

MIN_LINE_WIDTH: Final = 30
"""Width of a line that may be prose: 15 letters of Chinese, 30 of English."""
MIN_PROSE_WIDTH: Final = 200
"""The least width of all prose; if a page has less, all that was extracted counts."""
MIN_SHARE: Final = 5
"""The least share of prose, one part in so many; below it all that was extracted counts, as on a page of tables."""


_MIN_LANE_LINE_BYTES: Final = 8
"""A shorter line is looked at byte by byte: that costs less than 64 bytes at once."""


def _may_mark() -> Bytes:
    """Return for each byte whether a mark may begin with it."""
    found = np.zeros(256, np.uint8)
    found[[*b"!,.;?", 0xD8, 0xE0, 0xE2, 0xE3, 0xEF]] = 1
    return found


_MAY_MARK: Final = _may_mark()


@lean_helper
def twice_width(text: Bytes, start: int, end: int) -> int:
    """Return the characters and bytes of a line of UTF-8 together. Cost: .1 ns a byte."""
    characters = 0
    for at in range(start, end):
        characters += text[np.uint64(at)] & 0xC0 != 0x80
    return characters + end - start


@lean_helper
def count_marks(text: Bytes, start: int, end: int) -> int:
    """Return the marks of sentences in a line of UTF-8. The array must go on for 64 bytes behind the line.

    Cost: .3 ns a byte, and 3 ns for each byte that may begin one.
    """
    marks = 0
    if end - start < _MIN_LANE_LINE_BYTES:
        for at in range(start, end):
            if _MAY_MARK[np.uint64(text[np.uint64(at)])]:
                marks += _is_mark_at(text, at, end)
        return marks
    for at in range(start, end, LANES):
        may_mark = _may_mark_64(text, at)
        if end - at < LANES:
            may_mark &= (np.uint64(1) << np.uint64(end - at)) - np.uint64(1)
        while may_mark:
            marks += _is_mark_at(text, at + lowest(may_mark), end)
            may_mark &= may_mark - np.uint64(1)
    return marks


@inlined
def _may_mark_64(text: Bytes, at: int) -> np.uint64:
    """Return a bit for each of 64 bytes with which a mark may begin."""
    mask = equal_64(text, at, 33) | equal_64(text, at, 44) | equal_64(text, at, 46)  # ! , .
    mask |= equal_64(text, at, 59) | equal_64(text, at, 63)  # ; ?
    mask |= equal_64(text, at, 0xD8) | equal_64(text, at, 0xE0) | equal_64(text, at, 0xE2)
    return mask | equal_64(text, at, 0xE3) | equal_64(text, at, 0xEF)


@lean_helper
def _is_mark_at(text: Bytes, at: int, end: int) -> bool:
    """Whether a mark of a sentence begins here."""
    byte = text[at]
    if byte == 46:
        return at + 1 == end or _ends_word(text, at + 1, end)
    if byte < 0x80:
        return at + 1 == end or not 48 <= text[at + 1] <= 57
    if byte == 0xD8:
        return at + 1 < end and text[at + 1] in (0x8C, 0x9B, 0x9F)
    return at + 2 < end and _is_mark(byte, text[at + 1], text[at + 2])


@lean_helper
def _ends_word(text: Bytes, at: int, end: int) -> bool:
    """Whether a space, a quotation mark or a bracket stands here."""
    byte = text[at]
    if byte == 0xE2 and at + 2 < end:
        return text[at + 1] == 0x80 and text[at + 2] in (0x99, 0x9D)
    return byte <= 32 or byte in (34, 39, 41, 93)


@lean_helper
def _is_mark(first: int, second: int, third: int) -> bool:
    """Whether three bytes are a mark of a sentence: `，。！？；…` or `।`."""
    if first == 0xEF:
        return second == 0xBC and third in (0x8C, 0x81, 0x9F, 0x9B)
    if first == 0xE3:
        return second == 0x80 and third == 0x82
    if first == 0xE2:
        return second == 0x80 and third == 0xA6
    return second == 0xA5 and third == 0xA4
