"""Reads the headers of a Parquet column's pages, which pyarrow does not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple

from simstream.sources.lines import CountedFile

_FIRST_BYTES: Final = 1 << 10
_MAX_BYTES: Final = 16 << 20
"""The longest header that pyarrow reads."""
_DICTIONARY_PAGE: Final = 2
_OWN_HEADERS: Final = {0: 5, _DICTIONARY_PAGE: 7, 3: 8}
"""For the types of pages with values: the field of their own header, whose first field is their number."""
_ENCODINGS: Final = {0: 2, 3: 4}
"""For the types of pages with values of rows: the field of the encoding in their own header."""
_DICTIONARY_CODES: Final = (2, 8)
"""The encodings whose values are numbers of the dictionary's values."""
_I32, _UUID, _STRUCT = 5, 13, 12
"""Types of Thrift's compact protocol."""
_LAST_NUMBER: Final = 4
"""The fields up to this one are numbers, in the header and in its structs; of the others only structs are read."""
_MAX_SHIFT: Final = 63


class PageHeader(NamedTuple):
    """What the header of a page says."""

    unpacked: int
    """The page's bytes, unpacked. pyarrow refuses a page that unpacks to more."""
    values: int
    """The page's values, with the nulls and empty lists; of a dictionary its values."""
    is_dictionary: bool
    is_coded: bool
    """Whether the values are numbers of the dictionary's values."""


def page_headers(handle: IO[bytes] | CountedFile, column: Any) -> Iterator[PageHeader]:
    """Yield the headers of a column's pages in a row group; none behind one that cannot be a header.

    `column` is pyarrow's ColumnChunkMetaData. pyarrow raises an error at a header that ends the headers here. The
    format is Thrift's compact protocol (parquet.thrift, "PageHeader"). Cost: a read for each page.
    """
    at, seen = column.data_page_offset, 0
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    end = at + column.total_compressed_size
    while seen < column.num_values and at < end:
        fields, length = _header_at(handle, at)
        kind, unpacked, packed = (fields.get(name, -1) for name in (1, 2, 3))
        header = fields.get(_OWN_HEADERS[kind], {}) if kind in _OWN_HEADERS else {1: 0}
        values = header.get(1, -1)
        if min(kind, unpacked, packed, values) < 0:
            return
        is_coded = kind in _ENCODINGS and header.get(_ENCODINGS[kind]) in _DICTIONARY_CODES
        yield PageHeader(unpacked, values, kind == _DICTIONARY_PAGE, is_coded)
        at, seen = at + length + packed, seen + values * (kind in _ENCODINGS)


def _header_at(handle: IO[bytes] | CountedFile, at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of the header that begins here, and its bytes; 0 bytes if none does."""
    size = _FIRST_BYTES
    while size <= _MAX_BYTES:
        handle.seek(at)
        head = handle.read(size) or b""
        try:
            return _struct(head, 0)
        except (IndexError, RecursionError):
            if len(head) < size:
                break
            size <<= 2
    return {}, 0


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Return the numbers and structs of a struct by the numbers of their fields, and the place behind it.

    A reader of Thrift leaves out a field of another type, so that it does not stand in for an earlier one. Raises
    IndexError if the struct is cut.
    """
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[at]) != 0:
        at, step = at + 1, head >> 4
        if step:
            number += step
        else:
            number, at = _varint(data, at)
            number = _signed(number)
        kind = head & 15
        value, at = (None, at) if kind in (1, 2) else _value(data, at, kind)
        if value is not None and isinstance(value, dict) == (number > _LAST_NUMBER):
            fields[number] = value
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    """Return a number of 32 bits or a struct, None for a value of another type, and the place behind it."""
    if kind in (4, _I32, 6):
        number, at = _varint(data, at)
        return _signed(number) if kind == _I32 else None, at
    if kind == _STRUCT:
        return _struct(data, at)
    if kind == _UUID:
        return None, at + 16
    if kind == 8:
        length, at = _varint(data, at)
        return None, at + length
    if kind in (1, 2, 3, 7):
        return None, at + (8 if kind == 7 else 1)
    if kind == 11:
        count, at = _varint(data, at)
        kinds = [data[at] >> 4, data[at] & 15] if count else []
        at += bool(count)
    elif kind in (9, 10):
        count, kinds, at = data[at] >> 4, [data[at] & 15], at + 1
        if count == 15:
            count, at = _varint(data, at)
    else:
        raise IndexError
    for _ in range(count):
        for each in kinds:
            if at >= len(data):
                raise IndexError
            _, at = _value(data, at, each)
    return None, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[at]) & 0x80 and shift <= _MAX_SHIFT:
        number, shift, at = number | (byte & 0x7F) << shift, shift + 7, at + 1
    return number | (byte & 0x7F) << shift, at + 1


def _signed(number: int) -> int:
    number &= 0xFFFF_FFFF
    return number >> 1 ^ -(number & 1)
