"""Arrays in nameless files: the same values, in memory that the system can take back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from simstream import memory
from simstream.judge.state import JudgeState
from simstream.memory import ArrayRoom
from simstream.model import PageSource, Verdict
from simstream.telemetry.process_memory import held
from tests.bench.made_pages import PageMaker, policy
from tests.disks import small_disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such arrays lie in memory")
SIZE = 8 << 20


def own() -> int:
    return dict(held())["own"]


def test_a_large_array_is_zero_and_counts_as_mapped(tmp_path: Path) -> None:
    before = own()
    array = ArrayRoom(tmp_path).zeros((SIZE // 16, 2), np.uint64)
    assert not array.any()
    array[:] = 7
    assert own() - before < SIZE // 4
    assert list(tmp_path.iterdir()) == []
    copy = ArrayRoom(tmp_path).copied(array, np.uint32)
    assert (copy.dtype, copy.shape) == (np.uint32, array.shape)
    assert (copy == 7).all()


def test_a_small_array_lies_in_memory(tmp_path: Path) -> None:
    assert ArrayRoom(tmp_path / "missing").zeros(10, np.uint8).tolist() == [0] * 10


def test_without_room_on_the_disk_an_array_lies_in_memory(tmp_path: Path) -> None:
    with small_disk(tmp_path, 12 << 10):
        room = ArrayRoom(tmp_path)
        first, before = room.zeros(SIZE, np.uint8), own()
        second = room.zeros(SIZE, np.uint8)
        first[:], second[:] = 1, 2
        assert own() - before >= SIZE
        del first
        before = own()
        room.zeros(SIZE, np.uint8)[:] = 3
        assert own() - before < SIZE // 4


@pytest.mark.parametrize("window", [None, 150])
@pytest.mark.parametrize("background", [False, True])
def test_verdicts_are_those_of_a_judge_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int | None, background: bool
) -> None:
    monkeypatch.setattr(memory, "_MIN_FILE_BYTES", 1)

    def judged(folder: Path | None) -> list[Verdict]:
        state = JudgeState(policy("any", window, 1, 1), memtable_limit=50, background=background)
        if folder is not None:
            state.resolver.use_folder(folder, records=True)
        pages, verdicts = PageMaker(0.3, 0.2), list[Verdict]()
        while pages.count < 4000:
            columns = pages.batch(100)
            sources = [PageSource("p", 0, offset) for offset in columns.offset.tolist()]
            verdicts += state.resolver.judge(columns, columns.time, pages.count - 100, sources)
        state.check()
        state.close()
        return verdicts

    assert judged(tmp_path) == judged(None)
