"""Remembers the origin of each name, both as hashes of 64 bits, in little more memory than they take."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

import numpy as np

from simstream.hash_secret import process_secret
from simstream.model import U64

_FIRST_BITS: Final = 4
MAX_PART_NAMES: Final = 1024
_WORD: Final = (1 << 64) - 1


class NameOrigins:
    """The first origin of each name.

    Names lie in sorted parts, by the upper bits of a product with a secret factor: strangers cannot crowd a part.
    Memory: some 18 bytes a name, as parts grow evenly and are never copied together. Cost: about 1 us a name.
    """

    def __init__(self, most: int = MAX_PART_NAMES) -> None:
        """`most`: as soon as parts have so many names on average, each is cut in two."""
        self._most = most
        self._factor = int(process_secret().first) | 1
        self._shift = 64 - _FIRST_BITS
        self._names = [array("Q") for _ in range(1 << _FIRST_BITS)]
        self._origins = [array("Q") for _ in range(1 << _FIRST_BITS)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def first(self, name: int, origin: int) -> int:
        """Return the origin of a name. A new name takes `origin`."""
        part = (name * self._factor & _WORD) >> self._shift
        names, origins = self._names[part], self._origins[part]
        at = bisect_left(names, name)
        if at < len(names) and names[at] == name:
            return origins[at]
        names.insert(at, name)
        origins.insert(at, origin)
        self._count += 1
        if self._count > len(self._names) * self._most:
            self._split()
        return origin

    def _split(self) -> None:
        """Cut each part in two by the next bit of its names' products. Cost: some 10 us a part."""
        self._shift -= 1
        self._names.reverse()
        self._origins.reverse()
        names: list[array[int]] = []
        origins: list[array[int]] = []
        factor, one = np.uint64(self._factor), np.uint64(1)
        while self._names:
            old, of = np.frombuffer(self._names.pop(), np.uint64), np.frombuffer(self._origins.pop(), np.uint64)
            upper = old * factor >> np.uint64(self._shift) & one == one
            names += [_array(old[~upper]), _array(old[upper])]
            origins += [_array(of[~upper]), _array(of[upper])]
        self._names, self._origins = names, origins


def _array(values: U64) -> array[int]:
    return array("Q", values.tobytes())
