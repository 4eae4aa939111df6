"""Upgrades a state of an earlier format into a new folder."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from simstream.errors import StateDamaged, UsageError
from simstream.files import checksum, header
from simstream.files.failures import START_OVER, reading
from simstream.files.file_system import FileSystem
from simstream.files.folder import LoadedSnapshot, StateFolder
from simstream.files.manifest import IN_ORDER
from simstream.judge.state_facts import state_facts
from simstream.judge.upgrade import upgraded
from simstream.tools.state.inspect import is_folder, nothing_in


class UpgradeReport(NamedTuple):
    """The upgraded snapshot, the newest whole one of a folder of format `number`: its next frame and ordinal.

    `damage` names the damaged files of other snapshots.
    """

    number: int
    frame: int
    ordinal: int
    damage: tuple[StateDamaged, ...]


def upgrade(old: Path, new: Path) -> UpgradeReport:
    """Write the newest whole snapshot of `old` to the folder `new` in the current format.

    Verifies every byte of the snapshot. Safe to repeat after a failure. Cost: about 1 us a page, and as much disk
    as the snapshot. Raises InputMissing, UsageError if `new` has a state or `old` needs no upgrade, StateLocked
    while a judge uses one of the folders, StateDamaged, StateFormat, StateUnwritable.
    """
    is_folder(old)
    number = _format_of(old)
    if number == header.FORMAT:
        raise UsageError(f"{old} already has the current format {number}", "use it as --state")
    files = FileSystem()
    if header.MIN_FORMAT <= number < header.FORMAT:
        files.reads = number
    with StateFolder(old, files, mends=True) as source, StateFolder(new) as target:
        if target.snapshots:
            raise UsageError(f"{new} has a state already", "name a new folder")
        loaded, damage = _load_newest_whole(source)
        known = state_facts(loaded.facts)
        prepared = target.prepare(upgraded(loaded.parts, number), loaded.facts)
        prepared.write()
        prepared.commit()
    return UpgradeReport(number, known.frame, known.ordinal, damage)


def _load_newest_whole(source: StateFolder) -> tuple[LoadedSnapshot, tuple[StateDamaged, ...]]:
    """Load the newest whole snapshot, and report damage. Raises StateDamaged if no snapshot is whole."""
    damage = list(source.damaged.values())
    for snapshot in source.snapshots:
        try:
            return source.load_one(snapshot), tuple(damage)
        except StateDamaged as error:
            damage.append(error)
    if not damage:
        raise nothing_in(source.path)
    raise StateDamaged(damage[0].what, START_OVER)  # `simstream state verify` reads no earlier format


def _format_of(folder: Path) -> int:
    """Return the format that the newest whole manifest names, 0 if no manifest is whole. Raises InputMissing."""
    found = [folder / name for name in IN_ORDER if (folder / name).exists()]
    for path in found:
        with reading(path):
            data = path.read_bytes()
        body, digest = data[: -checksum.SIZE_BYTES], data[-checksum.SIZE_BYTES :]
        if header.is_of(body, header.MANIFEST) and checksum.of_bytes(body) == digest:
            return header.format_of(body)
    if not found:
        raise nothing_in(folder)
    return 0
