"""Lays out a record of the page store: ordinal, age, time, identity, fingerprint, sketch, id."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from mmh3 import mmh3_x64_128_digest
from numpy.typing import NDArray

from simstream.judge.numbers import Age, Ordinal, Row

Records = NDArray[np.void]
"""(n,) records in the type that `RecordLayout.dtype` gives."""
CHECK_BYTES: Final = 8


class PageRecord(NamedTuple):
    """One version of a page."""

    ordinal: Ordinal
    age: Age
    """The ordinal at which it joined its cluster."""
    time: int
    identity: bytes
    fingerprint: int
    sketch: int
    """The column `sketch` as one integer, words little-endian; see `model.lookup_values`."""
    short: bool
    row: Row
    id: str


class RecordFields(NamedTuple):
    """A record without its id, which is stored separately."""

    ordinal: Ordinal
    age: Age
    time: int
    identity: bytes
    fingerprint: int
    sketch: bytes
    row: Row
    id_start: int
    id_length: int
    short: int
    spare: int
    id_check: int


class RecordLayout:
    """The layout of a record with `sketch_words` words of sketch, in memory and on disk.

    `kernels/judge/page_records` has the checks.
    """

    def __init__(self, sketch_words: int) -> None:
        self.sketch_words = sketch_words
        self.dtype: np.dtype[Any] = np.dtype(
            [
                ("ordinal", "<i8"),
                ("age", "<i8"),
                ("time", "<i8"),
                ("identity", "<u8", (2,)),
                ("fingerprint", "<u8"),
                ("sketch", "<u8", (sketch_words,)),
                ("row", "<u4"),
                ("id_start", "<u4"),
                ("id_length", "<u2"),
                ("short", "u1"),
                ("spare", "u1"),
                ("id_check", "<u4"),
                ("check", "<u8"),
            ]
        )
        self.words = self.dtype.itemsize // 8
        self.size = self.dtype.itemsize
        self._fields = Struct(f"<qqq16sQ{8 * sketch_words}sIIHBBI")

    def fields(self, data: bytes | memoryview, offset: int = 0) -> RecordFields:
        """Return the record at `offset`."""
        return RecordFields._make(self._fields.unpack_from(data, offset))


def agrees(record: bytes) -> bool:
    """Whether a record's bytes and their check agree."""
    return mmh3_x64_128_digest(record[:-CHECK_BYTES])[:CHECK_BYTES] == record[-CHECK_BYTES:]


def id_agrees(raw_id: bytes, check: int) -> bool:
    """Whether an id's bytes and the check in its record agree."""
    return int.from_bytes(mmh3_x64_128_digest(raw_id)[:4], "little") == check


def page(fields: RecordFields, raw_id: bytes) -> PageRecord:
    """Return a record with its id."""
    return PageRecord(
        fields.ordinal,
        fields.age,
        fields.time,
        fields.identity,
        fields.fingerprint,
        int.from_bytes(fields.sketch, "little"),
        fields.short != 0,
        fields.row,
        raw_id.decode(),
    )
