"""The columns of entries that no segment has yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.errors import StateDamaged
from simstream.files import SnapshotPart
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import Fact
from simstream.index.keys import KeyColumns
from simstream.index.packed import is_like
from simstream.kernels.index.entry_numbers import NUMBER_MASK
from simstream.model import U64

MEMTABLE = "memtable"
"""Name and kind of the part that has them."""


class FreshEntries(NamedTuple):
    """Entries in the order they came."""

    fingerprints: U64  # (n,)
    sketches: U64  # (n, S)
    rows: NDArray[np.uint32]  # (n,)
    buckets: NDArray[np.int64]  # (n,)

    def where(self, chosen: NDArray[np.bool_]) -> FreshEntries:
        """Those that are chosen."""
        return FreshEntries(*(column[chosen] for column in self.columns))

    def followed_by(self, more: FreshEntries) -> FreshEntries:
        """These, then those."""
        return FreshEntries(*(np.concatenate(both) for both in zip(self.columns, more.columns, strict=True)))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """All of them."""
        return tuple(self)

    @classmethod
    def of_keys(cls, entries: NDArray[Any], keys: KeyColumns, buckets: NDArray[np.int64] | None) -> FreshEntries:
        """Keys (n,) under numbers (n,), in bucket 0 where no buckets (n,) are given.

        Errors: ValueError for other shapes, or for what is no number of an entry.
        """
        numbers, count = as_numbers(entries), len(keys.fingerprints)
        own = np.zeros(count, np.int64) if buckets is None else np.ascontiguousarray(buckets, np.int64)
        if numbers.shape != (count,) or own.shape != (count,):
            raise ValueError(f"entries are {numbers.shape} and buckets {own.shape}, not {(count,)}")
        rows = numbers | (keys.short.astype(np.uint32) << np.uint32(31)) if len(keys.short) else numbers
        return cls(keys.fingerprints, keys.sketches, rows, own)

    @classmethod
    def of_part(cls, part: SnapshotPart, sketch_words: int) -> FreshEntries:
        """Those of a part, whose other arrays are looked at too. Errors: StateDamaged."""
        count = whole(part.facts, "count")
        wanted: Mapping[str, tuple[Any, tuple[int, ...] | None]] = {
            "fingerprints": (np.uint64, (count,)),
            "sketches": (np.uint64, (count, sketch_words)),
            "rows": (np.uint32, (count,)),
            "buckets": (np.int64, (count,)),
            "released": (np.uint64, None),
            "dropped": (np.uint32, None),
        }
        for name, (dtype, shape) in wanted.items():
            array = part.arrays.get(name)
            if array is None or not is_like(array, dtype, (array.size,) if shape is None else shape):
                raise StateDamaged(f"`{name}` of the memtable is missing or does not fit", START_OVER)
        return cls(**{name: part.arrays[name] for name in cls._fields})


def as_numbers(entries: NDArray[Any]) -> NDArray[np.uint32]:
    """Numbers of entries as uint32. Errors: ValueError for what is none."""
    if len(entries) and (int(entries.min()) < 0 or int(entries.max()) > NUMBER_MASK):
        raise ValueError(f"an entry's number is out of range: they are 0 to {NUMBER_MASK}")
    return np.ascontiguousarray(entries, np.uint32)


def whole(facts: Mapping[str, Fact], name: str) -> int:
    """A fact that is a number. Errors: StateDamaged."""
    fact = facts.get(name)
    if type(fact) is not int:
        raise StateDamaged(f"`{name}` of the memtable is {fact!r} in the place of a number", START_OVER)
    return fact
