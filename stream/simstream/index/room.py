"""Allocates large arrays in mapped memory, which goes back to the system at once."""

from __future__ import annotations

from math import prod
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_MAPPED_BYTES = 1 << 17


def room(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """As `np.empty`, but a large array has pages of its own.

    The C library keeps freed blocks of up to 32 MB, and each thread has a heap of its own: after merges in the
    background the process held twice what the index did. Large ones are filled with zeros.
    """
    sizes = (shape,) if isinstance(shape, int) else shape
    count = prod(sizes)
    size = count * np.dtype(dtype).itemsize
    if size < MIN_MAPPED_BYTES:
        return np.empty(sizes, dtype)
    pages = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype, count).reshape(sizes)
