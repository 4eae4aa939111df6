"""Reads lists of fingerprints: one decimal unsigned 64-bit number a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, Final

import numpy as np

from simstream.errors import InputError
from simstream.model import U64
from simstream.sources.lines import DAMAGE, cut_off

_PART_BYTES: Final = 1 << 22
_PLAIN: Final = b"0123456789\r\n"
_NUMBER: Final = re.compile(rb"[ \t\v\f]*([+-]?)([0-9]+)(?:\r?\Z|[ \t\v\f,][^\r]*\r?\Z)")
_MAX_VALUE: Final = (1 << 64) - 1


def read_parts(handle: IO[bytes], name: str) -> Iterator[U64]:
    """Yield the numbers of an open file in its order, some hundred thousand at a time.

    Reads a line as C's `strtoull` does: skips blanks before the number, and subtracts a negative number from 2^64.
    After the number, and a blank or a comma, there may be anything.
    Errors: InputError for the first line without a number of 64 bits, for a line whose end is not found within 4 to
    8 MB, and for a damaged file.
    Cost: about 0.3 us a line.
    """
    lines, begun = 0, b""
    try:
        while data := handle.read(_PART_BYTES):
            block, end, begun = (begun + data).rpartition(b"\n")
            if end:
                numbers = _numbers(block, name, lines)
                lines += len(numbers)
                yield numbers
            elif len(begun) > _PART_BYTES:
                what = f"line {lines + 1} of {name} has more than {_PART_BYTES:,} bytes"
                raise InputError(what, "give one decimal number a line")
        if begun:
            yield _numbers(begun, name, lines)
    except DAMAGE as error:
        raise cut_off(name, lines, error, kept="") from error


def read_fingerprints(handle: IO[bytes], name: str, heard: Callable[[int], None] = lambda lines: None) -> U64:
    """Return all numbers (n,) of an open file, in its order; see `read_parts`.

    `heard` hears how many lines were read. Memory: 8 bytes a line, and twice that while the parts are joined.
    """
    parts: list[U64] = [np.empty(0, np.uint64)]
    lines = 0
    for part in read_parts(handle, name):
        parts.append(part)
        lines += len(part)
        heard(lines)
    return np.concatenate(parts)


def _numbers(block: bytes, name: str, before: int) -> U64:
    """Return the numbers of whole lines; the last has no end. `before`: the lines before them."""
    part = block.split(b"\n")
    ends_whole = block.count(b"\r") == block.count(b"\r\n") + block.endswith(b"\r")
    if ends_whole and not block.translate(None, _PLAIN):
        try:
            return np.fromiter(map(int, part), np.uint64, len(part))
        except (ValueError, OverflowError):
            pass  # a blank line, or too large a number: the slow way says which
    values = (_number(line, name, number) for number, line in enumerate(part, before + 1))
    return np.fromiter(values, np.uint64, len(part))


def _number(line: bytes, name: str, number: int) -> int:
    found = _NUMBER.match(line)
    # 20 digits are enough for 64 bits; int() raises another error for thousands of digits.
    digits = found[2].lstrip(b"0") if found else b""
    if found is None or len(digits) > 20 or int(digits or b"0") > _MAX_VALUE:
        shown = line[:40].decode("utf-8", "replace").strip()
        raise InputError(
            f"line {number} of {name} is not an unsigned 64-bit number ({shown!r})",
            "give one decimal number a line",
        )
    value = int(digits or b"0")
    return -value & _MAX_VALUE if found[1] == b"-" else value
