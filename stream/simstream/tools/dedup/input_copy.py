"""Copies the pages that `dedup --keep` keeps, as their input files have them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from simstream.errors import UsageError
from simstream.model import PageSource, Record
from simstream.sources.csv_rows import CsvTable
from simstream.sources.fields import FieldNames
from simstream.sources.input_files import (
    CSV,
    TEXT,
    FileKind,
    InputFile,
    Inputs,
    files_of,
    opened,
    refuse_single_pass,
    shown_path,
)
from simstream.sources.lines import COMPRESSIONS, CountedFile, unpacked
from simstream.sources.noted_lines import NoNotes, NotedLines, NotedRows
from simstream.tools.dedup.archive_copy import ArchiveCopier
from simstream.tools.dedup.parquet_copy import ParquetCopier
from simstream.tools.dedup.table_file import is_table, names_unwritten_format


class InputCopier(Protocol):
    """Copies pages of the inputs of a run."""

    @property
    def compresses(self) -> bool:
        """Whether an output is to be compressed as its ending says; otherwise the copied bytes stay as they are."""

    def noted(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield all records of the inputs unchanged, and remember what `copy` needs."""

    def notes(self, begin: int, end: int) -> bytes:
        """Return what is remembered of the records from `begin` up to `end`, numbered from 0."""

    def restore(self, sources: Iterable[PageSource], notes: bytes) -> None:
        """Remember the next records again: where they were, and what `notes` returned of them."""

    def copy(self, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the pages of these records, numbered in ascending order from 0.

        Raises InputChanged if an input has changed meanwhile: then the output is of no use.
        """


class LineCopier:
    """Copies lines of JSONL files byte for byte. Memory: that of `NotedLines`."""

    compresses: Final = True

    def __init__(self, inputs: Inputs, limit: int, fields: FieldNames) -> None:
        self._inputs, self._lines = inputs, NotedLines(limit, fields)
        self.noted, self.notes, self.restore = self._lines.noted, self._lines.notes, self._lines.restore

    def copy(self, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the lines, each with a line end."""
        for line in self._lines.again(self._inputs, numbers.tolist()):
            out.write(line if line.endswith(b"\n") else line + b"\n")


class RowCopier:
    """Copies rows of CSV files byte for byte, behind their first row. Memory: that of `NotedRows`.

    Raises UsageError if the files have different first rows.
    """

    compresses: Final = True

    def __init__(self, inputs: Inputs, limit: int, fields: FieldNames) -> None:
        self._inputs, self._rows = inputs, NotedRows(limit, fields)
        self.noted, self.notes, self.restore = self._rows.noted, self._rows.notes, self._rows.restore
        files = files_of(inputs)
        firsts = [_first_row(file, limit, fields) for file in files]
        self._first = firsts[0]
        for file, first in zip(files, firsts, strict=True):
            if first != self._first:
                what = f"{shown_path(file.path)} has another first row than {shown_path(files[0].path)}"
                raise UsageError(what, "give all inputs one first row, or name the others with --against")

    def copy(self, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the first row, then the rows, each with a line end."""
        out.write(self._first + b"\n")
        for row in self._rows.again(self._inputs, numbers.tolist()):
            out.write(row + b"\n")


class PathCopier(NoNotes):
    """Writes the paths or addresses of HTML and text files, one a line. Memory: the paths.

    Raises UsageError if a part of an address may be secret, or a path has a line end.
    """

    compresses: Final = True

    def __init__(self, inputs: Inputs) -> None:
        self._paths: list[str] = []
        """The path of each file, which is one record."""
        for file in files_of(inputs):
            shown = shown_path(file.path)
            has_secret = file.is_remote and shown != file.path
            if has_secret or "\n" in file.path:
                reason = "a part of this address may be secret" if has_secret else "it has a line end"
                raise UsageError(f"--keep cannot list {shown}: {reason}", "leave it out, or --keep")
            self._paths.append(file.path)

    def copy(self, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the paths, as they were named."""
        for number in numbers.tolist():
            out.write(os.fsencode(self._paths[number]) + b"\n")


def _first_row(file: InputFile, limit: int, fields: FieldNames) -> bytes:
    with opened(file.path) as handle:
        return CsvTable(unpacked(CountedFile(handle), file.name), file.name, limit, fields).first


def make_copier(inputs: Inputs, path: str, limit: int, fields: FieldNames) -> InputCopier:
    """Return the copier of pages of the inputs to a file named `path`, in the format of the inputs.

    Raises UsageError if the pages of an input cannot be copied, or not to a file of this name; else what
    `ParquetCopier` and `ArchiveCopier` raise.
    """
    files = files_of(inputs)
    kinds = {file.kind for file in files}
    refuse_single_pass(files, "--keep reads its inputs twice")
    if kinds == {FileKind.PARQUET}:
        return ParquetCopier(inputs, path)
    if kinds == {FileKind.ARCHIVE}:
        return ArchiveCopier(inputs, path, limit)
    of_files = kinds <= {FileKind.HTML, FileKind.TEXT}
    if len(kinds) > 1 and not of_files:
        what = "the inputs are of several formats, but --keep writes one format"
        raise UsageError(what, "name inputs of one format, and the others with --against")
    if of_files:
        _check_ending(path, TEXT, "the paths of files")
        return PathCopier(inputs)
    if kinds == {FileKind.CSV}:
        _check_ending(path, CSV, "rows of CSV, as the inputs have them")
        return RowCopier(inputs, limit, fields)
    if is_table(path) or names_unwritten_format(path):
        what = f"{path} names another format, but --keep writes lines of JSONL, as the inputs have them"
        raise UsageError(what, "name a file that ends in .jsonl")
    return LineCopier(inputs, limit, fields)


def _check_ending(path: str, wanted: str, written: str) -> None:
    """Raise UsageError if a path does not have this ending, with that of a compression or without."""
    if not path.lower().endswith((wanted, *(wanted + ending for ending in COMPRESSIONS))):
        raise UsageError(
            f"--keep writes {written}, and {path} does not end in {wanted}", f"name a file that ends in {wanted}"
        )
