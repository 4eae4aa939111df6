"""Small states for tests of the folder: what one after another consists of, and whether one was read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from simstream.files.file_system import FileSystem
from simstream.files.folder import LoadedSnapshot, StateFolder
from simstream.files.snapshot_part import SnapshotPart


def immutable(name: str, seed: int) -> SnapshotPart:
    """A segment of two arrays."""
    values = np.random.default_rng(seed).integers(0, 1 << 63, 11, np.uint64)
    return SnapshotPart(
        name, "segment", {"count": 11}, {"keys": values, "pairs": values[:10].reshape(2, 5).astype("<u4")}
    )


def state(number: int) -> list[SnapshotPart]:
    """The state as it was after so many snapshots: segments come and go, some changing blocks change.

    Of the changing part's arrays `often` fills most of a block file and changes each time, `seldom` every fourth
    time: in between its file is given up and its block moves.
    """
    often = np.full(50, number, np.int64)
    seldom = np.arange(10, dtype=np.uint16) + number // 4
    empty = np.zeros((0, 3), np.float32)
    changing = SnapshotPart(
        "rows", "rows", {"live": number}, {"often": often, "seldom": seldom, "empty": empty}, changes=True
    )
    return [immutable(f"segment-{i}", i) for i in (number, number - 1)] + [changing]


def facts(number: int) -> dict[str, Any]:
    return {"ordinal": number, "positions": [{"partition": 0, "offset": number}]}


def take(folder: StateFolder, number: int) -> None:
    """A whole snapshot."""
    prepared = folder.prepare(state(number), facts(number))
    prepared.write()
    prepared.commit()


def found(path: Path, files: FileSystem | None = None) -> list[int]:
    """The numbers of the states that the folder gives back whole, the newest first. Fails where one is a mix."""
    with StateFolder(path, files) as folder:
        return [number_of(folder.load_one(each)) for each in folder.snapshots]


def number_of(loaded: LoadedSnapshot) -> int:
    """Which state it is. Fails where it is none of `state`'s."""
    number = loaded.facts["ordinal"]
    assert loaded.facts == facts(number)
    assert same(loaded.parts, state(number))
    return int(number)


def same(one: Sequence[SnapshotPart], other: Sequence[SnapshotPart]) -> bool:
    """Whether the parts are equal, with types and shapes."""
    return list(map(_plain, one)) == list(map(_plain, other))


def _plain(part: SnapshotPart) -> tuple[Any, ...]:
    arrays = {name: (array.dtype, array.shape, array.tobytes()) for name, array in part.arrays.items()}
    return part.name, part.kind, dict(part.facts), arrays, part.changes


def save_again(
    path: Path, change: Callable[[list[SnapshotPart], dict[str, Any]], object], to: Path | None = None
) -> None:
    """Take another snapshot of what the folder holds, sound by its checksums, with this change; `to`: in another
    folder."""
    with StateFolder(path) as folder, nullcontext(folder) if to is None else StateFolder(to) as target:
        loaded = folder.load()
        assert loaded is not None
        parts, known = list(loaded.parts), dict(loaded.facts)
        change(parts, known)
        prepared = target.prepare(parts, known)
        prepared.write()
        prepared.commit()
