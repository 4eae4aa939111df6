"""Upgrades a state folder of an earlier format into a new folder; the old folder stays unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stream.errors import UsageError
from stream.files import header
from stream.files.failures import reading
from stream.files.folder import StateFolder
from stream.files.layer import Files
from stream.files.manifest import IN_ORDER
from stream.judge.state import state_facts
from stream.judge.upgrade import upgraded
from stream.tools.state import is_folder, nothing_in


class UpgradeReport(NamedTuple):
    """What was upgraded: the newest snapshot of a folder of format `number`, with its next frame and ordinal."""

    number: int
    frame: int
    ordinal: int


def upgrade(old: Path, new: Path) -> UpgradeReport:
    """Write the newest snapshot of `old` to the folder `new` in the current format. Safe to repeat after a failure.

    Every byte of the snapshot is verified. Cost: about 1 us a page, and as much disk as the snapshot. Raises
    InputMissing, UsageError where `new` has a state or `old` needs no upgrade, StateLocked while a judge uses one
    of the folders, StateDamaged, StateFormat, StateUnwritable.
    """
    is_folder(old)
    number = _format_of(old)
    if number == header.FORMAT:
        raise UsageError(f"{old} is already of format {number}, the current one", "use it as --state")
    files = Files()
    if header.MIN_FORMAT <= number < header.FORMAT:
        files.reads = number
    with StateFolder(old, files) as source, StateFolder(new) as target:
        if target.snapshots:
            raise UsageError(f"{new} has a state already", "name a new folder")
        loaded = source.load()
        if loaded is None:
            raise nothing_in(old)
        known = state_facts(loaded.facts)
        prepared = target.prepare(upgraded(loaded.parts, number), loaded.facts)
        prepared.write()
        prepared.commit()
    return UpgradeReport(number, known.frame, known.ordinal)


def _format_of(folder: Path) -> int:
    """Return the format that the newest manifest names; nothing is verified. Raises InputMissing."""
    for name in IN_ORDER:
        path = folder / name
        if path.exists():
            with reading(path):
                data = path.read_bytes()[: header.SIZE]
            return header.format_of(data) if header.is_of(data, header.MANIFEST) else 0
    raise nothing_in(folder)
