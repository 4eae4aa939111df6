"""Writes rows as a table, in Parquet or as an Arrow file (extra `parquet`): one row group at a time."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

from simstream.deduper.verdict_columns import as_batch
from simstream.errors import InputError, NotPut, UsageError
from simstream.sources.arrow import load_pyarrow
from simstream.sources.input_files import PARQUET
from simstream.sources.lines import COMPRESSIONS

TABLES: Final = (*PARQUET, ".arrow", ".feather")
_UNWRITTEN: Final = (
    *(".csv", ".tsv", ".orc", ".avro", ".ipc", ".xlsx"),
    *(".bz2", ".lz4", ".z", ".zip", ".7z"),
)
MAX_GROUP_ROWS: Final = 1 << 16
MAX_GROUP_BYTES: Final = 32 << 20
"""A row group ends at this many rows or bytes in memory. Readers need many rows in each to be quick."""
_BATCH_ROWS: Final = 1 << 10
"""Rows that are held as Python objects."""


class ColumnLayout(NamedTuple):
    """The schema of a table, and the columns of rows in it, each by pyarrow."""

    schema: Callable[[Any], Any]
    columns: Callable[[Any, Sequence[Any]], list[Any]]


def is_table(path: str) -> bool:
    """Return whether a file of this name is a table. Raises UsageError if it is compressed by its name, too."""
    name = path.lower()
    for ending in COMPRESSIONS:
        if name.endswith(tuple(table + ending for table in TABLES)):
            what = f"{path} names a compressed table, but tables are compressed inside"
            raise UsageError(what, f"leave out {ending}")
    return name.endswith(TABLES)


def names_unwritten_format(path: str) -> bool:
    """Return whether a file of this name is of a format that no command writes."""
    name = path.lower()
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    return name.endswith(_UNWRITTEN)


class TableFile:
    """Writes record batches of one schema to an open file, which stays open. Memory: one row group.

    `write` and `close` raise what the file's `write` raises. A file that was not closed is no whole table.
    """

    def __init__(self, out: BinaryIO, path: str, schema: Any) -> None:
        self._arrow = arrow = load_pyarrow("writing a table")
        self._schema = schema
        self._sink = _Sink(out)
        self._batches: list[Any] = []
        self._rows = self._bytes = 0
        if path.lower().endswith(PARQUET):
            self._writer = arrow.parquet.ParquetWriter(self._sink, schema, compression="zstd")
        else:
            options = arrow.ipc.IpcWriteOptions(compression="lz4")
            self._writer = arrow.ipc.new_file(self._sink, schema, options=options)

    def add(self, batch: Any) -> None:
        """Append a record batch."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= MAX_GROUP_ROWS or self._bytes >= MAX_GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write the rest and the end of the table."""
        if self._rows:
            self._write_group()
        self._writer.close()

    def drop(self) -> None:
        """Give the table up: write nothing more."""
        self._sink.dropped = True
        self._writer.close()  # else it writes the end of the table once it is collected

    def _write_group(self) -> None:
        table = self._arrow.Table.from_batches(self._batches, self._schema).combine_chunks()
        self._writer.write_table(table)
        self._batches.clear()
        self._rows = self._bytes = 0


class RowTableFile(TableFile):
    """Writes rows of one layout to a table. Memory: one row group, and 1,024 rows."""

    def __init__(self, out: BinaryIO, path: str, layout: ColumnLayout) -> None:
        super().__init__(out, path, layout.schema(load_pyarrow("writing a table")))
        self._columns = layout.columns
        self._waiting: list[Any] = []

    def write(self, row: Any) -> None:
        """Append a row."""
        self._waiting.append(row)
        if len(self._waiting) == _BATCH_ROWS:
            self._add_waiting()

    def close(self) -> None:
        """Write the rest and the end of the table."""
        self._add_waiting()
        super().close()

    def _add_waiting(self) -> None:
        self.add(as_batch(self._arrow, self._schema, self._columns(self._arrow, self._waiting)))
        self._waiting.clear()


Table = TypeVar("Table", bound=TableFile)


@contextmanager
def finished(table: Table) -> Iterator[Table]:
    """Return a table, and close it at the end: also after an InputError, with the rows before it, and after NotPut
    of another output. Another error drops it."""
    try:
        yield table
        table.close()
    except (InputError, NotPut):
        table.close()
        raise
    except BaseException:
        table.drop()
        raise


class _Sink(io.RawIOBase):
    """Passes bytes on to a file, which it does not close, until it is `dropped`."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.dropped = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.dropped:
            self._out.write(data)
        return len(data)
