"""A window on disk: what it leaves behind leaves the folder too, bucket by bucket, and copies take no room."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simstream.files.folder import StateFolder
from simstream.judge import live_pages
from simstream.judge.live_pages import BUCKETS_A_WINDOW
from simstream.judge.state import JudgeState
from tests.bench.made_pages import PageMaker, columns_of, policy
from tests.bench.state import judge, save

PAGES = 250
WINDOW_MS = 8 * PAGES // 10
"""Eight batches long: a page is a tenth of a ms after the one before."""


def on_disk(path: Path) -> int:
    """Bytes of segments; chunks of pages, of 65,536 records each, have tests of their own."""
    return sum(file.stat().st_size for file in path.glob("segment-*"))


@pytest.mark.parametrize("link", ["any", "canonical"])
def test_files_go_with_their_buckets(tmp_path: Path, link: str) -> None:
    state, made = JudgeState(policy(link, WINDOW_MS), memtable_limit=128), PageMaker(0.2, 0.2)
    sizes, buckets = [], []
    with StateFolder(tmp_path / "state") as folder:
        for _ in range(60):
            judge(state, made.batch(PAGES))
            save(state, folder)
            sizes.append(on_disk(folder.path))
            buckets = state.index.buckets
    edge = state.resolver.stream_time - WINDOW_MS
    width = WINDOW_MS // BUCKETS_A_WINDOW
    assert min(buckets) >= edge // width
    assert len(buckets) <= BUCKETS_A_WINDOW + 2
    assert state.resolver.live_pages == pytest.approx(8 * PAGES, abs=10)
    settled, later = max(sizes[16:24]), max(sizes[52:])
    assert later < 1.6 * settled
    state.check()
    state.close()


def test_a_state_keeps_the_buckets_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions divided a window by eight, and did not say so in a state."""
    made = PageMaker(0.2, 0.2)
    pages = [made.batch(PAGES) for _ in range(30)]
    other = JudgeState(policy("any", WINDOW_MS), memtable_limit=128)
    with monkeypatch.context() as patch, StateFolder(tmp_path / "state") as folder:
        patch.setattr(live_pages, "BUCKETS_A_WINDOW", 8)
        old = JudgeState(policy("any", WINDOW_MS), memtable_limit=128)
        for batch in pages[:20]:
            assert judge(old, batch) == judge(other, batch)
        facts = old.facts("L")
        assert "buckets" not in facts
        prepared = folder.prepare(old.parts(), facts)
        prepared.write()
        prepared.commit()
        old.close()
    state = JudgeState(policy("any", WINDOW_MS), memtable_limit=128)
    with StateFolder(tmp_path / "state") as folder:
        loaded = folder.load()
        state.restore(loaded.parts, loaded.facts, "L")
    state.check()
    for batch in pages[20:]:
        assert judge(state, batch) == judge(other, batch)
        state.check()
    assert len(state.index.buckets) > len(other.index.buckets)
    state.close()
    other.close()


def test_a_page_fetched_a_thousand_times_takes_the_room_of_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    fingerprints = rng.integers(0, 2**64, PAGES, np.uint64)
    sketches = rng.integers(0, 2**64, (PAGES, 4), np.uint64)
    numbers = np.arange(PAGES)
    state = JudgeState(policy(), memtable_limit=128)
    early: dict[str, int] = {}
    with StateFolder(tmp_path / "state") as folder:
        for turn in range(80):
            edited = fingerprints ^ (np.uint64(1) << np.uint64(turn % 3))  # as like as a new edition
            judge(state, columns_of(turn * PAGES, edited, sketches, numbers))
            if turn % 10 == 9:
                save(state, folder)
            if turn == 29:
                early = {**state.resolver.nbytes(), "disk": on_disk(folder.path)}
        late = {**state.resolver.nbytes(), "disk": on_disk(folder.path)}
    assert state.resolver.live_pages == PAGES
    grown = {name for name in early if late[name] > 1.5 * early[name] + 10_000}
    assert grown <= {"page store"}  # its open chunk, up to 65,536 records: tests/unit/test_pages.py
    state.check()
    state.close()
