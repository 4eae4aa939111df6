"""Writes and reads sealed files: one immutable part each, arrays to be mapped, every byte under a checksum.

```
 header 64 │ array │ 0… │ array │ 0… │ footer (MessagePack) │ trailer 32
 magic       at multiples of 64        name, kind, facts,     length of the footer, checksum of
 format      padding is zero           arrays: type, shape,   header + footer + length, magic
                                       offset, checksum
``` The file ends with the trailer, and the arrays follow one another without holes, so no byte is left over. The
footer has the checksums of the arrays, so the trailer's checksum covers the whole file. The manifest names it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simstream.files import checksum, dtypes, header
from simstream.files.checksum import Checksum
from simstream.files.failures import damaged, reading
from simstream.files.file_system import FileSystem
from simstream.files.snapshot_part import SnapshotPart

ALIGN_BYTES: Final = 64
_TRAILER: Final = struct.Struct("<Q16s8s")
_PADDING: Final = bytes(ALIGN_BYTES)
_WINDOW_BYTES: Final = 8 * checksum.BLOCK_BYTES
"""Bytes that a verification reads at a time."""


Pace = Callable[[int], None]
"""Called with the number of bytes just verified; it may wait."""


def at_once(size: int) -> None:
    """Go on without a wait: the quickest `Pace`."""


class ArrayExtent(NamedTuple):
    """Where an array lies in its file, for readers that do not map it."""

    offset: int
    nbytes: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class SealedFile(NamedTuple):
    """A sealed file without its arrays' contents. `checksum` covers every byte of it."""

    path: Path
    name: str
    kind: str
    facts: Mapping[str, Any]
    size: int
    checksum: bytes
    layout: Mapping[str, ArrayExtent]
    sums: Mapping[str, bytes]


