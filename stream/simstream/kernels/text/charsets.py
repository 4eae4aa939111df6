"""Turns charsets of single bytes, and five East Asian ones, into UTF-8.

Python's decoders of the latter hold the GIL and cost as much as the search for the article. The tables of a charset
come from Python's own decoder. A fault is one byte, or an unfinished character at the end, and can become one
U+FFFD, as in Python. GB18030's four bytes from U+10000 on need no table: the code points rise as the bytes do.
Python must decode the whole page if it has a pair that stands for two characters or for one beyond U+FFFF.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.charset_codecs import EAST_ASIAN_CODECS, single_byte_characters
from simstream.kernels.bits import LANES, at_most_64, copy_64
from simstream.kernels.jit import lean_helper, lean_kernel
from simstream.kernels.text.fold import REPLACEMENT
from simstream.kernels.text.utf8 import copy_ascii, write_point

_TO_PYTHON, _INVALID, _SINGLE = 0, 1, 2
"""Marks of a pair, below every code point beyond ASCII. _TO_PYTHON: it begins a longer character, or the tables
cannot hold it. _INVALID: its first byte is a fault. _SINGLE: its first byte alone is a character or a fault."""
_NOT_READ: Final = -(1 << 62)
"""The result for bytes that Python must decode, below each of a fault."""
_FAULT: Final = 1 << 31
_NARROW_FOURS: Final = 39_420
"""GB18030's four bytes with a lower number stand for the characters below U+10000 that no pair stands for."""
_FIRST_WIDE_FOUR: Final = 189_000
"""The number of the four bytes of U+10000. From there on the numbers rise as the code points do."""
_ROW: Final = 94
"""EUC-JP's three bytes: 0x8F, and two from 0xA1 on, each of so many."""


class EastAsianTables(NamedTuple):
    """The code points of a charset's characters beyond ASCII, and marks."""

    pairs: NDArray[np.uint16]
    """(128, 256) by first byte less 128 and second byte: a code point or a mark. Column 0 is for the first byte
    alone, as no pair has a second byte 0."""
    longer: NDArray[np.uint16]
    """(39420,) by the number of GB18030's four bytes, or (8836,) by that of EUC-JP's three: a code point or
    _INVALID; (0,) for the other charsets."""


def to_utf8(raw: bytes, codec: str, errors: Literal["strict", "replace"] = "strict") -> bytes | None:
    """Return `raw.decode(codec, errors)` in UTF-8; None if Python must decode it.

    With "strict", raises UnicodeDecodeError at the first fault; LookupError for a codec that Python lacks. Holds no
    GIL. Cost: .5 ns a byte of a charset of single bytes; of the others .1 ns a byte of ASCII, 1.2 ns a byte of a
    pair. The first call for a codec makes its tables: up to 66 KB and 1.5 ms; for GB18030 144 KB and 4 ms.
    """
    tables = _tables(codec)
    if tables is None:
        return None
    page, utf8 = np.frombuffer(raw, np.uint8), np.empty(3 * len(raw) + LANES, np.uint8)
    if isinstance(tables, EastAsianTables):
        size = _read_east_asian(page, tables.pairs, tables.longer, errors == "replace", utf8)
    else:
        size = _read_single_bytes(page, tables, errors == "replace", utf8)
    if size == _NOT_READ:
        return None
    if size < 0:
        raise UnicodeDecodeError(codec, raw, ~size, ~size + 1, "no character begins with these bytes")
    return utf8[:size].tobytes()


@cache
def _tables(codec: str) -> EastAsianTables | NDArray[np.uint32] | None:
    """Return the tables of an East Asian charset, or the UTF-8 of each byte; None if Python decodes this codec."""
    if codec in EAST_ASIAN_CODECS:
        return EastAsianTables(_make_pairs(codec), _make_longer(codec))
    characters = single_byte_characters(codec)
    if characters is None or characters[:128] != bytes(range(128)).decode("ascii"):
        return None
    return np.array([_packed(character) for character in characters], np.uint32)


def _packed(character: str) -> int:
    """Return up to three bytes of UTF-8 from the lowest on, above them their number, and _FAULT for U+FFFD."""
    utf8 = character.encode()
    return int.from_bytes(utf8, "little") | len(utf8) << 24 | (_FAULT if character == "\ufffd" else 0)


def _make_pairs(codec: str) -> NDArray[np.uint16]:
    leads, trails = np.divmod(np.arange(1 << 15), 256)
    trails[trails == 10] = 11  # neither is a second byte
    first, size = _read_lines([leads + 128, trails], codec)
    # A newline is no second byte, and so many of them end any character that the lead begins.
    alone = np.array([ord(bytes((lead, 10, 10, 10)).decode(codec, "replace")[0]) for lead in range(128, 256)])
    kinds = np.where(first == REPLACEMENT, _INVALID, np.where(first == alone[leads], _SINGLE, _TO_PYTHON))
    is_pair = (size == 1) & (first >= 0x80) & (first <= 0xFFFF)
    pairs = np.where(is_pair, first, kinds).astype(np.uint16).reshape(128, 256)
    pairs[:, 0] = np.where(alone == REPLACEMENT, _INVALID, alone)
    if codec == "gb18030":
        pairs[:, 0x30:0x3A] = _TO_PYTHON
    elif codec == "euc_jp":
        pairs[0x8F - 128] = _TO_PYTHON
    return pairs


