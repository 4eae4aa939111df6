"""Reads and writes the manifest of a snapshot: a small file that lists the parts, replaced in one step.

`manifest` is the newest snapshot, `manifest.previous` the one before. A commit writes `manifest.next` and renames
three times: previous to `manifest.oldest`, manifest to previous, next to manifest. So after a crash at any step two
snapshots are whole: the two with the greatest numbers among manifest, previous and oldest.

The file: header 64, MessagePack, and the checksum of both.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from simstream.errors import StateDamaged
from simstream.files import checksum, dtypes, header, sealed
from simstream.files.failures import damaged, reading
from simstream.files.file_system import FileSystem
from simstream.files.sealed import Pace, SealedFile
from simstream.files.snapshot_part import SnapshotPart

NEWEST: Final = "manifest"
PREVIOUS: Final = "manifest.previous"
OLDEST: Final = "manifest.oldest"
NEXT: Final = "manifest.next"
IN_ORDER: Final = (NEWEST, PREVIOUS, OLDEST)
MAX_SNAPSHOTS: Final = 2
"""Snapshots that a folder keeps."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""The allowed names of parts, and therefore of files."""


class ManifestFile(msgspec.Struct, frozen=True, array_like=True):
    """A sealed file that a snapshot needs, and the checksum over every byte of it."""

    part: str
    kind: str
    file: str
    size: int
    content: int
    """The bytes of its arrays."""
    checksum: bytes


class ChangingArray(msgspec.Struct, frozen=True, array_like=True):
    """An array in blocks; `table` has a row a block (`stream/simstream/files/blocks`)."""

    name: str
    dtype: str | list[Any]
    shape: tuple[int, ...]
    table: bytes


class ChangingPart(msgspec.Struct, frozen=True):
    """A part that changes; its blocks lie in block files."""

    name: str
    kind: str
    facts: dict[str, Any]
    arrays: tuple[ChangingArray, ...]


class Manifest(msgspec.Struct, frozen=True):
    """One snapshot. `number` ascends, and no two kept files share one."""

    number: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
    facts: dict[str, Any]
    sealed: tuple[ManifestFile, ...]
    changing: tuple[ChangingPart, ...]
    blocks: tuple[ManifestFile, ...]

    def files(self) -> tuple[ManifestFile, ...]:
        """Return all files that the snapshot needs."""
        return self.sealed + self.blocks


class Snapshot(NamedTuple):
    """A manifest as it was read."""

    path: Path
    manifest: Manifest
    size: int
    modified_ns: int
    """When it was written, in ns since 1970, as the file system says."""


def encode(manifest: Manifest) -> bytes:
    """Return the bytes of the file."""
    data = header.encode(header.MANIFEST) + msgspec.msgpack.encode(manifest)
    return data + checksum.of_bytes(data)


def decode(path: Path, data: bytes, reads: int = header.FORMAT) -> Manifest:
    """Return the manifest in `data`. Raises StateDamaged, and StateFormat unless it is of the format `reads`."""
    body, digest = data[: -checksum.SIZE_BYTES], data[-checksum.SIZE_BYTES :]
    if not header.is_of(body, header.MANIFEST):
        raise damaged(path, "it does not begin as a manifest does")
    if checksum.of_bytes(body) != digest:
        raise damaged(path, "its checksum is wrong")
    header.check_format(path, body, reads)
    try:
        manifest = msgspec.msgpack.decode(memoryview(body)[header.SIZE_BYTES :], type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(path, f"it cannot be read: {str(error)[:100]}") from error
    if not all(NAME.fullmatch(each.file) for each in manifest.files()):
        raise damaged(path, "it names files that cannot be part of it")
    return manifest


def read(files: FileSystem, path: Path) -> Snapshot | None:
    """Read one manifest; return None if there is no such file. Raises StateDamaged, StateFormat,
    StateUnwritable."""
    with reading(path):
        try:
            descriptor = files.open(path)
        except FileNotFoundError:
            return None
        with files.closing(descriptor):
            size = files.size(descriptor)
            data = files.pread(descriptor, size, 0)
            return Snapshot(path, decode(path, data, files.reads), size, files.modified_ns(descriptor))


def read_all(files: FileSystem, folder: Path) -> tuple[Snapshot, ...]:
    """Return the folder's snapshots, the newest first, at most `MAX_SNAPSHOTS`.

    Raises StateDamaged, StateFormat, StateUnwritable.

    Safe while another process replaces them: it reads until it finds the same ones twice.
    """
    before: list[int] | None = None
    while True:
        all_of_them = [read(files, folder / name) for name in IN_ORDER]
        found = {each.manifest.number: each for each in all_of_them if each is not None}
        numbers = sorted(found, reverse=True)[:MAX_SNAPSHOTS]
        if numbers == before:
            return tuple(found[number] for number in numbers)
        before = numbers


def read_each(files: FileSystem, folder: Path) -> tuple[tuple[Snapshot, ...], dict[Path, StateDamaged]]:
    """Return the snapshots as `read_all` does, and each damaged manifest with its error.

    It reads once: if another process replaces the manifests meanwhile, one of them may be missing.
    """
    found: dict[int, Snapshot] = {}
    bad: dict[Path, StateDamaged] = {}
    for name in IN_ORDER:
        try:
            snapshot = read(files, folder / name)
        except StateDamaged as error:
            bad[folder / name] = error
        else:
            found.update({snapshot.manifest.number: snapshot} if snapshot else {})
    return tuple(found[number] for number in sorted(found, reverse=True)[:MAX_SNAPSHOTS]), bad


def nbytes(array: ChangingArray) -> int:
    """Return the array's size in bytes. Raises ValueError for an unknown type."""
    return math.prod(array.shape) * dtypes.read(array.dtype).itemsize


def to_manifest_file(file: SealedFile) -> ManifestFile:
    """Return a sealed file as a manifest names it."""
    content = sum(extent.nbytes for extent in file.layout.values())
    return ManifestFile(file.name, file.kind, file.path.name, file.size, content, file.checksum)


def open_named(
    files: FileSystem, folder: Path, named: ManifestFile, *, verify: bool, pace: Pace = sealed.at_once
) -> tuple[SealedFile, SnapshotPart]:
    """Return the named file with its arrays mapped. Raises StateDamaged, also for a whole but different file."""
    path = folder / named.file
    with reading(path), files.closing(files.open(path)) as descriptor:
        found = sealed.check(files, descriptor, path, verify=verify, pace=pace)
        _same(found, named)
        return found, sealed.map_part(files, descriptor, found)


def describe_named(
    files: FileSystem, folder: Path, named: ManifestFile, *, verify: bool = False, pace: Pace = sealed.at_once
) -> SealedFile:
    """Return what the named file says about itself. Raises StateDamaged, also for a whole but different file."""
    found = sealed.describe(folder / named.file, files, verify, pace)
    _same(found, named)
    return found


def _same(found: SealedFile, named: ManifestFile) -> None:
    if (found.name, found.kind, found.size, found.checksum) != (named.part, named.kind, named.size, named.checksum):
        raise damaged(found.path, "it is not the file that the manifest names")
