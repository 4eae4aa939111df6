"""Reads the earlier versions of all pages of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.judge.directory import PageDirectory
from simstream.judge.numbers import Age, Row
from simstream.judge.pages.store import PageRecord, PageStore
from simstream.judge.row_table import RowTable
from simstream.model import U64

NONE: Final[tuple[EarlierVersion, ...]] = ()


class EarlierVersion(msgspec.Struct, frozen=True, gc=False):
    """What a page's next version needs of it: the fields of `candidates.ComparedPage`, its row and its age."""

    row: Row
    identity: bytes
    age: Age
    fingerprint: int
    sketch: int
    short: bool

    @classmethod
    def of(cls, record: PageRecord, row: Row) -> EarlierVersion:
        """Return the earlier version that this record holds."""
        return cls(row, record.identity, record.age, record.fingerprint, record.sketch, record.short)


def versions(
    directory: PageDirectory, rows: RowTable, pages: PageStore, identities: U64
) -> list[Sequence[EarlierVersion]]:
    """Return for each of n identities (n, 2) the pages that may be its live page: nearly always one or none.

    They may change later, so check them again before use. Raises StateDamaged.
    """
    starts, found = directory.candidates(identities)
    if not len(found):
        return [NONE] * len(identities)
    known = _read(rows, pages, found)
    ends = starts.tolist()
    return [known[ends[i] : ends[i + 1]] for i in range(len(identities))]


def _read(rows: RowTable, pages: PageStore, found: NDArray[np.uint32]) -> list[EarlierVersion]:
    records = pages.records(rows.table.column("cold")[found])
    identities, sketches = records["identity"].tobytes(), records["sketch"].tobytes()
    width = records["sketch"].shape[1] * 8
    columns = (found, records["age"], records["fingerprint"], records["short"] != 0)
    return [
        EarlierVersion(
            row,
            identities[16 * i : 16 * i + 16],
            age,
            fingerprint,
            int.from_bytes(sketches[width * i : width * i + width], "little"),
            short,
        )
        for i, (row, age, fingerprint, short) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
    ]
