"""Writes output files of rows: JSON lines, or a table if the name says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

from simstream.cli.output import written
from simstream.tools.dedup.row_layouts import RowLayout
from simstream.tools.dedup.table_file import RowTableFile, finished, is_table


class RowFile(Protocol):
    """An open output of rows."""

    def write(self, row: Any, /) -> None:
        """Append a row. Raises OutputError if the system accepts no more bytes."""


class _LineFile:
    def __init__(self, out: BinaryIO, layout: RowLayout) -> None:
        self._out, self._line = out, layout.line

    def write(self, row: Any) -> None:
        self._out.write(self._line(row) + b"\n")


@contextmanager
def written_rows(path: str, inputs: Sequence[str], layout: RowLayout) -> Iterator[RowFile]:
    """Return an output of rows; it becomes `path` at the end, as with `written`.

    It is a table if the name ends in .parquet, .pq, .arrow or .feather, else JSON lines. After an InputError other
    than InputChanged, a table is whole, too, with the rows that were written. Raises what `written` raises, and
    Unavailable without pyarrow.
    """
    with written(path, inputs) as out:
        if is_table(path):
            with finished(RowTableFile(out, path, layout.table)) as table:
                yield table
        else:
            yield _LineFile(out, layout)
