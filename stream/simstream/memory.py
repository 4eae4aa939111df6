"""Allocates large arrays so that the operating system gets their memory back as soon as they are dropped.

The C library keeps freed blocks of up to 32 MB, and each thread has a heap of its own: after merges in the
background the process held twice what the index did.
"""

from __future__ import annotations

import mmap
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

_OWN: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_AT_ONCE: Final = getattr(mmap, "MAP_POPULATE", 0)
_MIN_MAPPED_BYTES: Final = 1 << 16
"""Smaller arrays would waste half a page of 4,096 bytes each."""
Shape = int | tuple[int, ...]


def zeros(shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros; what is never written to takes no memory."""
    return _array(shape, np.dtype(dtype), _OWN)


def filled(shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros that is about to be written from end to end: all memory is taken at once."""
    return _array(shape, np.dtype(dtype), _OWN | _AT_ONCE)


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of an array in such memory."""
    out = filled(array.shape, array.dtype)
    out[:] = array
    return out


def _array(shape: Shape, dtype: np.dtype[Any], flags: int) -> NDArray[Any]:
    size = (shape if isinstance(shape, int) else prod(shape)) * dtype.itemsize
    if size < _MIN_MAPPED_BYTES:
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype, size // dtype.itemsize).reshape(shape)
