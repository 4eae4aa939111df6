"""Reads a snapshot. Needs no lock, so that other programs can look at it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from simstream.files import blocks, manifest, sealed
from simstream.files.blocks import Tables
from simstream.files.file_system import FileSystem
from simstream.files.manifest import ManifestFile, Snapshot
from simstream.files.sealed import Pace, SealedFile
from simstream.files.snapshot_part import SnapshotPart
from simstream.processors import takes_no_more

_THREADS: Final = 4
"""Threads that read files; they wait for the disk."""


class LoadedSnapshot(NamedTuple):
    """A snapshot that was read back. Immutable parts are over mapped files, changing parts in their own memory."""

    number: int
    facts: Mapping[str, Any]
    parts: tuple[SnapshotPart, ...]
    sealed: Mapping[str, SealedFile]
    """The files of the immutable parts, by part name."""


class SnapshotBase(NamedTuple):
    """The files on the disk that the next snapshot can use.

    They are sealed files by part name, block files by number, and the tables of the snapshot before.
    """

    sealed: dict[str, ManifestFile]
    blocks: Mapping[int, ManifestFile]
    tables: Tables


def load(
    files: FileSystem, snapshot: Snapshot, trusted: Collection[str] = (), pace: Pace = sealed.at_once
) -> tuple[LoadedSnapshot, SnapshotBase]:
    """Return the snapshot, and what the next one can use of it.

    It verifies every byte, except in immutable parts of the `trusted` kinds: of these only header and footer.
    Calls `pace` after each verified piece, in any thread.
    Raises StateDamaged, StateFormat and StateUnwritable. Cost: 1.5 GB/s from the system's cache, on two cores.
    """
    found, folder = snapshot.manifest, snapshot.path.parent

    def opened(named: ManifestFile) -> tuple[SealedFile, SnapshotPart]:
        return manifest.open_named(files, folder, named, verify=named.kind not in trusted, pace=pace)

    with ThreadPoolExecutor(_THREADS) as threads:
        try:
            opening = threads.map(opened, found.sealed)
        except RuntimeError as error:
            if not takes_no_more(error):
                raise
            opening = map(opened, found.sealed)
        immutable = list(opening)
    for named in found.blocks:
        manifest.describe_named(files, folder, named)
    by_number = {blocks.number_of(named.part): named for named in found.blocks}
    paths = {number: folder / named.file for number, named in by_number.items()}
    tables = blocks.tables_of(snapshot.path, found.changing, paths)
    changing = blocks.gather(files, snapshot.path, found.changing, tables, paths, pace)
    base = SnapshotBase({named.part: named for named in found.sealed}, by_number, tables)
    parts = (*(part for _, part in immutable), *changing)
    return LoadedSnapshot(found.number, found.facts, parts, {each.name: each for each, _ in immutable}), base
