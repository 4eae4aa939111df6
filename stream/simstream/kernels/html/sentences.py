"""Measures a line of text as `extraction.prose` does: its width, and its marks of sentences. The limits are for
both."""

from __future__ import annotations

from typing import Final

import numpy as np

from simstream.kernels.html.tags import Bytes
from simstream.kernels.jit import lean_helper

MIN_LINE_WIDTH: Final = 30
"""Width of a line that may be prose: 15 letters of Chinese, 30 of English."""
MIN_PROSE_WIDTH: Final = 200
"""The least width of all prose; if a page has less, all that was extracted counts."""
MIN_SHARE: Final = 5
"""The least share of prose, one part in so many; below it all that was extracted counts, as on a page of tables."""
_MAY_MARK: Final = np.array([byte in b",;!?.\xef\xe3\xe2\xe0\xd8" for byte in range(256)])
"""Bytes that may begin a mark of a sentence."""


@lean_helper
def measure(text: Bytes, start: int, end: int) -> tuple[int, int]:
    """Return the characters and bytes of a line of UTF-8 together, and its marks of sentences."""
    characters, marks = 0, 0
    for at in range(start, end):
        characters += text[np.uint64(at)] & 0xC0 != 0x80
    for at in range(start, end):
        byte = text[np.uint64(at)]
        if not _MAY_MARK[byte]:
            continue
        if byte < 0x80:
            if byte in (44, 59, 33, 63):  # , ; ! ?
                marks += at + 1 == end or not 48 <= text[at + 1] <= 57
            elif byte == 46:
                marks += at + 1 == end or _ends_word(text, at + 1, end)
        elif byte == 0xD8:
            marks += at + 1 < end and text[at + 1] in (0x8C, 0x9B, 0x9F)
        elif at + 2 < end:
            marks += _is_mark(byte, text[at + 1], text[at + 2])
    return characters + end - start, marks


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
