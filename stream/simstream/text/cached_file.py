"""Keeps arrays in a cache file, and maps them from there."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import mmh3
import msgspec
import numpy as np
from numpy.typing import NDArray

LAYOUT: Final = 3
"""How arrays lie in a file; part of its name and of its first bytes."""
_MAGIC = b"simstream arrays %d\n" % LAYOUT
_PREFIX = len(_MAGIC) + 16
_ALIGN = 64
Arrays = Mapping[str, NDArray[Any]]


class _ArrayPlace(msgspec.Struct):
    name: str
    dtype: str
    shape: list[int]
    offset: int
    """Bytes from the beginning of the arrays, a multiple of 64."""


class _CacheHeader(msgspec.Struct):
    key: str
    arrays: list[_ArrayPlace]


def cached(cache: Path, name: str, key: str, build: Callable[[], Arrays]) -> Arrays:
    """Return what `build` returns, built once per `cache` folder and key; mapped if the folder has the file.

    A damaged file is built again; if the folder cannot be written, the arrays stay in memory only.
    """
    path = cache / f"{name}-{LAYOUT}-{key}.bin"
    found = read_cache(path, key)
    if found is None:
        built = build()
        _put_in_cache(path, encode(key, built))
        found = read_cache(path, key) or built
    return found


def read_cache(path: Path, key: str) -> Arrays | None:
    """Return the arrays of a cache file, mapped; None if there is no such file, or if it cannot be trusted."""
    try:
        with open(path, "rb") as source:
            # The mapping is private and writable: for the kernels read-only arrays are other types.
            content = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):  # ValueError: the file is empty
        return None
    head, checked = content[:_PREFIX], memoryview(content)[_PREFIX:]
    if head != _MAGIC + mmh3.mmh3_x64_128_digest(checked):
        return None
    begin = _PREFIX + 4 + int.from_bytes(checked[:4], "little")
    header = msgspec.json.decode(content[_PREFIX + 4 : begin], type=_CacheHeader)
    if header.key != key:
        return None
    begin += -begin % _ALIGN
    return {place.name: _array(content, begin, place) for place in header.arrays}


def _array(content: mmap.mmap, begin: int, place: _ArrayPlace) -> NDArray[Any]:
    flat = np.frombuffer(content, np.dtype(place.dtype), math.prod(place.shape), begin + place.offset)
    return flat.reshape(place.shape)


def encode(key: str, arrays: Arrays) -> bytes:
    """Return a cache file: magic, digest of the rest, length of the header, header, arrays; both aligned."""
    body = bytearray()
    places = []
    for name, array in arrays.items():
        places.append(_ArrayPlace(name, array.dtype.str, list(array.shape), len(body)))
        body += array.tobytes()
        body += bytes(-len(body) % _ALIGN)
    header = msgspec.json.encode(_CacheHeader(key, places))
    content = len(header).to_bytes(4, "little") + header
    content += bytes(-(_PREFIX + len(content)) % _ALIGN) + body
    return _MAGIC + mmh3.mmh3_x64_128_digest(content) + content


def _put_in_cache(path: Path, content: bytes) -> None:
    """Put a file in place: at once or not at all. A folder that cannot be written is no error here."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except OSError:
            os.unlink(beside)
            raise
