"""Turns a table of pages into records, and verdicts into a table, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from simstream.deduper.verdict_columns import as_batch, verdict_columns, verdict_schema
from simstream.errors import UsageError
from simstream.model import PYTHON, Record, Verdict
from simstream.sources.arrow import load_pyarrow
from simstream.sources.fields import FieldNames, page_columns, steps_of
from simstream.sources.parquet import page_values
from simstream.wire.page import NO_TIME

_DOING: Final = "judging a table"
_BATCH_ROWS: Final = 1 << 10
"""Rows that are held as Python objects."""


def table_records(table: Any, first: int, limit: int, fields: FieldNames) -> Iterator[Record]:
    """Yield the record of each row of a table, numbered from `first`.

    Only columns of a page's fields are read. Raises at the first row TypeError, UsageError and Unavailable, as
    `Deduper.judge_table` does.
    """
    if not hasattr(table, "__arrow_c_stream__") or isinstance(table, type):
        kind = type(table).__name__
        raise TypeError(
            f"judge_table takes a table of pyarrow, polars, or pandas 2.2 or later, not a {kind}: "
            "pass its rows to judge, collect() of a lazy frame, or with_format('arrow')[:] of a dataset"
        )
    arrow = load_pyarrow(_DOING)
    try:
        reader = arrow.RecordBatchReader.from_stream(table)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        what = f"the table cannot be read as Arrow ({str(error)[:200]})"
        raise UsageError(what, "pass a table, with values of one type in each column") from error
    names = reader.schema.names
    wanted = page_columns(names, "the table", fields)
    lacks = [
        name for name in (fields.text, fields.id) if name is not None and steps_of(name, names)[0] not in names
    ]
    if fields.text is None and not {"text", "html"} & set(wanted):
        lacks.append("text or html")
    if lacks:
        columns = ", ".join(names[:20]) or "none"
        raise UsageError(
            f"the table has no column {lacks[0]}, but {columns}", "name it with text_field or id_field"
        )
    places = [names.index(name) for name in wanted]
    for whole in _batches(arrow, reader):
        pages = arrow.RecordBatch.from_arrays([whole.column(place) for place in places], wanted)
        yield from batch_records(arrow, pages, first, limit, fields)
        first += pages.num_rows


def batch_records(arrow: Any, pages: Any, first: int, limit: int, fields: FieldNames) -> Iterator[Record]:
    """Yield the record of each row of a RecordBatch of `page_columns`, numbered from `first`."""
    for begin in range(0, pages.num_rows, _BATCH_ROWS):
        for key, value, headers in page_values(arrow, pages.slice(begin, _BATCH_ROWS), limit, fields):
            yield Record(PYTHON, 0, first, key, value, headers, NO_TIME)
            first += 1


def _batches(arrow: Any, reader: Any) -> Iterator[Any]:
    """Yield the batches of a table. Raises UsageError if its stream fails."""
    try:
        yield from reader
    except (arrow.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0][:200]
        raise UsageError(
            f"the table's stream ended with an error ({first})", "pass a table that can be read whole"
        ) from error


def verdict_table(verdicts: Sequence[Verdict]) -> Any:
    """Return the verdicts as a table. Raises Unavailable without pyarrow."""
    arrow = load_pyarrow(_DOING)
    schema = verdict_schema(arrow)
    parts = (verdicts[begin : begin + _BATCH_ROWS] for begin in range(0, len(verdicts), _BATCH_ROWS))
    return arrow.Table.from_batches(
        [as_batch(arrow, schema, verdict_columns(arrow, part)) for part in parts], schema
    ).combine_chunks()
