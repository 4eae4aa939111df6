"""Turns older East Asian charsets, most of whose characters have one or two bytes, into UTF-8.

Python's decoders of these charsets hold the GIL and cost as much as the search for the article. The tables of a
charset come from Python's own decoder. GB18030's four bytes from U+10000 on need none: the code points rise as the
bytes do. All else is left to Python: three bytes of EUC-JP, pairs of two characters or beyond U+FFFF, and all that
is invalid.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.bits import LANES, at_most_64, copy_64, lowest
from simstream.kernels.jit import lean_helper, lean_kernel

DOUBLE_BYTE_CODECS: Final = ("gb18030", "big5hkscs", "cp949", "cp932", "euc_jp")
"""Python's names of these charsets. Bytes below 128 are ASCII in each."""
_LEADS: Final = range(0x81, 0xFF)
_TRAILS: Final = range(0x40, 0xFF)
_ALL: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_FOURS: Final = 39_420
"""GB18030's four bytes with a lower number stand for characters below U+10000, but for those of two bytes."""
_WIDE: Final = 189_000
"""The number of the four bytes of U+10000. From there on the numbers rise as the code points do."""


class CodecTables(NamedTuple):
    """The code points of a charset's characters beyond ASCII; 0: there is no single one of at most 16 bits."""

    pairs: NDArray[np.uint16]
    """(128, 256) by first byte less 128 and second byte. Second byte 0, which no pair has: the first byte alone."""
    fours: NDArray[np.uint16]
    """(39420,) by the number of the four bytes; (0,) for all but GB18030."""


def to_utf8(raw: bytes, codec: str) -> bytes | None:
    """Return the text that Python's strict decoder reads, in UTF-8; None if `raw` has what is left to it.

    `codec` is one of DOUBLE_BYTE_CODECS. Holds no GIL. Cost: .1 ns a byte of ASCII, 1.5 ns a byte of a pair. The
    first call for a codec makes its tables: 10 ms and 66 KB, and for GB18030 40 ms and 144 KB.
    """
    tables = _tables(codec)
    utf8 = np.empty(3 * len(raw) + LANES, np.uint8)
    size = _to_utf8(np.frombuffer(raw, np.uint8), tables.pairs, tables.fours, utf8)
    return None if size < 0 else utf8[:size].tobytes()


@cache
def _tables(codec: str) -> CodecTables:
    pairs = np.zeros((128, 256), np.uint16)
    for lead in range(0x80, 0x100):
        pairs[lead - 128, 0] = _point(bytes([lead]), codec)
        for trail in _TRAILS if lead in _LEADS else ():
            pairs[lead - 128, trail] = _point(bytes((lead, trail)), codec)
    fours = (_point(_four(number), codec) for number in range(_FOURS if codec == "gb18030" else 0))
    return CodecTables(pairs, np.fromiter(fours, np.uint16))


def _point(raw: bytes, codec: str) -> int:
    """Return the code point of the single character, beyond ASCII and of at most 16 bits, that `raw` is; else 0."""
    try:
        text = raw.decode(codec)
    except UnicodeDecodeError:
        return 0
    return ord(text) if len(text) == 1 and 0x80 <= ord(text) <= 0xFFFF else 0


def _four(number: int) -> bytes:
    """Return GB18030's four bytes with this number."""
    rest, fourth = divmod(number, 10)
    rest, third = divmod(rest, 126)
    first, second = divmod(rest, 10)
    return bytes((0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth))


@lean_helper
def _four_point(raw: NDArray[np.uint8], i: int, fours: NDArray[np.uint16]) -> int:
    """Return the code point of the four bytes from `i` on; 0 if they are not a character."""
    if i + 4 > raw.size or len(fours) == 0:
        return 0
    first, second, third, fourth = int(raw[i]), int(raw[i + 1]), int(raw[i + 2]), int(raw[i + 3])
    if not (0x30 <= second <= 0x39 and 0x81 <= third <= 0xFE and 0x30 <= fourth <= 0x39 and 0x81 <= first <= 0xFE):
        return 0
    number = (((first - 0x81) * 10 + second - 0x30) * 126 + third - 0x81) * 10 + fourth - 0x30
    if number < _FOURS:
        return int(fours[number])
    return number - _WIDE + 0x10000 if _WIDE <= number < _WIDE + 0x100000 else 0


@lean_kernel
def _to_utf8(
    raw: NDArray[np.uint8], pairs: NDArray[np.uint16], fours: NDArray[np.uint16], utf8: NDArray[np.uint8]
) -> int:
    """Write `raw` as UTF-8; return the number of bytes, or -1. `utf8` has room for three bytes each, and LANES."""
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
        point, size = int(pairs[byte - 128, raw[i + 1]]) if i + 1 < end else 0, 2
        if point == 0 or raw[i + 1] == 0:
            point, size = int(pairs[byte - 128, 0]), 1
        if point == 0:
            point, size = _four_point(raw, i, fours), 4
        if point == 0:
            return -1
        if point < 0x800:
            utf8[to] = 0xC0 | point >> 6
        else:
            if point < 0x10000:
                utf8[to] = 0xE0 | point >> 12
            else:
                utf8[to] = 0xF0 | point >> 18
                to += 1
                utf8[to] = 0x80 | point >> 12 & 0x3F
            to += 1
            utf8[to] = 0x80 | point >> 6 & 0x3F
        utf8[to + 1] = 0x80 | point & 0x3F
        i += size
        to += 2
    return to
