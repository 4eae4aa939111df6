"""A window that moves on at once: what it costs to let every page go, beside what it costs to judge one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from simstream.judge import expiry, live_pages
from simstream.judge.pages.store import PageStore
from simstream.judge.state import JudgeState
from tests.bench import expiry as bench
from tests.bench.made_pages import PageMaker, policy
from tests.bench.state import judge
from tests.peak_memory import peak_memory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("link", ["any", "canonical"])
def test_to_let_a_page_go_costs_a_small_part_of_judging_it(tmp_path: Path, link: str) -> None:
    pages = 40_000
    there, filled_us = bench.fill(tmp_path / "state", pages, link, 60)
    assert there == pages
    found = bench.step(tmp_path / "state", pages, link, filled_us)
    assert found.pages == pages
    assert found.us < filled_us / 10


def test_memory_beside_is_a_small_part_of_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    pages, slice_pages = 40_000, 512
    monkeypatch.setattr(expiry, "MAX_PAGES_AT_ONCE", slice_pages)
    monkeypatch.setattr(expiry, "MAX_AHEAD_PAGES", slice_pages)
    monkeypatch.setattr(live_pages, "PageStore", partial(PageStore, capacity=slice_pages))
    state, made = JudgeState(policy("any", bench.window_ms(pages))), PageMaker(0.13, 0.07)
    while made.count < pages:
        judge(state, made.batch())
    held = sum(state.resolver.nbytes().values())
    with peak_memory() as peak:
        judge(state, bench.last_page(10**9))
    assert state.resolver.live_pages == 1
    assert peak.bytes < held / 5  # a tenth where the directory has more than one partition