def _make_longer(codec: str) -> NDArray[np.uint16]:
    if codec == "gb18030":
        rest, fourth = np.divmod(np.arange(_NARROW_FOURS), 10)
        rest, third = np.divmod(rest, 126)
        first, second = np.divmod(rest, 10)
        columns = [0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth]
    elif codec == "euc_jp":
        second, third = np.divmod(np.arange(_ROW * _ROW), _ROW)
        columns = [np.full(_ROW * _ROW, 0x8F), 0xA1 + second, 0xA1 + third]
    else:
        return np.empty(0, np.uint16)
    points, size = _read_lines(columns, codec)
    return np.where(size == 1, points, _INVALID).astype(np.uint16)


def _read_lines(columns: list[NDArray[np.int64]], codec: str) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the first code point and the number of them, (n,) each, of n lines of bytes without newlines."""
    lines = np.stack([*columns, np.full(len(columns[0]), 10)], axis=1).astype(np.uint8).tobytes()
    points = np.frombuffer((lines + b"\n\n\n").decode(codec, "replace").encode("utf-32-le"), np.uint32)
    ends = np.flatnonzero(points == 10)[: len(columns[0])]
    begins = np.append(0, ends[:-1] + 1)
    return points[begins], ends - begins


@lean_helper
def _three_point(raw: NDArray[np.uint8], i: int, threes: NDArray[np.uint16]) -> int:
    """Return the code point of EUC-JP's three bytes from `i` on, or _INVALID."""
    second, third = int(raw[i + 1]) - 0xA1, int(raw[i + 2]) - 0xA1
    return int(threes[_ROW * second + third]) if 0 <= second < _ROW and 0 <= third < _ROW else _INVALID


@lean_helper
def _four_point(raw: NDArray[np.uint8], i: int, fours: NDArray[np.uint16]) -> int:
    """Return the code point of GB18030's four bytes from `i` on, or _INVALID."""
    first, second, third, fourth = int(raw[i]), int(raw[i + 1]), int(raw[i + 2]), int(raw[i + 3])
    if not (0x30 <= second <= 0x39 and 0x81 <= third <= 0xFE and 0x30 <= fourth <= 0x39 and 0x81 <= first <= 0xFE):
        return _INVALID
    number = (((first - 0x81) * 10 + second - 0x30) * 126 + third - 0x81) * 10 + fourth - 0x30
    if number < _NARROW_FOURS:
        return int(fours[number])
    beyond = number - _FIRST_WIDE_FOUR
    return 0x10000 + beyond if 0 <= beyond < 0x100000 else _INVALID


@lean_helper
def _character(
    raw: NDArray[np.uint8], i: int, pairs: NDArray[np.uint16], longer: NDArray[np.uint16]
) -> tuple[int, int]:
    """Return the code point, or _INVALID or _TO_PYTHON, and the length of the character or fault at `i`.

    `raw[i]` is not ASCII.
    """
    trail = int(raw[i + 1]) if i + 1 < raw.size else 0
    pair = int(pairs[raw[i] - 128, trail])
    if pair == _TO_PYTHON and longer.size:
        size = 3 if longer.size == _ROW * _ROW else 4
        if i + size > raw.size:
            return _INVALID, raw.size - i
        point = _three_point(raw, i, longer) if size == 3 else _four_point(raw, i, longer)
        return point, 1 if point == _INVALID else size
    if pair == _SINGLE or trail == 0:
        return int(pairs[raw[i] - 128, 0]), 1
    return pair, 1 if pair == _INVALID else 2


@lean_kernel
def _read_single_bytes(
    raw: NDArray[np.uint8], packed: NDArray[np.uint32], replace_faults: bool, utf8: NDArray[np.uint8]
) -> int:
    """Do what `_read_east_asian` does, by a table of the UTF-8 of each byte, without a branch for each."""
    i, to, end = 0, 0, raw.size
    while i < end:
        if i + LANES <= end and at_most_64(raw, i, 0x7F) == ~np.uint64(0):
            copy_64(raw, i, utf8, to)
            i += LANES
            to += LANES
            continue
        begin, stop, seen = i, min(i + LANES, end), np.uint32(0)
        while i < stop:
            bits = packed[raw[np.uint64(i)]]
            utf8[np.uint64(to)], utf8[np.uint64(to + 1)], utf8[np.uint64(to + 2)] = bits, bits >> 8, bits >> 16
            to += bits >> 24 & 3
            seen |= bits
            i += 1
        if seen & _FAULT and not replace_faults:
            while packed[raw[begin]] & _FAULT == 0:
                begin += 1
            return ~begin
    return to


@lean_kernel
def _read_east_asian(
    raw: NDArray[np.uint8],
    pairs: NDArray[np.uint16],
    longer: NDArray[np.uint16],
    replace_faults: bool,
    utf8: NDArray[np.uint8],
) -> int:
    """Write `raw` as UTF-8 and return the number of bytes; or _NOT_READ, or ~i for a fault at `i`.

    `utf8` has room for 3 * raw.size + LANES bytes. With `replace_faults` a fault becomes U+FFFD.
    """
    i, to, end = 0, 0, raw.size
    while i < end:
        byte = raw[i]
        if byte < 0x80:
            run = copy_ascii(raw, i, utf8, to)
            i += run
            to += run
            continue
        pair = pairs[byte - 128, raw[i + 1]] if i + 1 < end and raw[i + 1] != 0 else np.uint16(0)
        if pair >= 0x800:  # nearly all characters of an East Asian page
            utf8[to] = 0xE0 | pair >> 12
            utf8[to + 1] = 0x80 | pair >> 6 & 0x3F
            utf8[to + 2] = 0x80 | pair & 0x3F
            to += 3
            i += 2
            continue
        point, size = _character(raw, i, pairs, longer)
        if point == _TO_PYTHON:
            return _NOT_READ
        if point == _INVALID:
            if not replace_faults:
                return ~i
            point = REPLACEMENT
        to = write_point(utf8, to, point)
        i += size
    return to
