"""Reads Parquet files as pages (extra `parquet`): a page a row, in batches of few rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Final
from uuid import UUID

import msgspec

from simstream.errors import InputError, UsageError
from simstream.model import Record
from simstream.sources.arrow import load_pyarrow
from simstream.sources.fields import KNOWN, FieldNames, encoded, integer_of, page_columns, steps_of
from simstream.sources.input_files import path_id, shown_path
from simstream.sources.lines import CountedFile
from simstream.sources.row_groups import batches_of, open_parquet, parquet_damaged
from simstream.wire.field_paths import Steps, value_at
from simstream.wire.page import NO_TIME, own_name, time_ms

PageValue = tuple[bytes | None, bytes, tuple[tuple[str, bytes], ...]]
"""Key, value and headers of a page's record."""
_NO_HEADERS: Final = ("id", "title", "text", "html")
"""The fields that are no headers of a page in raw bytes."""


def parquet_pages(handle: CountedFile, path: str, limit: int, fields: FieldNames) -> Iterator[Record]:
    """Yield the rows in order, as records like those of JSONL: offset and name are the row's number.

    Reads only the columns of a page's fields (see `FieldNames`), and of a struct only the named fields, unless its
    column has the name of a page's field. A number as `id` counts in decimal, a whole float as an integer.
    Timestamps and dates are times, and so are numbers of ms of any type. A binary `html`, or else `text`, is raw
    bytes as fetched; their character set is found. Memory: a page of each read column, unpacked, and 64 rows with
    at most `limit` bytes a value. Raises Unavailable without pyarrow, UsageError if the text or a named field has
    no column, a field has two, or values cannot be ids, and InputError if the file is damaged.
    """
    arrow = load_pyarrow("reading Parquet")
    row, prefix, topic = 0, path_id(path) + b":", shown_path(path)
    if not handle.seekable():
        raise InputError(f"{topic} is a pipe, and Parquet is read from its end", "save it to a file first")
    size = handle.seek(0, os.SEEK_END)
    try:
        with open_parquet(arrow, handle) as file:
            fields.check(names := file.schema_arrow.names, topic, "the file")
            wanted = page_columns(names, topic, fields)
            total = max(1, file.metadata.num_rows)
            paths = list(_paths_of(arrow, file.schema_arrow, wanted, fields))
            groups = (
                batches_of(arrow, file, handle, group, paths) for group in range(file.metadata.num_row_groups)
            )
            for batch in chain.from_iterable(groups):
                for key, value, headers in page_values(arrow, batch, limit, fields):
                    row += 1
                    yield Record(topic, 0, row - 1, key or prefix + b"%d" % row, value, headers, NO_TIME)
                handle.taken = size * row // total
    except (arrow.ArrowException, OSError) as error:
        raise parquet_damaged(path, error, f"; {row:,} rows were read") from error
    handle.taken = size


def _paths_of(arrow: Any, schema: Any, columns: Sequence[str], fields: FieldNames) -> Iterator[str]:
    """Yield the paths to read: a column, or only the named fields of a struct."""
    ways = [steps_of(name, schema.names) for name in (fields.text, fields.id) if name is not None]
    for name in columns:
        within, kind = [steps for steps in ways if steps[0] == name], schema.field(name).type
        if name in fields.known or not all(_has_field(arrow, kind, steps[1:]) for steps in within):
            yield name
        else:
            yield from map(".".join, within)


def _has_field(arrow: Any, kind: Any, steps: Steps) -> bool:
    """Whether the steps lead through structs to a field."""
    for step in steps:
        if not arrow.types.is_struct(kind) or kind.get_field_index(step) < 0:
            return False
        kind = kind.field(step).type
    return True


def page_values(arrow: Any, batch: Any, limit: int, fields: FieldNames) -> Iterator[PageValue]:
    """Yield key, value and headers of each row of a batch of `page_columns`; a key of None: the row has no name."""
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in filter(None, (fields.text, fields.id)):
        found[name] = _column_at(arrow, found, steps_of(name, found))
    columns = fields.rename_fields(found)
    theirs = {"text": fields.text, "id": fields.id}
    cut = {name: _cut(arrow, column, limit + 1) for name, column in columns.items()}
    values = [_values(name, theirs.get(name), column, arrow) for name, column in cut.items()]
    for cells in zip(*values, strict=True):
        key, value, headers = _record(dict(zip(columns, cells, strict=True)), limit)
        yield key, value[: limit + 1], headers


