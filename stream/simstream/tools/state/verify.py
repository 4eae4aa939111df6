"""Verifies a state folder: checksums, orders and counts. Names each damaged file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from simstream.errors import StateDamaged
from simstream.files import manifest
from simstream.files.file_system import FileSystem
from simstream.files.loading import LoadedSnapshot, load
from simstream.files.manifest import IN_ORDER, KEPT, ManifestFile, Snapshot
from simstream.judge.policy import Link, Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index, state_facts
from simstream.tools.state.inspect import TRIES, is_folder, nothing_in

Progress = Callable[[int], None]


class FileCheck(msgspec.Struct, frozen=True):
    """A file, or a snapshot as a whole under its manifest's name; `error` is None where it is sound."""

    name: str
    size: int
    error: str | None = None


class FolderCheck(msgspec.Struct, frozen=True):
    """All that was looked at.

    `sound` has the manifests of whole snapshots, the newest first, `unreadable` those that cannot be read at all.
    """

    folder: str
    checked: list[FileCheck]
    sound: list[str]
    unreadable: list[str]

    @property
    def wrong(self) -> list[FileCheck]:
        """What is damaged."""
        return [each for each in self.checked if each.error is not None]

    @property
    def todo(self) -> str:
        """What a person should do where something is damaged."""
        if manifest.NEWEST in self.sound:
            if self.unreadable:
                gone = " and ".join(f"{self.folder}/{name}" for name in self.unreadable)
                return f"the newest snapshot is whole: stop the judge, delete {gone}, and start it again"
            return "the newest snapshot is whole: what is damaged goes when the judge takes the next one"
        if self.sound:
            old, new = f"{self.folder}/{self.sound[0]}", f"{self.folder}/{manifest.NEWEST}"
            return f"the previous snapshot is whole: stop the judge, `mv {old} {new}`, and start it again"
        return (
            f"restore {self.folder} from a copy, or stop the judge and delete the folder: a service judges its log "
            "again from its start, a Deduper begins empty"
        )


def verify(folder: Path, progress: Progress = lambda done: None, files: FileSystem | None = None) -> FolderCheck:
    """Look at every byte of every file that the snapshots name, and read each snapshot back as a judge does.

    `progress` hears how many bytes are done. Costs 3 GB/s from the system's cache for the checksums, .5 us a page
    for the rest, and for each snapshot the memory that a judge would take. Safe beside a judge: where it replaces a
    snapshot meanwhile, all begins anew. Raises InputMissing, StateFormat, StateUnwritable; what is damaged is in
    the result.
    """
    files = files or FileSystem()
    is_folder(folder)
    for _ in range(TRIES):
        found, damaged = _manifests(files, folder)
        if not found and not damaged:
            raise nothing_in(folder)
        verified = _verify(files, folder, found, damaged, progress)
        if not verified.wrong or _numbers(_manifests(files, folder)[0]) == _numbers(found):
            break
    return verified


def _manifests(files: FileSystem, folder: Path) -> tuple[list[Snapshot], list[FileCheck]]:
    """Those that can be read, the newest first, and those that cannot."""
    found: dict[int, Snapshot] = {}
    damaged = []
    for name in IN_ORDER:
        try:
            snapshot = manifest.read(files, folder / name)
        except StateDamaged as error:
            damaged.append(FileCheck(name, _size(folder / name), error.what))
        else:
            if snapshot is not None:
                found[snapshot.manifest.number] = snapshot
    return [found[number] for number in sorted(found, reverse=True)[:KEPT]], damaged


def _numbers(snapshots: Iterable[Snapshot]) -> list[int]:
    return [snapshot.manifest.number for snapshot in snapshots]


def _verify(
    files: FileSystem, folder: Path, found: list[Snapshot], damaged: list[FileCheck], progress: Progress
) -> FolderCheck:
    checked: dict[str, FileCheck] = {}
    for snapshot in found:
        for named in snapshot.manifest.files():
            if named.file not in checked:
                checked[named.file] = _file(files, folder, named)
                progress(sum(each.size for each in checked.values()))
    snapshots, sound = [], []
    for snapshot in found:
        name = snapshot.path.name
        if all(checked[named.file].error is None for named in snapshot.manifest.files()):
            snapshots.append(_snapshot(files, snapshot))
            if snapshots[-1].error is None:
                sound.append(name)
        else:
            snapshots.append(FileCheck(name, snapshot.size, f"{snapshot.path} names files that are damaged"))
    all_of_it = [*checked.values(), *snapshots, *damaged]
    return FolderCheck(str(folder), all_of_it, sound, [each.name for each in damaged])


def _file(files: FileSystem, folder: Path, named: ManifestFile) -> FileCheck:
    try:
        manifest.described(files, folder, named, verify=True)
    except StateDamaged as error:
        return FileCheck(named.file, named.size, error.what)
    return FileCheck(named.file, named.size)


def _snapshot(files: FileSystem, snapshot: Snapshot) -> FileCheck:
    """Read it back, whose files' checksums agree, and look at every order and count."""
    try:
        kinds = {named.kind for named in snapshot.manifest.sealed}
        loaded, _ = load(files, snapshot, trusted=kinds)
        check(loaded)
    except StateDamaged as error:
        return FileCheck(
            snapshot.path.name, snapshot.size, f"{snapshot.path} does not hold together ({error.what})"
        )
    return FileCheck(snapshot.path.name, snapshot.size)


def check(loaded: LoadedSnapshot) -> None:
    """Whether a judge's parts are in order and agree with one another. Raises StateDamaged."""
    known = state_facts(loaded.facts)
    distances = [part.facts.get("distance") for part in loaded.parts if part.kind == "memtable"]
    if len(distances) != 1 or not isinstance(distances[0], int):
        raise StateDamaged("it has no memtable, or one that does not say its distance")
    # What a page must agree in decides no order and no count: the policy's own limits are not needed.
    link: Link = "any" if known.link == "any" else "canonical"
    policy = Policy(known.recipe, known.sketch_bits, distances[0], 0, known.window_ms, link)
    resolver = Resolver(policy, make_index(policy))
    try:
        resolver.restore(loaded.parts, known.stream_time, known.live_pages)
        resolver.check()
    finally:
        resolver.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