class _ArrayEntry(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str | list[Any]
    shape: tuple[int, ...]
    offset: int
    checksum: bytes


class _SealedFooter(msgspec.Struct, frozen=True):
    name: str
    kind: str
    facts: dict[str, Any]
    arrays: tuple[_ArrayEntry, ...]


def write(files: FileSystem, path: Path, part: SnapshotPart) -> SealedFile:
    """Write the part to a new file and wait for the disk. The caller syncs the folder. Raises OSError.

    Writes the file front to back, once, and computes the checksums on the way, at 8 GB/s.
    """
    with files.closing(files.create(path)) as descriptor:
        sealed = _write(files, descriptor, path, part)
        files.fsync(descriptor)
        return sealed


def _write(files: FileSystem, descriptor: int, path: Path, part: SnapshotPart) -> SealedFile:
    head = header.encode(header.SEALED)
    files.write(descriptor, memoryview(head))
    at, arrays, layout = len(head), [], {}
    for name, array in part.arrays.items():
        data = as_bytes(array)
        total = Checksum()
        for piece in checksum.pieces(data):
            total.update(piece)
            files.write(descriptor, piece)
        arrays.append(_ArrayEntry(name, dtypes.spell(array.dtype), array.shape, at, total.digest()))
        layout[name] = ArrayExtent(at, len(data), array.dtype, array.shape)
        at = _aligned(at + len(data))
        files.write(descriptor, memoryview(_PADDING)[: at - layout[name].offset - len(data)])
    footer = msgspec.msgpack.encode(_SealedFooter(part.name, part.kind, dict(part.facts), tuple(arrays)))
    length = len(footer).to_bytes(8, "little")
    digest = checksum.of_block(head + footer + length)
    files.write(descriptor, memoryview(footer + _TRAILER.pack(len(footer), digest, header.SEALED)))
    size = at + len(footer) + _TRAILER.size
    sums = {each.name: each.checksum for each in arrays}
    return SealedFile(path, part.name, part.kind, part.facts, size, digest, layout, sums)


def open(files: FileSystem, path: Path, verify: bool = True) -> SnapshotPart:  # read as sealed.open
    """Return the part, with its arrays mapped and read-only. Raises StateDamaged and StateFormat.

    Always checks header, footer and trailer. With `verify` it also checks the arrays, and so reads the whole file.
    """
    with reading(path), files.closing(files.open(path)) as descriptor:
        return map_part(files, descriptor, check(files, descriptor, path, verify=verify))


def describe(path: Path, files: FileSystem | None = None, verify: bool = False, pace: Pace = at_once) -> SealedFile:
    """Return what the file says about itself; reads its arrays only to `verify` them. Raises StateDamaged and
    StateFormat."""
    files = files or FileSystem()
    with reading(path), files.closing(files.open(path)) as descriptor:
        return check(files, descriptor, path, verify=verify, pace=pace)


def check(files: FileSystem, descriptor: int, path: Path, *, verify: bool, pace: Pace = at_once) -> SealedFile:
    """Return what the open file says about itself. Calls `pace` after each verified piece.

    Raises OSError, StateDamaged and StateFormat.
    """
    sealed = _describe(files, descriptor, path)
    if verify:
        _verify(files, descriptor, sealed, pace)
    return sealed


def map_part(files: FileSystem, descriptor: int, sealed: SealedFile) -> SnapshotPart:
    """Return the part over a read-only map of the open file. The map lives as long as any of the arrays."""
    raw = files.map(descriptor)
    if raw.size != sealed.size:
        raise damaged(sealed.path, "its size has changed")
    arrays = {
        name: raw[extent.offset : extent.offset + extent.nbytes].view(extent.dtype).reshape(extent.shape)
        for name, extent in sealed.layout.items()
    }
    return SnapshotPart(sealed.name, sealed.kind, sealed.facts, arrays)


def as_bytes(array: NDArray[Any]) -> memoryview:
    """Return the array's memory; copies it only if it is not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _aligned(at: int) -> int:
    return -(-at // ALIGN_BYTES) * ALIGN_BYTES


def _describe(files: FileSystem, descriptor: int, path: Path) -> SealedFile:
    size = files.size(descriptor)
    head = files.pread(descriptor, header.SIZE_BYTES, 0)
    if size < header.SIZE_BYTES + _TRAILER.size or not header.is_of(head, header.SEALED):
        raise damaged(path, "it does not begin as a sealed file does")
    tail = files.pread(descriptor, _TRAILER.size, size - _TRAILER.size)
    if len(tail) < _TRAILER.size:
        raise damaged(path, "it is cut off")
    length, digest, magic = _TRAILER.unpack(tail)
    start = size - _TRAILER.size - length
    if magic != header.SEALED or start < header.SIZE_BYTES:
        raise damaged(path, "it is cut off")
    encoded = files.pread(descriptor, length, start)
    if checksum.of_block(head + encoded + tail[:8]) != digest:
        raise damaged(path, "the checksum of its footer is wrong")
    header.check_format(path, head, files.reads)
    try:
        footer = msgspec.msgpack.decode(encoded, type=_SealedFooter)
        extents = {each.name: _extent(each) for each in footer.arrays}
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise damaged(path, f"its footer cannot be read: {str(error)[:100]}") from error
    at = header.SIZE_BYTES
    for extent in extents.values():
        if extent.offset != at:
            raise damaged(path, "its arrays are not where they should be")
        at = _aligned(at + extent.nbytes)
    if at != start or len(extents) != len(footer.arrays):
        raise damaged(path, "its arrays are not where they should be")
    sums = {each.name: each.checksum for each in footer.arrays}
    return SealedFile(path, footer.name, footer.kind, footer.facts, size, digest, extents, sums)


def _extent(array: _ArrayEntry) -> ArrayExtent:
    dtype = dtypes.read(array.dtype)
    if any(side < 0 for side in array.shape):
        raise ValueError(f"{array.name} has the shape {array.shape}")
    return ArrayExtent(array.offset, math.prod(array.shape) * dtype.itemsize, dtype, array.shape)


def _verify(files: FileSystem, descriptor: int, sealed: SealedFile, pace: Pace) -> None:
    """Read all arrays through a small window, without a lock while the disk works. Raises StateDamaged."""
    window = memoryview(bytearray(min(_WINDOW_BYTES, max(sealed.size, 1))))
    for name, extent in sealed.layout.items():
        total, end = Checksum(), extent.offset + extent.nbytes
        for at in range(extent.offset, end, len(window)):
            piece = window[: min(len(window), end - at)]
            if files.pread_into(descriptor, piece, at) < len(piece):
                raise damaged(sealed.path, "it is cut off")
            total.update(piece)
            pace(len(piece))
        if total.digest() != sealed.sums[name]:
            raise damaged(sealed.path, f"the checksum of its array {name} is wrong")
        if any(files.pread(descriptor, _aligned(end) - end, end)):
            raise damaged(sealed.path, f"the bytes behind its array {name} are not zero")
