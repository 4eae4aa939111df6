"""Reads input files of every kind as records of pages.

A record's topic is its file, its partition 0, its offset the line - 1 (0 for HTML and text; for archives see
`archives.pages`), its timestamp NO_TIME: files have no time of their own, so a page that keeps NO_TIME had none
that could be read. Its key is the page's id, its URL, or what names it in its file (`PATH:LINE`, for HTML and text
the path as given), so that `wire.page.decode` and a broker agree on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import IO, Self

from simstream.errors import InputError
from simstream.model import Record
from simstream.sources.archives.pages import ArchiveCounts, ArchivePages
from simstream.sources.csv_rows import csv_pages
from simstream.sources.fields import FieldNames
from simstream.sources.input_files import STDIN, FileKind, Inputs, files_of, opened_at_rest, path_id, shown_path
from simstream.sources.lines import CountedFile, lines, unpacked
from simstream.sources.parquet import parquet_pages
from simstream.wire.page import NO_TIME, own_name

_MAX_DAMAGED_SHOWN = 20

Say = Callable[[str], None]


class PageReader:
    """Iterates over the records of all inputs, in their order; see `read_pages`."""

    def __init__(
        self, inputs: Inputs, max_record_bytes: int, fields: FieldNames, say: Say | None, *, forgiving: bool
    ) -> None:
        self._files = files_of(inputs)
        self._fields = fields
        self._say = say
        self._forgiving = forgiving
        self._tally = ArchiveCounts()
        self._damaged: list[str] = []
        self._limit = max_record_bytes
        self._done = 0
        self._open: CountedFile | None = None
        self._records = self._all()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        return next(self._records)

    @property
    def consumed(self) -> int:
        """The number of bytes on disk that were read; compare it with `size_of`."""
        current = self._open
        return self._done + (current.taken if current is not None else 0)

    def _all(self) -> Iterator[Record]:
        for file in self._files:
            if file.path == STDIN:
                yield from _jsonl(CountedFile(sys.stdin.buffer), STDIN, self._limit, self._fields)
                continue
            with opened_at_rest(file.path) as handle:
                self._open = CountedFile(handle)
                name = shown_path(file.path) if file.is_remote else file.path
                if file.kind is FileKind.ARCHIVE:
                    yield from self._archive(self._open, name)
                else:
                    yield from _READERS[file.kind](self._open, name, self._limit, self._fields)
                self._open = None
            self._done += file.bytes
        if self._tally.files and self._say is not None:
            self._say(str(self._tally))
        if self._damaged and not self._forgiving:
            raise InputError(
                "; ".join(self._damaged),
                "get each damaged file again: records behind the damage may be missing; others were read whole",
            )

    def _archive(self, handle: CountedFile, path: str) -> Iterator[Record]:
        pages = ArchivePages(handle, path, self._limit, self._tally)
        yield from pages
        if pages.damage.places:
            places = f", and at {pages.damage.places - 1:,} more places" if pages.damage.places > 1 else ""
            said = (
                f"{shown_path(path)} is damaged {pages.damage.first}{places}; {pages.pages:,} pages of it were read"
            )
            if len(self._damaged) < _MAX_DAMAGED_SHOWN:
                self._damaged.append(said)
            if self._forgiving and self._say is not None:
                self._say(said)


def read_pages(
    inputs: Inputs,
    max_record_bytes: int = 1 << 20,
    fields: FieldNames | None = None,
    say: Say | None = None,
    *,
    forgiving: bool = False,
) -> PageReader:
    """Yield the pages of files, folders (see `input_files.files_of`) and `-`.

    A line or file longer than `max_record_bytes` is cut a little after that: `decode` calls it too large.
    `fields`: the names of a page's fields in JSONL, CSV and Parquet. Memory: constant, and the list of a folder's
    paths. Raises at once InputMissing or UsageError for an unreadable input and for a folder without pages. While
    iterating, raises InputError for a damaged input, StoreError for an address that breaks off or whose file has
    changed, and UsageError for a file whose pages lack a wanted field.

    A damaged web archive loses only its damaged records, and reading goes on. InputError comes after the last page
    of all inputs, unless `forgiving`. `say` hears what archives held, and then of the damage.
    """
    return PageReader(inputs, max_record_bytes, fields or FieldNames(), say, forgiving=forgiving)


def size_of(inputs: Inputs) -> int | None:
    """Return the bytes of all files that `read_pages` would read; None if one is standard input or a named pipe."""
    files = files_of(inputs)
    return sum(file.bytes for file in files) if all(file.is_regular for file in files) else None


def jsonl_records(handle: IO[bytes], path: str, max_record_bytes: int) -> Iterator[Record]:
    """Yield the pages of an open JSONL file, which stays open.

    `path` names it; its ending tells the compression.
    """
    return _jsonl(CountedFile(handle), path, max_record_bytes, FieldNames())


def jsonl_value(line: bytes, limit: int, fields: FieldNames) -> bytes:
    """Return the value of a line's record."""
    return fields.rename_line(line) if len(line) <= limit else line


def _jsonl(handle: CountedFile, path: str, limit: int, fields: FieldNames) -> Iterator[Record]:
    source = fields.require_fields(lines(unpacked(handle, path), path, limit), shown_path(path))
    return _records(((number, jsonl_value(line, limit, fields)) for number, line in source), path, limit)


def _csv(handle: CountedFile, path: str, limit: int, fields: FieldNames) -> Iterator[Record]:
    return _records(csv_pages(unpacked(handle, path), path, limit, fields), path, limit)


def _records(pages: Iterator[tuple[int, bytes]], path: str, limit: int) -> Iterator[Record]:
    topic, prefix = shown_path(path), path_id(path) + b":"
    for number, line in pages:
        key = own_name(line) if len(line) <= limit else None
        if key is None:
            key = prefix + str(number).encode()
        yield Record(topic, 0, number - 1, key, line, (), NO_TIME)


def _html(handle: CountedFile, path: str, limit: int, _fields: FieldNames) -> Iterator[Record]:
    return _file(handle, path, limit, b"text/html")


def _text(handle: CountedFile, path: str, limit: int, _fields: FieldNames) -> Iterator[Record]:
    return _file(handle, path, limit, b"text/plain")


def _file(handle: CountedFile, path: str, limit: int, media: bytes) -> Iterator[Record]:
    try:
        value = unpacked(handle, path).read(limit + 1)
    except OSError as error:
        raise InputError(f"reading {path} failed ({error.strerror})", "check the disk") from error
    yield Record(shown_path(path), 0, 0, path_id(path), value, (("content-type", media),), NO_TIME)


_READERS = {
    FileKind.HTML: _html,
    FileKind.TEXT: _text,
    FileKind.JSONL: _jsonl,
    FileKind.CSV: _csv,
    FileKind.PARQUET: parquet_pages,
}
