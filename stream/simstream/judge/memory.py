"""Allocates large arrays in mapped memory, which goes back to the system at once.

What the C library allocates it may keep for itself, up to tens of megabytes at a time, and more in pieces.
"""

from __future__ import annotations

import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_OWN: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_AT_ONCE: Final = getattr(mmap, "MAP_POPULATE", 0)
MIN_MAPPED_BYTES: Final = 1 << 16
"""From so many bytes on; smaller arrays would waste half a page of 4,096 bytes each."""


def zeros(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array (count,) of zeros; what is never written to takes no memory."""
    return _array(count, dtype, _OWN)


def filled(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """As `zeros`, for an array that is about to be written to from end to end: all memory is taken at once."""
    return _array(count, dtype, _OWN | _AT_ONCE)


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """A copy of a flat array in such memory."""
    out = filled(len(array), array.dtype)
    out[:] = array
    return out


def _array(count: int, dtype: np.dtype[Any], flags: int) -> NDArray[Any]:
    size = count * dtype.itemsize
    return (
        np.zeros(count, dtype)
        if size < MIN_MAPPED_BYTES
        else np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype)
    )
