"""Groups records into batches of a few megabytes for the fingerprinter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simstream.errors import InputError
from simstream.model import Record

MAX_PAGES = 512
MAX_BYTES = 4 << 20


def record_batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the records in groups of at most MAX_PAGES and about MAX_BYTES.

    If `records` raises InputError, the records before it come first, and then the error.
    """
    batch: list[Record] = []
    size = 0
    try:
        for record in records:
            batch.append(record)
            size += len(record.value or b"")
            if size >= MAX_BYTES or len(batch) >= MAX_PAGES:
                yield batch
                batch, size = [], 0
    except InputError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
