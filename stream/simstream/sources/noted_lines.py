"""Remembers each page's line or row for a second reading, to copy JSONL and CSV files byte for byte."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import BinaryIO

from simstream.errors import InputChanged, InputError
from simstream.model import PageSource, Record
from simstream.sources.csv_rows import CsvTable
from simstream.sources.fields import FieldNames
from simstream.sources.file_pages import jsonl_value
from simstream.sources.input_files import Inputs, files_of, opened, opened_at_rest, shown_path
from simstream.sources.lines import CountedFile, lines, unpacked
from simstream.sources.page_origins import hash64
from simstream.sources.ranges import RemoteFile

ValueOf = Callable[[bytes], bytes]


class NoNotes:
    """Remembers nothing of records, for a second reading that finds each by its number."""

    def noted(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records unchanged."""
        return iter(records)

    def notes(self, begin: int, end: int) -> bytes:
        """Return nothing."""
        return b""

    def restore(self, sources: Iterable[PageSource], notes: bytes) -> None:
        """Do nothing."""


class RecordNotes(ABC):
    """A 64-bit hash of each record, in their order, for a second reading of the inputs, also in another process.

    A subclass says of what, and remembers where the records were.
    Memory: 8 bytes a record, and what the subclass remembers.
    """

    def __init__(self) -> None:
        self._hashes = array("Q")

    def noted(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records unchanged."""
        for record in records:
            self._note(record.topic, record.offset, self._hash_of(record))
            yield record

    def notes(self, begin: int, end: int) -> bytes:
        """Return the hashes of the records from `begin` up to `end`."""
        return self._hashes[begin:end].tobytes()

    def restore(self, sources: Iterable[PageSource], notes: bytes) -> None:
        """Remember the next records again: where they were, and what `notes` returned of them."""
        for source, digest in zip(sources, array("Q", notes), strict=True):
            self._note(source.topic, source.offset, digest)

    def _note(self, topic: str, offset: int, digest: int) -> None:
        self._note_place(topic, offset)
        self._hashes.append(digest)

    @abstractmethod
    def _hash_of(self, record: Record) -> int:
        """Return what a second reading is compared with."""

    @abstractmethod
    def _note_place(self, topic: str, offset: int) -> None:
        """Remember where the next record is, before its hash is added."""


class NotedLines(RecordNotes):
    """Remembers the lines of records, so that a second reading yields the same lines or raises.

    `limit` and `fields`: as in the first reading, see `read_pages`. Memory: 8 bytes a line.
    """

    def __init__(self, limit: int, fields: FieldNames) -> None:
        super().__init__()
        self._limit, self._fields = limit, fields
        self._files: list[tuple[str, int]] = []
        """The topic of each file with records, and the number of its first record."""
        self._last = -1

    def _hash_of(self, record: Record) -> int:
        return hash64(record.value or b"")

    def _note_place(self, topic: str, offset: int) -> None:
        if not self._files or topic != self._files[-1][0] or offset <= self._last:
            self._files.append((topic, len(self._hashes)))
        self._last = offset

    def again(self, inputs: Inputs, numbers: Iterable[int]) -> Iterator[bytes]:
        """Yield the lines with these numbers, byte for byte with their ends.

        `numbers`: ascending, from 0 over all inputs; lines added since the first reading do not count. Raises
        InputChanged at a line that has changed, and at the end of a file that has become shorter.
        """
        wanted = iter(numbers)
        following = next(wanted, None)
        for number, (path, line, value_of) in enumerate(self._lines(inputs)):
            if following is None:
                return
            if number == following:
                if hash64(value_of(line)) != self._hashes[number]:
                    raise changed_while_judged(path)
                yield line
                following = next(wanted, None)

    def _lines(self, inputs: Inputs) -> Iterator[tuple[str, bytes, ValueOf]]:
        """Yield the path of the file, the line, and what gives the value of its record, for each noted line."""
        noted, ends = deque(self._files), deque([first for _, first in self._files[1:]] + [len(self._hashes)])
        for file in files_of(inputs):
            if not noted or noted[0][0] != shown_path(file.path):
                continue  # a file that had no records
            missing = ends.popleft() - noted.popleft()[1]
            with opened_at_rest(file.path) as handle:
                source = self._read(unpacked(CountedFile(handle), file.name), file.name)
                try:
                    for line, value_of in islice(source, missing):
                        missing -= 1
                        yield file.path, line, value_of
                except InputError as error:  # these lines were read before
                    raise changed_while_judged(file.path) from error
            if missing:
                raise changed_while_judged(file.path)

    def _read(self, stream: io.BufferedReader, path: str) -> Iterator[tuple[bytes, ValueOf]]:
        """Yield each line of a file, and what gives the value of its record."""
        for _, line in lines(stream, path, self._limit, ends=True):
            yield line, self._value_of

    def _value_of(self, line: bytes) -> bytes:
        return jsonl_value(line.removesuffix(b"\n").removesuffix(b"\r"), self._limit, self._fields)


class NotedRows(NotedLines):
    """The same for rows of CSV files."""

    def _read(self, stream: io.BufferedReader, path: str) -> Iterator[tuple[bytes, ValueOf]]:
        table = CsvTable(stream, path, self._limit, self._fields)
        for _, row in table.rows:
            yield row, table.value_of


def file_stamp(handle: BinaryIO) -> tuple[object, ...]:
    """Return facts of an open file that change whenever the file does. Raises StoreError."""
    if isinstance(handle, RemoteFile):
        return handle.stamp()
    stat = os.fstat(handle.fileno())
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


@contextmanager
def opened_unchanged(path: str, stamp: tuple[object, ...]) -> Iterator[BinaryIO]:
    """Return a file, open. Raises InputChanged if its stamp is another one, now or at the end."""
    with opened(path) as handle:
        if file_stamp(handle) != stamp:
            raise changed_while_judged(path)
        try:
            yield handle
        except InputError as error:  # damage that was perhaps not there before
            if file_stamp(handle) != stamp:
                raise changed_while_judged(path) from error
            raise
        if file_stamp(handle) != stamp:
            raise changed_while_judged(path)


def changed_while_judged(path: str) -> InputChanged:
    """Return the error for an input that differs at its second reading."""
    what = f"{shown_path(path)} changed while it was judged"
    return InputChanged(what, "judge it again while no other program writes to it")
