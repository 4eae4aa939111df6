"""Writes output files of rows: JSON lines, or a table if the name says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from simstream.cli.output import written
from simstream.tools.dedup.row_layouts import RowLayout
from simstream.tools.dedup.table_file import RowTableFile, finished, is_table

RowWriter = Callable[[Any], object]
"""Appends a row to an output. Raises OutputError if the system accepts no more bytes."""


@contextmanager
def written_rows(path: str, inputs: Sequence[str], layout: RowLayout) -> Iterator[RowWriter]:
    """Return what appends a row to an output; it becomes `path` at the end, as with `written`.

    It is a table if the name ends in .parquet, .pq, .arrow or .feather, else JSON lines. After an InputError other
    than InputChanged, a table is whole, too, with the rows that were written. Raises what `written` raises, and
    Unavailable without pyarrow.
    """
    with written(path, inputs) as out:
        if is_table(path):
            with finished(RowTableFile(out, path, layout.table)) as table:
                yield table.write
        else:
            yield lambda row: out.write(layout.line(row) + b"\n")
