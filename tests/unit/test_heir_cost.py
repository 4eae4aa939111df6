"""What a page costs under `canonical` when its time pushes many canonical pages out of the window."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from simstream.judge.state import JudgeState
from tests.bench.made_pages import columns_of, policy
from tests.bench.state import judge

EACH = 40
WINDOW_MS = 10_000_000


def cost(pages: int, near: Literal["none", "own", "all"] = "none") -> float:
    """Return the microseconds a page of one batch, in which each page pushes out the canonical pages of 40
    clusters.

    Near "all": each page of the batch matches all these canonical pages and all their heirs. Near "own": it matches
    the 40 that it pushes out, and their heirs. The canonical pages do not match one another.
    """
    rng, count = np.random.default_rng(1), pages * EACH
    canonical = rng.integers(0, 2**64, (count, 5), np.uint64)
    heirs, fresh = canonical.copy(), rng.integers(0, 2**64, (pages, 5), np.uint64)
    heirs[:, 0] ^= np.uint64(1)
    if near != "none":
        if near == "all":
            fresh[:] = fresh[0]
        canonical[:] = heirs[:] = np.repeat(fresh, EACH, axis=0)
        flipped = np.argsort(rng.random((count, 256)), axis=1) < 45
        canonical[:, 1:] ^= np.packbits(flipped, axis=1).view(np.uint64)
        flipped &= flipped.cumsum(axis=1) > 22
        heirs[:, 1:] ^= np.packbits(flipped, axis=1).view(np.uint64)
    state, times = JudgeState(policy("canonical", WINDOW_MS)), np.arange(count)
    took = 0.0
    last = WINDOW_MS + times[EACH - 1 :: EACH]
    for words, at in ((canonical, times), (heirs, times + WINDOW_MS // 2), (fresh, last)):
        columns = replace(columns_of(state.acceptor.ordinal, words[:, 0], words[:, 1:]), time=at)
        began = time.thread_time()
        judge(state, columns)
        took = time.thread_time() - began
    clusters = state.resolver.cluster_sizes
    assert sum(clusters.values()) > 0.9 * count
    state.close()
    return 1e6 * took / pages


@pytest.mark.long
@pytest.mark.parametrize("near", ["none", "own"])
def test_a_page_costs_hardly_more_in_a_batch_that_pushes_out_eight_times_as_many_canonical_pages(
    near: Literal["none", "own"],
) -> None:
    cost(50, near)  # compiled
    rounds = [(cost(250, near), cost(2000, near)) for _ in range(2)]
    small, large = (min(times) for times in zip(*rounds, strict=True))
    assert large < 2.5 * small


@pytest.mark.long
def test_thousands_of_heirs_near_a_page_are_compared_with_it_at_once() -> None:
    cost(50, "all")  # compiled
    rounds = [(cost(200), cost(200, "all")) for _ in range(2)]
    apart, near = (min(times) for times in zip(*rounds, strict=True))
    assert near < 15 * apart
