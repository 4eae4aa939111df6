"""Reads the row groups of Parquet files in batches of few rows, whatever a stranger has written into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import zip_longest
from typing import IO, Any, Final

from simstream.errors import InputError
from simstream.sources.input_files import shown_path
from simstream.sources.lines import CountedFile
from simstream.sources.page_headers import PageHeader, page_headers

BATCH_ROWS: Final = 64
"""Rows come few at a time: a file of some KB may hold the same MB in each of its rows."""
BATCH_BYTES: Final = 16 << 20
_PLAUSIBLE_RATIO: Final = 64
"""No text of pages is packed so well, unless it repeats one value."""
_SHARED_BYTES: Final = 128 << 20
"""The most bytes of a batch whose rows all have the longest value that a column's dictionary can have."""
_BUFFER_BYTES: Final = 1 << 20
_SHORT_BYTES: Final = 256
"""Values of a fixed length up to this one are as good as numbers: their lists are not measured."""
_MAX_ITEMS: Final = 1 << 24
OpenFile = IO[bytes] | CountedFile


class LongRowError(OSError):
    """A row of a file would take too much memory."""


def open_parquet(arrow: Any, file: OpenFile, **options: Any) -> Any:
    """Return an open Parquet file, to be read in small pieces whose checksums are verified.

    Raises ArrowException or OSError if the file is damaged.
    """
    try:
        return arrow.parquet.ParquetFile(
            file, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True, **options
        )
    except UnicodeDecodeError as error:
        raise OSError("the name of a column is not valid UTF-8") from error


def batches_of(
    arrow: Any, file: Any, handle: OpenFile, group: int, paths: Sequence[str] | None = None
) -> Iterator[Any]:
    """Yield the rows of a row group in batches; of all columns, or of those on these paths.

    `handle` is the file below. Memory: an unpacked page of each column, and BATCH_ROWS rows or about BATCH_BYTES;
    one row, if it has more. Raises ArrowException or OSError if the file is damaged or encrypted, and LongRowError.
    """
    options = {"row_groups": [group], "columns": paths, "use_threads": False}
    most = _rows_of_lists(arrow, file, handle, group, paths)
    for _ in file.iter_batches(1, **options):
        break  # what is said of a column that cannot be read ends the process, unless reading it raises an error
    yield from file.iter_batches(min(most, _rows_at_once(file, handle, group, paths)), **options)


def parquet_damaged(path: str, error: BaseException, read: str = "") -> InputError:
    """Return the error for a file that pyarrow cannot read; `read` says how far it came."""
    if isinstance(error, LongRowError):
        return InputError(f"{shown_path(path)} has a row with {error}", "leave the column out, or split its lists")
    first = str(error).partition("\n")[0][:200]
    if "decrypt" in first:
        return InputError(f"{shown_path(path)} is encrypted ({first})", "give a copy that is not")
    return InputError(f"{shown_path(path)} is damaged or not a Parquet file{read} ({first})", "get the file again")


def _rows_of_lists(arrow: Any, file: Any, handle: OpenFile, group: int, paths: Sequence[str] | None) -> int:
    """Return how many rows of a group to read at once, as far as lists of strings decide it.

    A list may have one value of the dictionary any number of times, in no room. Where so many numbers of such a
    dictionary could be too much, the column is read twice, the first time as numbers. Raises LongRowError if such
    strings of a row have more than _SHARED_BYTES, or if a row has on average more than _MAX_ITEMS, or more than
    _SHARED_BYTES of values of one fixed length.
    """
    columns, most_rows = _lists_to_measure(file, handle, group, paths)
    if not columns:
        return most_rows
    options = {"metadata": file.metadata, "read_dictionary": [column.path for column in columns]}
    if "arrow_extensions_enabled" in signature(arrow.parquet.ParquetFile).parameters:  # from pyarrow 21 on
        options["arrow_extensions_enabled"] = False  # JSON is no string, and comes without a dictionary
    coded, size = open_parquet(arrow, handle, **options), 0
    for rows in (BATCH_ROWS, 8, 1):
        sizes = zip_longest(*(_coded_bytes(arrow, coded, group, rows, one) for one in columns), fillvalue=0)
        size = next((size for size in map(sum, sizes) if size > _SHARED_BYTES), 0)
        if not size:
            return min(rows, most_rows)
    raise LongRowError(f"{size >> 20:,} MB in the lists of {' and '.join(one.path for one in columns)[:200]}")


