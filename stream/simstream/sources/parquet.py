"""Reads Parquet files as pages (extra `parquet`): a page a row, in batches of few rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from simstream.errors import InputError, Unavailable
from simstream.model import Record
from simstream.sources.fields import KNOWN, FieldNames, encoded
from simstream.sources.input_files import path_id, shown_path
from simstream.sources.lines import CountedFile
from simstream.wire.page import NO_TIME, own_name

_BATCH_ROWS: Final = 64
"""Rows come few at a time: a file of some KB may hold the same MB in each of its rows."""
_BUFFER_BYTES: Final = 1 << 20


def parquet_pages(handle: CountedFile, path: str, limit: int, fields: FieldNames) -> Iterator[Record]:
    """Yield the rows in order, as records like those of JSONL: offset and name are the row's number.

    Reads only the columns of a page's fields (see `FieldNames`). A number as `id` counts in decimal. Timestamps and
    dates are times. A binary `html`, or else `text`, is raw bytes as fetched; their character set is found. Memory:
    a page of each read column, and 64 rows. Raises Unavailable without pyarrow, UsageError if the text or a named
    field has no column, InputError if the file is damaged.
    """
    arrow, parquet = _pyarrow()
    row, prefix, topic = 0, path_id(path) + b":", shown_path(path)
    size = os.stat(path).st_size
    try:
        with parquet.ParquetFile(
            path, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
        ) as file:
            columns = _columns(file.schema_arrow.names, fields, path)
            total = max(1, file.metadata.num_rows)
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                for tree in _plain(batch, arrow).to_pylist():
                    row += 1
                    yield _record(
                        fields.rename_fields(tree), Record(topic, 0, row - 1, prefix + b"%d" % row, b""), limit
                    )
                handle.taken = size * row // total
    except (arrow.ArrowException, OSError) as error:
        what = f"{shown_path(path)} is damaged or not a Parquet file; {row:,} rows were read ({_first(error)})"
        raise InputError(what, "get the file again") from error
    handle.taken = size


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Unavailable(
            "reading Parquet needs pyarrow, which is not installed", "run pip install 'simstream[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet


def _columns(names: list[str], fields: FieldNames, path: str) -> list[str]:
    fields.check(names, shown_path(path), "the file")
    chosen = {*KNOWN, fields.text, fields.id}
    return [name for name in dict.fromkeys(names) if name in chosen]


def _plain(batch: Any, arrow: Any) -> Any:
    """Return the batch with times as ms since 1970 instead of objects."""
    kinds = arrow.types
    for number, column in enumerate(batch.schema):
        if kinds.is_timestamp(column.type) or kinds.is_date(column.type):
            moments = batch.column(number).cast(arrow.timestamp("ms"), safe=False).cast(arrow.int64())
            batch = batch.set_column(number, column.name, moments)
    return batch


def _record(page: dict[str, Any], place: Record, limit: int) -> Record:
    for name in ("id", "url", "title"):
        value = page.get(name)
        if isinstance(value, bytes):
            page[name] = value.decode("utf-8", "surrogateescape")
        elif name == "id" and isinstance(value, int):
            page[name] = str(value)
    if page.get("text") is not None and page.get("html") is not None:
        del page["html"]
    for name, media in (("text", b"text/plain"), ("html", b"text/html")):
        if isinstance(raw := page.get(name), bytes):
            return _raw(page, raw, media, place, limit)
    line = encoded(page)
    key = own_name(line) if len(line) <= limit else None
    return Record(place.topic, 0, place.offset, key or place.key, line[: limit + 1], (), NO_TIME)


def _raw(page: dict[str, Any], raw: bytes, media: bytes, place: Record, limit: int) -> Record:
    headers = [("content-type", media)]
    told = {name: page[name] for name in ("url", "time", "status") if page.get(name) is not None}
    headers.extend((name, str(value).encode("utf-8", "surrogateescape")) for name, value in told.items())
    named = page.get("id") or page.get("url")
    key = str(named).encode("utf-8", "surrogateescape") if named else place.key
    return Record(place.topic, 0, place.offset, key, raw[: limit + 1], tuple(headers), NO_TIME)


def _first(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:200]
