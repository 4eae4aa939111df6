"""Reads the verdicts that patterns are learned from: of a topic, or of files that `dedup` has written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import IO, Any, Final

import msgspec

from simstream.errors import InputError, UsageError
from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import VERDICTS
from simstream.sources.arrow import load_pyarrow
from simstream.sources.input_files import STDIN, FileKind, InputFile, opened_at_rest, shown_path
from simstream.sources.lines import CountedFile, lines, standard_input, unpacked
from simstream.sources.row_groups import batches_of, open_parquet, parquet_damaged
from simstream.tools.patterns.seen_pages import PatternVerdict
from simstream.wire import verdict as wire

MAX_LINE_BYTES: Final = 1 << 20
_BATCH: Final = 1_000
_TODO: Final = "give verdicts, as `simstream dedup -o` writes them"
_decode = msgspec.json.Decoder(PatternVerdict).decode


def of_topic(log: Log) -> Iterator[PatternVerdict]:
    """Yield the committed verdicts of a log. Raises what `committed` raises, and LogDamaged."""
    for records in committed(log, VERDICTS, _BATCH):
        for record in records:
            try:
                yield _decode(wire.as_json(record.value or b""))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise wire.no_verdict(error) from error


def of_file(file: InputFile) -> Iterator[PatternVerdict]:
    """Yield the verdicts of a file of JSON lines or of a Parquet file.

    Raises UsageError for a file of another kind, InputError for a damaged file and for a line or row that is no
    verdict, StoreError, and Unavailable without pyarrow.
    """
    name = shown_path(file.path)
    if file.kind not in (FileKind.JSONL, FileKind.PARQUET):
        raise UsageError(f"{name} holds no verdicts", _TODO)
    if file.path == STDIN:
        yield from _of_lines(standard_input(), STDIN)
        return
    with opened_at_rest(file.path) as handle:
        reader = _of_lines if file.kind is FileKind.JSONL else _of_rows
        yield from reader(CountedFile(handle), file.name)


def _of_lines(handle: CountedFile, path: str) -> Iterator[PatternVerdict]:
    for number, line in lines(unpacked(handle, path), shown_path(path), MAX_LINE_BYTES):
        try:
            yield _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _no_verdict(path, f"line {number}", error) from error


def _of_rows(handle: IO[bytes] | CountedFile, path: str) -> Iterator[PatternVerdict]:
    arrow: Any = load_pyarrow("reading Parquet")
    number = 0
    try:
        with open_parquet(arrow, handle) as file:
            columns = [name for name in PatternVerdict.__struct_fields__ if name in file.schema_arrow.names]
            groups = range(file.metadata.num_row_groups)
            for batch in chain.from_iterable(batches_of(arrow, file, handle, group, columns) for group in groups):
                for row in batch.to_pylist():
                    number += 1
                    yield msgspec.convert(_as_json(row), PatternVerdict)
    except msgspec.MsgspecError as error:
        raise _no_verdict(path, f"row {number or 1}", error) from error
    except (arrow.ArrowException, OSError) as error:
        raise parquet_damaged(path, error) from error


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with cluster ids as in JSON, where they are decimal strings."""
    if isinstance(cluster := row.get("cluster_id"), int):
        row["cluster_id"] = str(cluster)
    row["merged_clusters"] = list(map(str, row.get("merged_clusters") or []))
    return row


def _no_verdict(path: str, place: str, error: Exception) -> InputError:
    return InputError(f"{shown_path(path)}, {place} is no verdict ({str(error)[:100]})", _TODO)
