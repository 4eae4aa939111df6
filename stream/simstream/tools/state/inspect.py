"""Tells what a state folder holds. Reads only, also beside a running judge."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from simstream.errors import InputMissing, StateDamaged
from simstream.files import manifest
from simstream.files.file_system import FileSystem
from simstream.files.manifest import ManifestFile, Snapshot
from simstream.files.names import QUERY, SHARDS, is_of_snapshot

MAX_TRIES: Final = 20
"""How often it begins again because a judge replaced the snapshot."""


class StatePart(msgspec.Struct, frozen=True):
    """A part of a snapshot. `file` is None if it lies in block files. `bytes` are those of its arrays."""

    name: str
    kind: str
    file: str | None
    bytes: int
    facts: dict[str, Any]


class SnapshotDescription(msgspec.Struct, frozen=True):
    """One snapshot. `disk` has the bytes of its files, by kind."""

    manifest: str
    number: int
    age_s: float
    facts: dict[str, Any]
    parts: list[StatePart]
    disk: dict[str, int]


class FolderInspection(msgspec.Struct, frozen=True):
    """A folder: its snapshots, the newest first, and bytes on the disk by kind, each file counted once.

    `rest` are the bytes of all other files: of a snapshot that is being written, or left by a crash."""

    folder: str
    snapshots: list[SnapshotDescription]
    disk: dict[str, int]
    rest: int


def is_folder(folder: Path) -> None:
    """Raise InputMissing if the folder does not exist."""
    if not folder.is_dir():
        raise InputMissing(f"{folder} is not a folder", "name the folder of `simstream serve --state`")


def nothing_in(folder: Path) -> InputMissing:
    """Return the error for a folder without a snapshot."""
    return InputMissing(
        f"{folder} has no snapshot",
        "name a folder that has a snapshot; a running service writes its first after `snapshot_every` "
        "(by default 5m)",
    )


def states_in(folder: Path) -> list[Path]:
    """Return the folders of all states of a process: its own, those of its shards, that of the role `query`.

    Leaves out folders without any file of a snapshot; returns `folder` alone if all lack one. Raises InputMissing.
    """
    is_folder(folder)
    shards = sorted((folder / SHARDS).glob("*"), key=lambda path: (len(path.name), path.name))
    return [each for each in (folder, *shards, folder / QUERY) if _has_files(each)] or [folder]


def _has_files(folder: Path) -> bool:
    try:
        return any(map(is_of_snapshot, os.listdir(folder)))
    except OSError:  # it is no folder, cannot be read, or went meanwhile
        return False


def inspect(folder: Path, files: FileSystem | None = None) -> FolderInspection:
    """Return what the folder holds. Raises InputMissing, and StateError if a manifest or footer cannot be read."""
    files = files or FileSystem()
    is_folder(folder)
    for left in reversed(range(MAX_TRIES)):
        found = manifest.read_all(files, folder)
        if not found:
            raise nothing_in(folder)
        try:
            return _inspect(files, folder, found)
        except StateDamaged:
            again = manifest.read_all(files, folder)
            if not left or [each.manifest.number for each in again] == [each.manifest.number for each in found]:
                raise
    raise AssertionError("the last try returns or raises")


def _inspect(files: FileSystem, folder: Path, found: Sequence[Snapshot]) -> FolderInspection:
    named = {each.file: each for snapshot in found for each in snapshot.manifest.files()}
    disk = Counter({"manifest": sum(snapshot.size for snapshot in found)})
    for each in named.values():
        disk[each.kind] += each.size
    snapshots = [_describe(files, folder, snapshot) for snapshot in found]
    rest = sum(size_of(path) for path in folder.glob("*.sealed*") if path.name not in named)
    return FolderInspection(str(folder), snapshots, dict(disk), rest)


def _describe(files: FileSystem, folder: Path, snapshot: Snapshot) -> SnapshotDescription:
    found = snapshot.manifest
    disk = Counter({"manifest": snapshot.size})
    for each in found.files():
        disk[each.kind] += each.size
    parts = [_piece(files, folder, each) for each in found.sealed]
    for part in found.changing:
        size = sum(manifest.nbytes(array) for array in part.arrays)
        parts.append(StatePart(part.name, part.kind, None, size, part.facts))
    age_s = round(max(0.0, time.time() - snapshot.modified_ns / 1e9), 1)
    return SnapshotDescription(snapshot.path.name, found.number, age_s, found.facts, parts, dict(disk))


def _piece(files: FileSystem, folder: Path, named: ManifestFile) -> StatePart:
    found = manifest.describe_named(files, folder, named)
    return StatePart(named.part, named.kind, named.file, named.content, dict(found.facts))


def size_of(path: Path) -> int:
    """Return the size of a file; 0 if it is gone, or may not be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
