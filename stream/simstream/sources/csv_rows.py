"""Reads CSV files as pages: a first row with field names, then one page a row.

Rows are those of RFC 4180: fields parted by commas, and between double quotes where they hold commas, quotes
(written twice) or line ends. As in Python's `csv`, a quote opens a field only as its first character.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from threading import Lock
from typing import Any, Final

from simstream.errors import InputError
from simstream.sources.fields import FieldNames, encoded, page_columns
from simstream.sources.lines import BLANK_RUN, DAMAGE, cut_off, pass_blank_lines, refuse_other_format

_PIECE_BYTES: Final = 1 << 16
_LIMIT: Final = Lock()
"""The module csv has one limit of a field for all threads."""
_BEGIN, _PLAIN, _QUOTED, _CLOSED = b",", b"x", b',"x', b',"x"'
"""The place within a row where a piece of it ends: at the begin of a field, within a plain or a quoted field, and
behind the closing quote. Each is a text that leads to this place."""
_NUMBER_DIGITS: Final = 18
"""Fewer digits than these are a number of milliseconds; see `wire/page` for headers."""


def csv_pages(
    stream: io.BufferedReader, path: str, max_bytes: int, fields: FieldNames
) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) of the first line, and the page as JSON, of each row that is not blank.

    A row that is longer than `max_bytes`, not UTF-8, not CSV or wider than the first row comes unchanged: `decode`
    refuses it. Raises UsageError if the text or a named field has no column, or a field has two, InputError if the
    file breaks off or is damaged.
    """
    table = CsvTable(stream, path, max_bytes, fields)
    for number, row in table.rows:
        yield number, table.value_of(row)


class CsvTable:
    """The rows of a CSV file. Raises UsageError if the text or a named field has no column, or a field has two."""

    def __init__(self, stream: io.BufferedReader, path: str, max_bytes: int, fields: FieldNames) -> None:
        self._max_bytes, self._fields = max_bytes, fields
        self.rows = _rows(stream, path, max_bytes)
        """The number of the first line, and the bytes without their end, of each row behind the first one. None of
        them is blank."""
        _, self.first = next(self.rows, (1, b""))
        """The first row, with the names of the columns."""
        self._names = _cells(self.first, max_bytes) or []
        fields.check(self._names, path, "the first row", has_structs=False)
        page_columns(self._names, path, fields)

    def value_of(self, row: bytes) -> bytes:
        """Return a row as a page in JSON; unchanged if it cannot be read, or has a field that has no column."""
        cells = _cells(row, self._max_bytes)
        if cells is None or any(cells[len(self._names) :]):  # such as a text with a comma and without quotes
            return row
        named = dict(zip(self._names, cells, strict=False))
        return encoded(_typed(self._fields.rename_fields(named)))


def _typed(page: dict[str, Any]) -> dict[str, Any]:
    """Return the page with numbers in place of texts in the fields that hold numbers."""
    for name in ("time", "status"):
        value = page.get(name)
        if value is not None and value.isascii() and value.isdigit() and len(value) < _NUMBER_DIGITS:
            page[name] = int(value)
        elif value == "":
            page[name] = None
    if page.get("text") == "" and page.get("html"):
        page["text"] = None
    return page


def _cells(row: bytes, max_bytes: int) -> list[str] | None:
    """Return the fields of one row: none for a blank row, None if it cannot be read.

    In a row of several lines, a closing quote before the end of its field makes the row unreadable: a quote that
    was never closed may have joined several rows.
    """
    if len(row) > max_bytes:
        return None
    with _LIMIT:
        before = csv.field_size_limit(max(max_bytes, 1))
        try:
            return next(csv.reader([row.decode()], strict=b"\n" in row), []) if row.strip() else []
        except (csv.Error, UnicodeDecodeError):
            return None
        finally:
            csv.field_size_limit(before)


def _rows(stream: io.BufferedReader, path: str, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number of the first line, and at most `max_bytes` + 1 bytes, of each row without its end.

    Leaves out blank rows, except for the first row.
    """
    line = number = 1
    row, place, is_blank, blank_rows = bytearray(), _BEGIN, True, 0
    try:
        while piece := stream.readline(_PIECE_BYTES):
            if line == 1:
                refuse_other_format(piece, path)
                piece = piece if row else piece.removeprefix(codecs.BOM_UTF8)
            place = _place_after(place, piece)
            is_blank = is_blank and piece.isspace()
            row += piece[: max(0, max_bytes + 3 - len(row))]
            if not piece.endswith(b"\n"):
                continue
            line += 1
            if place == _QUOTED:
                continue
            if not is_blank or number == 1:
                blank_rows = 0
                yield number, _without_end(row)
            elif (blank_rows := blank_rows + 1) % BLANK_RUN == 0:
                line += pass_blank_lines(stream)
            row, place, is_blank, number = bytearray(), _BEGIN, True, line
    except DAMAGE as error:
        raise cut_off(path, line - 1, error) from error
    if place == _QUOTED:
        what = f"{path} ends within the quotes of the row from line {number}"
        raise InputError(what, "close these quotes; the pages before that line were read")
    if not is_blank:
        yield number, _without_end(row)


def _place_after(place: bytes, piece: bytes) -> bytes:
    """Return the place at the end of a piece that begins at this place."""
    if b'"' not in piece:
        return _QUOTED if place == _QUOTED else _BEGIN if piece.endswith(b",") else _PLAIN
    text, end = place + piece, -1
    while (begin := text.find(b',"', end + 1)) >= 0:
        end = text.find(b'"', begin + 2)
        if text.startswith(b'""', end):
            text = text[:end] + text[end:].replace(b'""', b"")  # from here on, quotes in pairs change nothing
            end = text.find(b'"', end)
        if end < 0:
            return _QUOTED
    return _CLOSED if end == len(text) - 1 else _BEGIN if text.endswith(b",") else _PLAIN


def _without_end(row: bytearray) -> bytes:
    return bytes(row.removesuffix(b"\n").removesuffix(b"\r"))
