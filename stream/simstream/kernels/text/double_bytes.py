"""Turns charsets of one or two bytes a character, as older East Asian pages have them, into UTF-8.

Python's decoders of these charsets hold the GIL and cost as much as the search for the article. The table of a
charset's pairs comes from Python's own decoder. Whatever is no ASCII and no pair of the table is left to it:
GB18030's four bytes, three bytes of EUC-JP, single bytes of half-width kana, pairs of two characters or beyond
U+FFFF, and all that is invalid.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.bits import LANES, at_most_64, copy_64, lowest
from simstream.kernels.jit import lean_kernel

DOUBLE_BYTE_CODECS: Final = ("gb18030", "big5hkscs", "cp949", "cp932", "euc_jp")
"""Python's names of these charsets. Bytes below 128 are ASCII in each."""
_LEADS: Final = range(0x81, 0xFF)
_TRAILS: Final = range(0x40, 0xFF)
_ALL: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def to_utf8(raw: bytes, codec: str) -> bytes | None:
    """Return the text that Python's strict decoder reads, in UTF-8; None if `raw` has more than ASCII and pairs.

    `codec` is one of DOUBLE_BYTE_CODECS. Holds no GIL. Cost: .1 ns a byte of ASCII, 1.5 ns a byte of a pair. The
    first call for a codec makes its table: 10 ms and 64 KB.
    """
    utf8 = np.empty(len(raw) + len(raw) // 2 + LANES, np.uint8)
    size = _to_utf8(np.frombuffer(raw, np.uint8), _points(codec), utf8)
    return None if size < 0 else utf8[:size].tobytes()


@cache
def _points(codec: str) -> NDArray[np.uint16]:
    """Return the code points (128, 256) of all pairs, by first byte less 128 and second byte. 0: the pair has no
    single character of at most 16 bits."""
    points = np.zeros((128, 256), np.uint16)
    for lead in _LEADS:
        for trail in _TRAILS:
            try:
                text = bytes((lead, trail)).decode(codec)
            except UnicodeDecodeError:
                continue
            if len(text) == 1 and 0x80 <= ord(text) <= 0xFFFF:
                points[lead - 128, trail] = ord(text)
    return points


@lean_kernel
def _to_utf8(raw: NDArray[np.uint8], points: NDArray[np.uint16], utf8: NDArray[np.uint8]) -> int:
    """Write `raw` as UTF-8; return the number of bytes, or -1. `utf8` has half as many bytes more, and LANES."""
    i, to, end = 0, 0, raw.size
    while i < end:
        byte = raw[i]
        if byte < 0x80:
            if i + LANES <= end:
                others = ~at_most_64(raw, i, np.uint8(0x7F)) & _ALL
                run = lowest(others) if others else LANES
                copy_64(raw, i, utf8, to)
            else:
                run = 1
                utf8[to] = byte
            i += run
            to += run
            continue
        if i + 1 == end:
            return -1
        point = points[byte - 128, raw[i + 1]]
        if point == 0:
            return -1
        if point < 0x800:
            utf8[to] = 0xC0 | point >> 6
        else:
            utf8[to] = 0xE0 | point >> 12
            to += 1
            utf8[to] = 0x80 | point >> 6 & 0x3F
        utf8[to + 1] = 0x80 | point & 0x3F
        i += 2
        to += 2
    return to
