"""Finds where each record of a whole WARC begins and ends in its file, to copy it unchanged."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

MAX_LINE_ENDS: Final = 16
"""The most bytes of line ends behind a record. The standard says four, and some files have more."""
_HEAD_BYTES: Final = 1 << 17
_STEP_BYTES: Final = 1 << 16
_HEAD: Final = re.compile(rb"WARC/[01]\.\d{1,2}[ \t]*\r?\n.*?\n\r?\n", re.S)
_LENGTH: Final = re.compile(rb"^content-length[ \t]*:[ \t]*([^\r\n]*)", re.I | re.M)


class RawRecord(NamedTuple):
    """A record's place in the file: the first byte, and one past the last."""

    begin: int
    end: int


class IrregularArchive(Exception):
    """A place where no whole record begins, or a gzip member that is not exactly one record."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def raw_records(handle: BinaryIO, packed: bool) -> Iterator[RawRecord]:
    """Yield all records of a WARC, in order. `packed`: each record is a gzip member of its own.

    Raises IrregularArchive after the last whole record. `RecordFramer` is less strict: it goes on after damage.
    Memory: 128 KB. Cost: that of unpacking.
    """
    return _packed_records(handle) if packed else _plain_records(handle)


def _plain_records(handle: BinaryIO) -> Iterator[RawRecord]:
    at = 0
    while head := _at(handle, at, _HEAD_BYTES):
        size, length = _header(head, at)
        end = at + size + length
        if length and not _at(handle, end - 1, 1):
            raise IrregularArchive(at)
        ends = _at(handle, end, MAX_LINE_ENDS)
        end += len(ends) - len(ends.lstrip(b"\r\n"))
        yield RawRecord(at, end)
        at = end


def _packed_records(handle: BinaryIO) -> Iterator[RawRecord]:
    at = 0
    while _at(handle, at, 1):
        end, head, count = _member(handle, at)
        size, length = _header(head, at)
        if not 0 <= count - size - length <= MAX_LINE_ENDS:
            raise IrregularArchive(at)
        yield RawRecord(at, end)
        at = end


def _member(handle: BinaryIO, begin: int) -> tuple[int, bytes, int]:
    """Return where the gzip member ends, the beginning of its bytes unpacked, and how many there are."""
    unpacker, at, head, count = zlib.decompressobj(31), begin, bytearray(), 0
    while not unpacker.eof:
        packed = unpacker.unconsumed_tail
        if not packed:
            packed = _at(handle, at, _STEP_BYTES)
            at += len(packed)
        try:
            data = unpacker.decompress(packed, _STEP_BYTES)
        except zlib.error as error:
            raise IrregularArchive(begin) from error
        if not packed and not data:
            raise IrregularArchive(begin)
        head += data[: max(0, _HEAD_BYTES - len(head))]
        count += len(data)
    return at - len(unpacker.unused_data), bytes(head), count


def _header(head: bytes, at: int) -> tuple[int, int]:
    """Return the size of the header, and the length of the block."""
    found = _HEAD.match(head)
    named = _LENGTH.search(found[0]) if found else None
    length = named[1].strip() if named else b""
    if found is None or not length.isdigit() or len(length) > 18:
        raise IrregularArchive(at)
    return found.end(), int(length)


def _at(handle: BinaryIO, at: int, count: int) -> bytes:
    handle.seek(at)
    return handle.read(count)