def _lists_to_measure(
    file: Any, handle: OpenFile, group: int, paths: Sequence[str] | None
) -> tuple[list[_ListColumn], int]:
    """Return the columns whose lists may together have too many bytes of strings, or none, and how many rows may be
    read at once for the sake of values of one fixed length. Raises LongRowError."""
    metadata, columns, fixed = file.metadata.row_group(group), list[_ListColumn](), 0
    leaves, rows = [file.schema.column(place) for place in range(metadata.num_columns)], max(1, metadata.num_rows)
    for place, leaf in enumerate(leaves):
        if not leaf.max_repetition_level or not _is_within(leaf.path, paths):
            continue
        chunk, is_fixed = metadata.column(place), leaf.physical_type == "FIXED_LEN_BYTE_ARRAY"
        if chunk.num_values > _MAX_ITEMS * rows:
            raise LongRowError(f"{chunk.num_values:,} items in the list {leaf.path[:200]}")
        if leaf.physical_type == "BYTE_ARRAY" or (is_fixed and leaf.length > _SHORT_BYTES):
            column = _ListColumn.of(leaf.path, chunk.num_values, page_headers(handle, chunk))
            if is_fixed and column.dictionary_values:
                fixed += column.coded * leaf.length // rows
            elif column.coded:
                columns.append(column)
        if fixed > _SHARED_BYTES:
            raise LongRowError(f"{fixed >> 20:,} MB in lists up to {leaf.path[:200]}")
    most_rows = max(1, min(BATCH_ROWS, _SHARED_BYTES // max(1, fixed)))
    if sum(one.coded * one.dictionary_bytes for one in columns) <= _SHARED_BYTES:
        return [], most_rows
    names = [leaf.path for leaf in leaves]
    for one in columns:
        if names.count(one.path) > 1:  # a column is measured by its name
            raise LongRowError(f"many values in lists of two columns {one.path[:200]}")
    return columns, most_rows


@dataclass(frozen=True, slots=True)
class _ListColumn:
    """What the pages of a column with lists say of its values."""

    path: str
    coded: int
    """The values that are numbers of the dictionary's values, with the nulls and empty lists among them."""
    dictionary_values: int
    dictionary_bytes: int
    is_coded_first: bool
    """Whether no such values follow others, as every known writer has it."""

    @classmethod
    def of(cls, path: str, values: int, headers: Iterable[PageHeader]) -> _ListColumn:
        """Add up the headers of the pages of a column with so many values. Pages without a header, as of a damaged
        file, count as too much: then pyarrow reads them as numbers, or names the damage."""
        items, coded, dictionary, is_coded_first = 0, 0, PageHeader(0, 0, True, False), True
        for header in headers:
            if header.is_dictionary:
                dictionary = header
                continue
            is_coded_first = is_coded_first and (not header.is_coded or coded == items)
            items += header.values
            coded += header.values * header.is_coded
        if items < values:
            return cls(path, values, dictionary.values, _SHARED_BYTES + 1, False)
        return cls(path, coded, dictionary.values, dictionary.unpacked, is_coded_first)


def _coded_bytes(arrow: Any, file: Any, group: int, rows: int, column: _ListColumn) -> Iterator[int]:
    """Yield the bytes of a column's strings in each batch of rows, up to the last of its dictionary's values.

    pyarrow adds the values behind them to its own dictionary, and copies it for each batch.
    """
    for batch in file.iter_batches(rows, row_groups=[group], columns=[column.path], use_threads=False):
        values = _leaf_of(arrow, batch.column(0))
        if not isinstance(values, arrow.DictionaryArray):
            return
        lengths = arrow.compute.binary_length(values.dictionary)
        yield arrow.compute.sum(lengths.take(values.indices)).as_py() or 0
        if column.is_coded_first and len(values.dictionary) > column.dictionary_values:
            return


def _leaf_of(arrow: Any, column: Any) -> Any:
    """Return the values of the only leaf within lists, maps and structs."""
    while not isinstance(column, arrow.DictionaryArray):
        if isinstance(column, arrow.ExtensionArray):
            column = column.storage
        elif isinstance(column, arrow.StructArray):
            column = column.flatten()[0]
        elif hasattr(column, "flatten"):
            column = column.flatten()  # a list of any kind
        else:
            break
    return column


def _is_within(path: str, paths: Sequence[str] | None) -> bool:
    """Return whether a leaf's path is one of these paths, or below one."""
    return paths is None or any(path == one or path.startswith(f"{one}.") for one in paths)


def _rows_at_once(file: Any, handle: OpenFile, group: int, paths: Sequence[str] | None) -> int:
    """Return how many rows of a group to read at once: BATCH_ROWS, or fewer for about BATCH_BYTES.

    If a column unpacks to far more than the file has, each of its values may be as long as all of it. Otherwise
    each may be as long as its dictionary.
    """
    metadata, total, row, dictionary = file.metadata.row_group(group), 0, 1, 1
    for leaf in range(metadata.num_columns):
        if not _is_within(file.schema.column(leaf).path, paths):
            continue
        column = metadata.column(leaf)
        unpacked, packed = column.total_uncompressed_size, column.total_compressed_size
        total += unpacked
        if unpacked > _PLAUSIBLE_RATIO * packed:
            row = max(row, unpacked)
        elif unpacked * BATCH_ROWS > _SHARED_BYTES:
            first = next(page_headers(handle, column), None)
            dictionary = max(dictionary, first.unpacked if first and first.is_dictionary else 0)
    row = max(row, total // max(1, metadata.num_rows))
    rows: int = min(BATCH_ROWS, BATCH_BYTES // row, _SHARED_BYTES // dictionary)
    return max(1, rows)
