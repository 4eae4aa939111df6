"""The decorator of all kernels: compiled when first called, cached on disk, without the GIL.

numba's cache looks at the source file of the function alone: a kernel whose callee in another file has changed
would go on running the old code. So the cache lies in a folder named by a digest over all kernels' sources.
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
_log = logging.getLogger("simstream.kernels")


@cache
def sources_digest() -> str:
    """16 hex digits over the source files of all kernels."""
    digest = blake2b(digest_size=8)
    for path in sorted(_HERE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


LEAN: Final[Mapping[str, Any]] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
"""numba's option to count no references: an array that is handed to a function costs two atomic additions,
and in a loop the pairs are not always found to be superfluous. A numba without it only makes kernels slower."""


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """`njit(nogil=True, cache=True)` with the cache in the folder of these sources.

    It lies below the folder that numba was told of, else beside the sources; where that cannot be written,
    numba's own choice stands. If no folder can be written, each process compiles the kernel anew.
    """
    settings: Any = config  # made of environment variables at run time, unknown to type checkers
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
    _log.warning(
        "no folder for compiled kernels can be written, so each start compiles them anew: "
        "set NUMBA_CACHE_DIR to a folder that can be written"
    )


def lean_kernel(function: Callable[..., Any]) -> Any:
    """`kernel` for what makes no array and keeps none: it counts no references."""
    return kernel(function, **LEAN)
