"""Copies rows of Parquet files as they are, with all columns: `dedup --keep`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from simstream.errors import UsageError
from simstream.sources.arrow import load_pyarrow
from simstream.sources.input_files import PARQUET, Inputs, files_of, opened, shown_path
from simstream.sources.noted_lines import NoNotes, file_stamp, opened_unchanged
from simstream.sources.row_groups import batches_of, open_parquet, parquet_damaged
from simstream.tools.dedup.table_file import TableFile, finished


class ParquetCopier(NoNotes):
    """Copies rows of `inputs`, which are Parquet files of one schema, to a Parquet file named `path`.

    Memory: a row group of the copy, and 64 rows. Raises Unavailable without pyarrow, UsageError if `path` does not
    end in .parquet or the schemas differ, InputError if a file is damaged.
    """

    compresses: Final = False

    def __init__(self, inputs: Inputs, path: str) -> None:
        if not path.lower().endswith(PARQUET):
            what = f"--keep writes Parquet, as the inputs are, but {path} does not end in {PARQUET[0]}"
            raise UsageError(what, f"name a file that ends in {PARQUET[0]}")
        self._arrow = load_pyarrow("writing Parquet")
        self._path = path
        self._files = [file.path for file in files_of(inputs)]
        self._stamps: list[tuple[object, ...]] = []
        """The stamp of each file."""
        self._rows: list[int] = []
        """The number of rows of each file."""
        self._schema = self._common_schema()

    def copy(self, numbers: NDArray[np.int64], out: BinaryIO) -> None:
        """Write the rows with these numbers, ascending and from 0 over all inputs, and the end of the table.

        Raises InputChanged if a file has changed since this object was made, and InputError if it is damaged. After
        damage the table is whole, too, with the rows before.
        """
        with finished(TableFile(out, self._path, self._schema)) as table:
            first = 0
            for path, stamp, rows in zip(self._files, self._stamps, self._rows, strict=True):
                with opened_unchanged(path, stamp) as handle:
                    for batch in self._read(path, handle, _within(numbers, first, first + rows)):
                        table.add(batch)
                first += rows

    def _read(self, path: str, handle: BinaryIO, numbers: NDArray[np.int64]) -> Iterator[Any]:
        """Yield the rows with these numbers, in batches. Row groups without such a row are not read.

        Raises InputError if the file is damaged. Errors of whoever takes the batches do not come by here.
        """
        try:
            with open_parquet(self._arrow, handle) as file:
                begin = 0
                for group in range(file.metadata.num_row_groups):
                    end = begin + file.metadata.row_group(group).num_rows
                    if len(_within(numbers, begin, end)):
                        for batch in batches_of(self._arrow, file, handle, group):
                            yield from _rows_of(batch, _within(numbers, begin, begin + batch.num_rows))
                            begin += batch.num_rows
                    begin = end
        except (self._arrow.ArrowException, OSError) as error:
            raise parquet_damaged(path, error) from error

    def _common_schema(self) -> Any:
        """Return the schema of the first file. Raises UsageError if another file has another one."""
        schemas = []
        for path in self._files:
            with opened(path) as handle:
                self._stamps.append(file_stamp(handle))
                try:
                    with open_parquet(self._arrow, handle) as file:
                        schemas.append(file.schema_arrow)
                        self._rows.append(file.metadata.num_rows)
                except (self._arrow.ArrowException, OSError) as error:
                    raise parquet_damaged(path, error) from error
        for path, schema in zip(self._files, schemas, strict=True):
            if not schema.equals(schemas[0]):
                ours, theirs = ([f"{one.name} {one.type}" for one in fields] for fields in (schemas[0], schema))
                differing = (
                    ", ".join([one for one in theirs if one not in ours][:5])
                    or "fewer columns, or in another order"
                )
                what = f"{shown_path(path)} has another schema than {shown_path(self._files[0])} ({differing})"
                raise UsageError(what, "give all inputs one schema, or name the others with --against")
        return schemas[0]


def _rows_of(batch: Any, rows: NDArray[np.int64]) -> Iterator[Any]:
    """Yield these rows of a batch, ascending, as slices. (`take` does not know every type.)"""
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
        if len(run):
            yield batch.slice(int(run[0]), len(run))


def _within(numbers: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
    """Return the numbers, ascending, from `begin` up to `end`, counted from `begin`."""
    low, high = np.searchsorted(numbers, [begin, end])
    return numbers[low:high] - begin
