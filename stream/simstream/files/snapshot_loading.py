"""Reads a snapshot. Needs no lock, so that other programs can look at it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from simstream.files import blocks, manifest
from simstream.files.blocks import Tables
from simstream.files.file_system import FileSystem
from simstream.files.manifest import ManifestFile, Snapshot
from simstream.files.sealed import SealedFile
from simstream.files.snapshot_part import SnapshotPart

_THREADS: Final = 4
"""That read files; the disk is what they wait for."""


class LoadedSnapshot(NamedTuple):
    """A snapshot that was read back: immutable parts over mapped files, changing ones in memory of their own."""

    number: int
    facts: Mapping[str, Any]
    parts: tuple[SnapshotPart, ...]
    sealed: Mapping[str, SealedFile]
    """The files of the immutable parts, by the parts' names."""


class SnapshotBase(NamedTuple):
    """What lies on the disk that a next snapshot can use: sealed files by the names of their parts, block files by
    number, and the tables of the snapshot before."""

    sealed: dict[str, ManifestFile]
    blocks: Mapping[int, ManifestFile]
    tables: Tables


def load(
    files: FileSystem, snapshot: Snapshot, trusted: Collection[str] = ()
) -> tuple[LoadedSnapshot, SnapshotBase]:
    """The snapshot, and what a next one can use of it: 1.5 GB/s from the system's cache, on two cores.

    Every byte is verified, but for immutable parts of the kinds that are `trusted`: of these header and footer
    alone. Raises StateDamaged, StateFormat and StateUnwritable.
    """
    found, folder = snapshot.manifest, snapshot.path.parent

    def opened(named: ManifestFile) -> tuple[SealedFile, SnapshotPart]:
        return manifest.opened(files, folder, named, verify=named.kind not in trusted)

    with ThreadPoolExecutor(_THREADS) as threads:
        immutable = list(threads.map(opened, found.sealed))
    for named in found.blocks:
        manifest.described(files, folder, named)
    by_number = {blocks.number_of(named.part): named for named in found.blocks}
    paths = {number: folder / named.file for number, named in by_number.items()}
    tables = blocks.tables_of(snapshot.path, found.changing, paths)
    changing = blocks.gather(files, snapshot.path, found.changing, tables, paths)
    base = SnapshotBase({named.part: named for named in found.sealed}, by_number, tables)
    parts = (*(part for _, part in immutable), *changing)
    return LoadedSnapshot(found.number, found.facts, parts, {each.name: each for each, _ in immutable}), base
