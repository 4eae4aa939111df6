"""Says which part of every table a shard owns: a contiguous range of leading bytes.

Shard s of S owns the leading bytes from 256 s/S to 256 (s + 1)/S of every permuted table. A flipped prefix is
looked up in the shard that owns *its* leading byte. So the probes of a page are divided among the shards, and no
probe is made twice. An entry is in each shard that owns its prefix in some table.

Source: Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling (2007), section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.errors import SettingsError
from simstream.model import U64

MAX_SHARDS: Final = 256


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `count`, a power of two."""

    number: int
    count: int

    @property
    def bits(self) -> int:
        """How many first bits of a rotated value say which shard owns it."""
        return self.count.bit_length() - 1

    def owns(self, values: U64, rotations: Sequence[int]) -> NDArray[np.bool_]:
        """Return for each value (n,) whether this shard owns it in a table of any of these rotations (bits)."""
        owned = np.zeros(len(values), np.bool_)
        for rotation in rotations:
            owned |= self.owns_rotated(_rotate(values, rotation))
        return owned

    def owns_rotated(self, table: U64) -> NDArray[np.bool_]:
        """Return for each rotated value (n,) whether its leading byte is in the range of this shard."""
        if self.count == 1:
            return np.ones(len(table), np.bool_)
        leading: NDArray[np.bool_] = table >> np.uint64(64 - self.bits) == np.uint64(self.number)
        return leading

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count}"


WHOLE: Final = Shard(0, 1)
"""The only shard of an index that is not divided."""


def check_count(count: int) -> int:
    """Return a number of shards. Raises SettingsError unless it is a power of two from 1 to 256."""
    if not 1 <= count <= MAX_SHARDS or count & (count - 1):
        raise SettingsError(f"{count} shards are not possible", f"give a power of two from 1 to {MAX_SHARDS}")
    return count


def _rotate(values: U64, rotation: int) -> U64:
    """Return the values (n,) rotated to the left by so many bits."""
    if not rotation:
        return values
    out: U64 = (values << np.uint64(rotation)) | (values >> np.uint64(64 - rotation))
    return out
