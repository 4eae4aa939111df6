"""Allocates large arrays so that the operating system gets their memory back as soon as they are dropped.

The C library keeps freed blocks of up to 32 MB, and each thread has a heap of its own: after merges in the
background the process held twice what the index did.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

_OWN: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_AT_ONCE: Final = getattr(mmap, "MAP_POPULATE", 0)
_MIN_MAPPED_BYTES: Final = 1 << 16
"""Smaller arrays would waste half a page of 4,096 bytes each."""
_MIN_FILE_BYTES: Final = 1 << 20
"""Smaller arrays are not worth a file of their own, which takes a descriptor."""
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


class ArrayRoom:
    """Where large arrays lie that live long: in memory, or in nameless files of a folder.

    The system writes such files to the disk, and takes their memory back whenever it needs it. They end with their
    arrays, and with the process. An array for which the folder has no room lies in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder if hasattr(os, "posix_fallocate") else None

    def zeros(self, shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of zeros."""
        held = self._mapped(_size(shape, np.dtype(dtype)))
        return zeros(shape, dtype) if held is None else np.frombuffer(held, dtype).reshape(shape)

    def copied(self, array: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return a copy of an array, of its own or of another type."""
        out = self.zeros(array.shape, array.dtype if dtype is None else dtype)
        out[:] = array
        return out

    def _mapped(self, size: int) -> mmap.mmap | None:
        """Return a new file as memory; its blocks are reserved, so that writing to it cannot fail."""
        if self._folder is None or size < _MIN_FILE_BYTES:
            return None
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                os.posix_fallocate(file.fileno(), 0, size)
                return mmap.mmap(file.fileno(), size)
        except OSError:
            return None


IN_MEMORY: Final = ArrayRoom()


def _array(shape: Shape, dtype: np.dtype[Any], flags: int) -> NDArray[Any]:
    size = _size(shape, dtype)
    if size < _MIN_MAPPED_BYTES:
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype).reshape(shape)


def _size(shape: Shape, dtype: np.dtype[Any]) -> int:
    return (shape if isinstance(shape, int) else prod(shape)) * dtype.itemsize
