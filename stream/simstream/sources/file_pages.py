"""Reads one input file of any kind as records of pages; `read` says what such a record has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from simstream.errors import InputError
from simstream.model import Record
from simstream.sources.archives.pages import ArchiveCounts, ArchivePages
from simstream.sources.csv_rows import csv_pages
from simstream.sources.fields import FieldNames
from simstream.sources.input_files import STDIN, FileKind, InputFile, opened_at_rest, path_id, shown_path
from simstream.sources.lines import CountedFile, lines, standard_input, unpacked
from simstream.sources.parquet import parquet_pages
from simstream.wire.page import NO_TIME, own_name


class FilePages:
    """The pages of one file, to be iterated over once, and what came to light on the way.

    `archive` counts the records of a web archive. `damage` says how it is damaged; it is empty for a whole one.
    """

    def __init__(self, file: InputFile, limit: int, fields: FieldNames) -> None:
        self.file = file
        self.archive = ArchiveCounts()
        self.damage = ""
        self._limit, self._fields = limit, fields
        self._open: CountedFile | None = None

    @property
    def taken(self) -> int:
        """The number of bytes that were read so far."""
        return 0 if self._open is None else self._open.taken

    def __iter__(self) -> Iterator[Record]:
        file = self.file
        if file.path == STDIN:
            yield from _jsonl(standard_input(), STDIN, self._limit, self._fields)
            return
        with opened_at_rest(file.path) as handle:
            self._open = CountedFile(handle, file.end)
            if file.kind is FileKind.ARCHIVE:
                yield from self._of_archive(self._open, file.name)
            else:
                yield from _READERS[file.kind](self._open, file.name, self._limit, self._fields)

    def _of_archive(self, handle: CountedFile, path: str) -> Iterator[Record]:
        pages = ArchivePages(handle, path, self._limit, self.archive)
        yield from pages
        if pages.damage.places:
            places = f", and at {pages.damage.places - 1:,} more places" if pages.damage.places > 1 else ""
            read = f"pages of it that were read: {pages.pages:,}"
            self.damage = f"{shown_path(path)} is damaged {pages.damage.first}{places} ({read})"


def jsonl_records(
    handle: IO[bytes], path: str, max_record_bytes: int, fields: FieldNames | None = None
) -> Iterator[Record]:
    """Yield the pages of an open JSONL file, which stays open.

    `path` names it; its ending tells the compression.
    """
    return _jsonl(CountedFile(handle), path, max_record_bytes, fields or FieldNames())


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