def _cut(arrow: Any, column: Any, most: int) -> Any:
    """Return the column without more than `most` bytes of each value, if these are bytes or strings.

    A page with such a value is too large, whatever follows. A string that is cut within a character is not UTF-8.
    """
    kind, types = column.type, arrow.types
    if types.is_dictionary(kind):
        cut = _cut(arrow, column.dictionary, most)
        return arrow.DictionaryArray.from_arrays(column.indices, cut).dictionary_decode()
    if types.is_string(kind) or types.is_binary(kind):
        raw = arrow.binary()
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        raw = arrow.large_binary()
    else:
        return column
    longest = arrow.compute.max(arrow.compute.binary_length(column)).as_py()
    if longest is None or longest <= most:
        return column
    return arrow.compute.binary_slice(column.view(raw), 0, most).view(kind)


def _column_at(arrow: Any, columns: Mapping[str, Any], steps: Steps) -> Any:
    """Return the column at the end of the way through structs. Raises UsageError if the way ends before."""
    first, *within = steps
    column = columns[first]
    try:
        for step in within:
            column = arrow.compute.struct_field(column, step)
    except arrow.ArrowException:
        raise UsageError(
            f"there is no column {'.'.join(steps)}: {first} has the type {columns[first].type}",
            f"name {first}, or a field of its struct",
        ) from None
    return column


def _values(name: str, named: str | None, column: Any, arrow: Any) -> list[Any]:
    """Return the values of a field as JSON has them: times in ms since 1970, names as strings.

    `named`: the column's name, if the user gave it. Raises UsageError if the values cannot be read.
    """
    shown = named or name
    is_time = arrow.types.is_timestamp(column.type) or arrow.types.is_date(column.type)
    if name == "id" and (is_time or arrow.types.is_boolean(column.type)):
        raise _no_ids(shown, column)
    if is_time:
        column = column.cast(arrow.timestamp("ms"), safe=False).cast(arrow.int64())
    if _is_span(column.type, arrow):
        raise _unreadable(shown, column)
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # pyarrow leaves the strings of a file unchecked
        values = _values_of_bytes(shown, column, arrow)
    except (ValueError, OverflowError, KeyError) as error:  # such as nanoseconds, or an unknown time zone
        raise _unreadable(shown, column) from error
    if name == "status" or name not in KNOWN:
        return [integer_of(value) for value in values]
    if name == "time":
        return [time_ms(float(value)) if isinstance(value, float | Decimal) else value for value in values]
    if name == "id":
        bits = column.type.bit_width if arrow.types.is_floating(column.type) else 64
        names = [integer_of(value, bits) for value in values]
        if not all(isinstance(value, str | bytes | int | UUID | None) for value in names):
            raise _no_ids(shown, column)
        return [str(value) if isinstance(value, int | UUID) else _text(value) for value in names]
    if name == "text" and named is not None:
        return [value_at(value, (), is_joined=True) for value in values]
    return [_text(value) for value in values] if name in ("url", "title") else values


def _no_ids(shown: str, column: Any) -> UsageError:
    return UsageError(
        f"the column {shown} has values of the type {column.type}, which cannot be ids",
        "convert it to text, or take another column for the id",
    )


def _is_span(kind: Any, arrow: Any) -> bool:
    """Return whether values are times of day or durations: if pandas is there, pyarrow makes its types of them."""
    inner = (kind.field(place).type for place in range(kind.num_fields))
    return (
        arrow.types.is_time(kind) or arrow.types.is_duration(kind) or any(_is_span(each, arrow) for each in inner)
    )


def _values_of_bytes(name: str, column: Any, arrow: Any) -> list[Any]:
    try:
        return [_text(value) for value in column.cast(arrow.binary()).to_pylist()]
    except arrow.ArrowException as error:
        raise _unreadable(name, column) from error


def _unreadable(name: str, column: Any) -> UsageError:
    return UsageError(
        f"the column {name} has values of the type {column.type} that cannot be read",
        "leave the column out, or convert it to text or whole numbers",
    )


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _record(page: dict[str, Any], limit: int) -> PageValue:
    """Return key, value and headers of a row; a key of None stands for the row's number."""
    if page.get("text") is not None and page.get("html") is not None:
        del page["html"]
    named: Any = page.get("id") or page.get("url")
    for name, media in (("text", b"text/plain"), ("html", b"text/html")):
        if isinstance(raw := page.get(name), bytes):
            told = ((name, value) for name, value in page.items() if name not in _NO_HEADERS and value is not None)
            headers = [(name, str(value).encode("utf-8", "surrogateescape")) for name, value in told]
            key = str(named).encode("utf-8", "surrogateescape") if named else None
            return key, raw, (("content-type", media), *headers)
    try:
        line, is_own = msgspec.json.encode(page), isinstance(named, str)
    except UnicodeEncodeError:
        line, is_own = encoded(page), False
    if len(line) > limit:
        return None, line, ()
    return named.encode() if is_own else own_name(line), line, ()
