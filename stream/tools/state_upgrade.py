"""Takes a state folder of an earlier format over into a new one; the old folder stays as it is."""

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
    """What was taken over: the newest snapshot of a folder of format `number`, its next frame and next ordinal."""

    number: int
    frame: int
    ordinal: int


def upgrade(old: Path, new: Path) -> UpgradeReport:
    """Write the newest snapshot of `old` to the folder `new` in today's format. Safe to repeat until it is done.

    Every byte of the snapshot is verified. Costs about 1 us a page, and the disk once more. Raises InputMissing,
    UsageError where `new` has a state or `old` needs no upgrade, StateLocked while a judge uses one of them,
    StateDamaged, StateFormat, StateUnwritable.
    """
    is_folder(old)
    number = _format_of(old)
    if number == header.FORMAT:
        raise UsageError(f"{old} is of format {number}, which is today's", "use it as it is")
    files = Files()
    if header.MIN_FORMAT <= number < header.FORMAT:
        files.reads = number
    with StateFolder(old, files) as source, StateFolder(new) as target:
        if target.snapshots:
            raise UsageError(f"{new} has a state already", "name another folder, or one that is not there yet")
        loaded = source.load()
        if loaded is None:
            raise nothing_in(old)
        known = state_facts(loaded.facts)
        prepared = target.prepare(upgraded(loaded.parts, number), loaded.facts)
        prepared.write()
        prepared.commit()
    return UpgradeReport(number, known.frame, known.ordinal)


def _format_of(folder: Path) -> int:
    """The format that the newest manifest says it has; nothing is verified. Raises InputMissing."""
    for name in IN_ORDER:
        path = folder / name
        if path.exists():
            with reading(path):
                data = path.read_bytes()[: header.SIZE]
            return header.format_of(data) if header.is_of(data, header.MANIFEST) else 0
    raise nothing_in(folder)
