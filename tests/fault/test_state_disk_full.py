"""The state's folder on a disk that is full for real: a named error, two whole snapshots, and on it goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simstream.errors import StateFull
from simstream.files.folder import StateFolder
from simstream.files.snapshot_part import SnapshotPart
from tests.disks import fill, run_limited, small_disk
from tests.states import found, same, take

LIMITED = """
import sys
from pathlib import Path
from simstream.errors import StateFull
from simstream.files.folder import StateFolder
from tests.states import facts, state, take
with StateFolder(Path(sys.argv[1])) as folder:
    take(folder, 1)
    take(folder, 2)
    prepared = folder.prepare(state(3), facts(3))
    for size in (0, 100, 500):
        room(size)
        try:
            prepared.write()
        except StateFull as error:
            print(error)
    room(-1)
    prepared.write()
    for size in (0, 100):
        room(size)
        try:
            prepared.commit()
        except StateFull as error:
            print(error)
    room(-1)
    prepared.commit()
"""


def test_a_snapshot_without_room_is_written_when_there_is_some(tmp_path: Path) -> None:
    errors = run_limited(LIMITED, str(tmp_path))
    assert len(errors) == 5
    assert all(f"no room to write {tmp_path}" in error and "make room" in error for error in errors)
    assert found(tmp_path) == [3, 2]


def large(number: int) -> list[SnapshotPart]:
    return [SnapshotPart("rows", "rows", {}, {"a": np.full(100_000, number, np.uint8)}, changes=True)]


def test_a_full_disk_keeps_both_snapshots_and_takes_the_next_one_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with small_disk(tmp_path, 512):
        with StateFolder(path) as folder:
            take(folder, 1)
            take(folder, 2)
            give_back = fill(tmp_path)
            prepared = folder.prepare(large(3), {})
            for _ in range(3):
                with pytest.raises(StateFull, match="no room to write"):
                    prepared.write()
                assert not list(path.glob("*.part"))
        assert found(path) == [2, 1], "a judge can start on a full disk"
        with StateFolder(path) as folder:
            folder.load()
            prepared = folder.prepare(large(3), {})
            give_back()
            prepared.write()
            give_back = fill(tmp_path)
            with pytest.raises(StateFull):
                prepared.commit()
            give_back()
            prepared.commit()
            loaded = folder.load()
            assert loaded is not None
            assert same(loaded.parts, large(3))
