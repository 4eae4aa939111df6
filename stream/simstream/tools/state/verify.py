"""Verifies a state folder: checksums, orders and counts. Names each damaged file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from simstream.errors import SettingsError, StateDamaged
from simstream.files import manifest
from simstream.files.file_system import FileSystem
from simstream.files.manifest import ManifestFile, Snapshot
from simstream.files.snapshot_loading import LoadedSnapshot, load
from simstream.index.shard import WHOLE, Shard
from simstream.judge.policy import Link, Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.judge.state_facts import state_facts
from simstream.tools.state.inspect import MAX_TRIES, is_folder, nothing_in, size_of

Progress = Callable[[int], None]


class FileCheck(msgspec.Struct, frozen=True):
    """A file, or a whole snapshot under its manifest's name. `error` is None if it is sound."""

    name: str
    size: int
    error: str | None = None


class FolderCheck(msgspec.Struct, frozen=True):
    """The result for a folder.

    `sound` has the manifests of whole snapshots, the newest first; `unreadable` has the unreadable manifests.
    """

    folder: str
    checked: list[FileCheck]
    sound: list[str]
    unreadable: list[str]

    @property
    def wrong(self) -> list[FileCheck]:
        """The damaged files and snapshots."""
        return [each for each in self.checked if each.error is not None]

    @property
    def todo(self) -> str:
        """What a person should do about the damage."""
        if manifest.NEWEST in self.sound:
            if self.unreadable:
                gone = " and ".join(f"{self.folder}/{name}" for name in self.unreadable)
                return f"stop the process, delete {gone}, and start it again: the newest snapshot is whole"
            return "keep it running: the newest snapshot is whole, and the next one replaces the damaged files"
        if self.sound:
            old, new = f"{self.folder}/{self.sound[0]}", f"{self.folder}/{manifest.NEWEST}"
            return f"stop the process, `mv {old} {new}`, and start it again: the previous snapshot is whole"
        return (
            f"restore {self.folder} from a copy; or stop the process and delete the folder (unless its log was "
            "cut): a service then judges its log from the start, and a Deduper begins empty"
        )


def verify(folder: Path, progress: Progress = lambda done: None, files: FileSystem | None = None) -> FolderCheck:
    """Verify every byte of every file of the snapshots, and read each snapshot back as a judge does.

    `progress` hears how many bytes are done. Cost: checksums at 3 GB/s from the system's cache, 0.5 us a page for
    all else, and for each snapshot the memory of a judge. Safe beside a judge: if it replaces a snapshot, the work
    begins again. Raises InputMissing, StateFormat, StateUnwritable. The result names the damage.
    """
    files = files or FileSystem()
    is_folder(folder)
    for _ in range(MAX_TRIES):
        found, damaged = _manifests(files, folder)
        if not found and not damaged:
            raise nothing_in(folder)
        verified = _verify(files, folder, found, damaged, progress)
        if not verified.wrong or _numbers(_manifests(files, folder)[0]) == _numbers(found):
            break
    return verified


def _manifests(files: FileSystem, folder: Path) -> tuple[list[Snapshot], list[FileCheck]]:
    """Return the readable manifests, the newest first, and the unreadable ones."""
    found, bad = manifest.read_each(files, folder)
    return list(found), [FileCheck(path.name, size_of(path), error.what) for path, error in bad.items()]


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
        manifest.describe_named(files, folder, named, verify=True)
    except StateDamaged as error:
        return FileCheck(named.file, named.size, error.what)
    return FileCheck(named.file, named.size)


def _snapshot(files: FileSystem, snapshot: Snapshot) -> FileCheck:
    """Read back a snapshot with right checksums, and check every order and count."""
    try:
        kinds = {named.kind for named in snapshot.manifest.sealed}
        loaded, _ = load(files, snapshot, trusted=kinds)
        check(loaded)
    except StateDamaged as error:
        return FileCheck(snapshot.path.name, snapshot.size, f"{snapshot.path} contradicts itself ({error.what})")
    return FileCheck(snapshot.path.name, snapshot.size)


def check(loaded: LoadedSnapshot) -> None:
    """Check that the parts of a judge or a shard are in order and agree with each other. Raises StateDamaged."""
    known = state_facts(loaded.facts)
    distances = [part.facts.get("distance") for part in loaded.parts if part.kind == "memtable"]
    if len(distances) != 1 or not isinstance(distances[0], int):
        raise StateDamaged("it has no memtable, or the memtable has no distance")
    # The policy's limits decide no order and no count, so any limits do.
    link: Link = "any" if known.link == "any" else "canonical"
    limits = distances[0], 0
    try:
        policy = Policy(
            known.recipe,
            known.sketch_bits,
            *limits,
            known.window_ms,
            link,
            fingerprints=known.fingerprints,
            sketch_lookups=known.sketch_lookups,
        )
        shard = WHOLE if known.answers else Shard(known.shard, known.shards)
        resolver = Resolver(policy, make_index(policy, shard))
    except SettingsError as error:
        raise StateDamaged(f"the facts in the manifest do not fit ({error.what})") from error
    with resolver:
        resolver.restore(loaded.parts, known)
        resolver.check()
