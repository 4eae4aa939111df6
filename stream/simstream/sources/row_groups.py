"""Reads the row groups of Parquet files in batches of few rows, whatever a stranger has written into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import IO, Any, Final

from simstream.errors import InputError
from simstream.sources.input_files import shown_path
from simstream.sources.lines import CountedFile

BATCH_ROWS: Final = 64
"""Rows come few at a time: a file of some KB may hold the same MB in each of its rows."""
BATCH_BYTES: Final = 16 << 20
_PLAUSIBLE_RATIO: Final = 64
"""No text of pages is packed so well, unless it repeats one value."""
_SHARED_BYTES: Final = 128 << 20
"""The most bytes of a batch whose rows all have the longest value that a column's dictionary can have."""
_BUFFER_BYTES: Final = 1 << 20
_HEADER_BYTES: Final = 32
_I32_FIELD: Final = 0x15
"""The first byte of a field of Thrift's compact protocol: a 32-bit integer with the next number."""
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

    A list may have one value of the dictionary any number of times, in no room. So such columns are read twice, the
    first time as numbers of values. Raises LongRowError if the strings of a row have more than _SHARED_BYTES.
    """
    leaves = map(file.schema.column, range(len(file.schema)))
    within = [leaf.path for leaf in leaves if leaf.max_repetition_level and leaf.physical_type == "BYTE_ARRAY"]
    roots = file.schema_arrow.names if paths is None else paths
    roots = [root for root in roots if any(path.startswith(f"{root}.") for path in within)]
    if not roots:
        return BATCH_ROWS
    options = {"metadata": file.metadata, "read_dictionary": within}
    if "arrow_extensions_enabled" in signature(arrow.parquet.ParquetFile).parameters:  # from pyarrow 21 on
        options["arrow_extensions_enabled"] = False  # JSON is no string, and comes without a dictionary
    coded, size = open_parquet(arrow, handle, **options), 0
    for rows in (BATCH_ROWS, 8, 1):
        for batch in coded.iter_batches(rows, row_groups=[group], columns=roots, use_threads=False):
            if (size := sum(_listed_bytes(arrow, column) for column in batch.columns)) > _SHARED_BYTES:
                break
        else:
            return rows
    raise LongRowError(f"{size >> 20:,} MB in the lists of {' and '.join(roots)[:200]}")


def _listed_bytes(arrow: Any, column: Any) -> int:
    """Return the bytes of the strings in a column's lists and structs, where they are numbers of a dictionary."""
    if isinstance(column, arrow.DictionaryArray):
        lengths = arrow.compute.binary_length(column.dictionary)
        return arrow.compute.sum(lengths.take(column.indices)).as_py() or 0
    if isinstance(column, arrow.ExtensionArray):
        return _listed_bytes(arrow, column.storage)
    if isinstance(column, arrow.MapArray):
        within = [column.keys, column.items]
    elif isinstance(column, arrow.StructArray):
        within = column.flatten()
    else:
        within = [column.flatten()] if hasattr(column, "flatten") else []  # a list of any kind
    return sum(_listed_bytes(arrow, one) for one in within)


def _rows_at_once(file: Any, handle: OpenFile, group: int, paths: Sequence[str] | None) -> int:
    """Return how many rows of a group to read at once: BATCH_ROWS, or fewer for about BATCH_BYTES.

    If a column unpacks to far more than the file has, each of its values may be as long as all of it. Otherwise
    each may be as long as its dictionary.
    """
    metadata, total, row, dictionary = file.metadata.row_group(group), 0, 1, 1
    for leaf in range(metadata.num_columns):
        path = file.schema.column(leaf).path
        if paths is not None and not any(path == one or path.startswith(f"{one}.") for one in paths):
            continue
        column = metadata.column(leaf)
        unpacked, packed = column.total_uncompressed_size, column.total_compressed_size
        total += unpacked
        if unpacked > _PLAUSIBLE_RATIO * packed:
            row = max(row, unpacked)
        elif unpacked * BATCH_ROWS > _SHARED_BYTES and column.has_dictionary_page:
            dictionary = max(dictionary, _unpacked_size(handle, column.dictionary_page_offset))
    row = max(row, total // max(1, metadata.num_rows))
    rows: int = min(BATCH_ROWS, BATCH_BYTES // row, _SHARED_BYTES // dictionary)
    return max(1, rows)


def _unpacked_size(handle: OpenFile, offset: int) -> int:
    """Return the unpacked bytes of the page that begins here; 0 if no header of a page does.

    pyarrow does not tell it. A header begins with the page's type and this size, in Thrift's compact protocol
    (parquet.thrift, "PageHeader"). pyarrow refuses a page that unpacks to more.
    """
    handle.seek(offset)
    head = handle.read(_HEADER_BYTES) or b""
    at, number = 0, 0
    for _ in range(2):
        if at >= len(head) or head[at] != _I32_FIELD:
            return 0
        at, number, shift = at + 1, 0, 0
        while at < len(head) and head[at] & 0x80:
            number, shift, at = number | (head[at] & 0x7F) << shift, shift + 7, at + 1
        number |= (head[at] if at < len(head) else 0) << shift
        at += 1
    return number >> 1  # zigzag, and not negative
