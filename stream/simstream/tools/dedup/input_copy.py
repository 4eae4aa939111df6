"""Copies the pages that `dedup --keep` keeps, as their input files have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from simstream.errors import UsageError
from simstream.model import PageSource, Record
from simstream.sources.fields import FieldNames
from simstream.sources.input_files import FileKind, Inputs, files_of, shown_path
from simstream.sources.noted_lines import NotedLines
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

        Raises InputError if an input has changed meanwhile; what was written before is whole.
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


def make_copier(inputs: Inputs, path: str, limit: int, fields: FieldNames) -> InputCopier:
    """Return the copier of pages of the inputs to a file named `path`, in the format of the inputs.

    Raises UsageError if the pages of an input cannot be copied, or not to a file of this name; else what
    `ParquetCopier` and `ArchiveCopier` raise.
    """
    files = files_of(inputs)
    kinds = {file.kind for file in files}
    for file in files:
        if not file.is_regular:
            what = f"--keep reads its inputs twice, and {shown_path(file.path)} is no regular file"
            raise UsageError(what, "save it to a file first")
    if kinds == {FileKind.PARQUET}:
        return ParquetCopier(inputs, path)
    if kinds == {FileKind.ARCHIVE}:
        return ArchiveCopier(inputs, path)
    if len(kinds) > 1 and kinds <= {FileKind.PARQUET, FileKind.JSONL, FileKind.ARCHIVE}:
        what = "the inputs are of several formats, but --keep writes one format"
        raise UsageError(what, "name inputs of one format, and the others with --against")
    for file in files:
        if file.kind is not FileKind.JSONL:
            what = f"--keep cannot copy the pages of {shown_path(file.path)}"
            raise UsageError(what, "name files of JSONL, Parquet or WARC, or leave out --keep")
    if is_table(path) or names_unwritten_format(path):
        what = f"{path} names another format, but --keep writes lines of JSONL, as the inputs have them"
        raise UsageError(what, "name a file that ends in .jsonl")
    return LineCopier(inputs, limit, fields)
