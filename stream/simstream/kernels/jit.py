"""The decorator of all kernels: compiled when first called, cached on disk, without the GIL.

numba's cache checks only the source file of the function. If a callee in another file changed, a kernel would go on
with the old code. So the cache lies in a folder named by a digest over all kernels' sources.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from numba import config, njit
from numba.core.options import DefaultOptions

_HERE = Path(__file__).parent
_logger = logging.getLogger("simstream.kernels")


@cache
def sources_digest() -> str:
    """Return 16 hex digits over the source files of all kernels."""
    digest = blake2b(digest_size=8)
    for path in sorted(_HERE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


LEAN: Final[Mapping[str, Any]] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
"""numba's option to count no references. An array argument costs two atomic additions, and in a loop numba does not
always remove them. A numba without this option only makes kernels slower."""


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile with `njit(nogil=True, cache=True)`, with the cache in the folder of these sources.

    The folder lies below NUMBA_CACHE_DIR if it is set, else beside the sources. If it cannot be written, numba
    chooses a folder. If no folder can be written, each process compiles the kernel again.
    """
    settings: Any = config  # numba makes it from environment variables at run time, so type checkers do not know it
    before = settings.CACHE_DIR
    beside = _HERE / "__pycache__"
    if before or os.access(beside if beside.is_dir() else _HERE, os.W_OK):
        settings.CACHE_DIR = str(Path(before or beside) / f"kernels-{sources_digest()}")
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # numba has tried every folder that it knows
        _tell_once()
        return njit(nogil=True, **options)(function)
    finally:
        settings.CACHE_DIR = before


@cache
def _tell_once() -> None:
    _logger.warning(
        "no folder for compiled kernels can be written, so each start compiles them again: "
        "set NUMBA_CACHE_DIR to a folder that can be written"
    )


def lean_kernel(function: Callable[..., Any]) -> Any:
    """Compile as `kernel` does, without reference counts: for functions that make and keep no array."""
    return kernel(function, **LEAN)
