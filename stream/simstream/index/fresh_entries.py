"""Holds the columns of entries that no segment has yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.errors import StateDamaged
from simstream.files.failures import START_OVER
from simstream.files.snapshot_part import SnapshotPart
from simstream.index.keys import KeyColumns, frozen
from simstream.index.packed import is_like
from simstream.kernels.index.entry_numbers import NUMBER_MASK
from simstream.model import U64

MEMTABLE = "memtable"
"""Name and kind of their part in a snapshot."""


class MemtableFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of the part, besides its arrays."""

    count: int
    live: int
    """The live entries of the whole index."""
    next: int
    """The number of the next segment."""
    segments: int
    distance: int
    sketch_words: int
    further: int = 0


class FreshEntries(NamedTuple):
    """Entries in the order they came. Sketches begin with the further fingerprints, as in `KeyColumns`."""

    fingerprints: U64  # (n,)
    sketches: U64  # (n, S)
    rows: NDArray[np.uint32]  # (n,)
    buckets: NDArray[np.int64]  # (n,)

    def where(self, chosen: NDArray[np.bool_]) -> FreshEntries:
        """Return the chosen entries."""
        return FreshEntries(*(column[chosen] for column in self.columns))

    def draw(self, number: int) -> U64:
        """Return the values of one draw, 0 for the fingerprints; contiguous and read-only."""
        return frozen(self.fingerprints if number == 0 else self.sketches[:, number - 1], np.uint64)

    def are_near(self, draw: int, fingerprint: int, distance: int) -> NDArray[np.bool_]:
        """Return for each entry (n,) whether its value of this draw is within `distance` of `fingerprint`."""
        near: NDArray[np.bool_] = np.bitwise_count(self.draw(draw) ^ np.uint64(fingerprint)) <= distance
        return near

    def followed_by(self, more: FreshEntries) -> FreshEntries:
        """Return these entries, then `more`."""
        return FreshEntries(*(np.concatenate(both) for both in zip(self.columns, more.columns, strict=True)))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return all columns."""
        return tuple(self)

    @classmethod
    def of_keys(cls, entries: NDArray[Any], keys: KeyColumns, buckets: NDArray[np.int64] | None) -> FreshEntries:
        """Return entries with keys (n,) and numbers (n,), in `buckets` (n,) or in bucket 0.

        Raises ValueError for other shapes, or for a number out of range.
        """
        numbers, count = as_numbers(entries), len(keys.fingerprints)
        own = np.zeros(count, np.int64) if buckets is None else np.ascontiguousarray(buckets, np.int64)
        if numbers.shape != (count,) or own.shape != (count,):
            raise ValueError(f"entries are {numbers.shape} and buckets {own.shape}, not {(count,)}")
        rows = numbers | (keys.short.astype(np.uint32) << np.uint32(31)) if len(keys.short) else numbers
        return cls(keys.fingerprints, keys.sketches, rows, own)

    @classmethod
    def of_part(cls, part: SnapshotPart, count: int, sketch_words: int) -> FreshEntries:
        """Return the `count` entries of a part; also check its other arrays. Raises StateDamaged."""
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
    """Return the numbers of entries as uint32. Raises ValueError for a number out of range."""
    if len(entries) and (int(entries.min()) < 0 or int(entries.max()) > NUMBER_MASK):
        raise ValueError(f"an entry's number is out of range: numbers are 0 to {NUMBER_MASK}")
    return np.ascontiguousarray(entries, np.uint32)
