"""Live pages: the judge hides them from the collector, so those that leave must go without it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from stream.judge.state import make_index
from stream.judge.members import LivePage
from stream.judge.resolver import Resolver
from stream.model import Columns, Kind, Source
from stream.text.policy import Policy, make_policy
from stream.text.recipe import preset

PAGES = 400


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The collector off, and no garbage left over."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def policy(link: str, window_ms: int | None) -> Policy:
    return make_policy(
        preset("google2007"), "00000000", distance=3, similarity=None, window_ms=window_ms, link=link
    )


def columns(first: int, identities: int) -> Columns:
    """Pages one ms apart under `identities` different ids; every other one is alone in its cluster."""
    numbers = np.arange(first, first + PAGES)
    alone = np.random.default_rng(first).integers(0, 2**63, PAGES, dtype=np.uint64)
    names = [f"{number % identities:06}" for number in numbers]
    return Columns(
        offset=numbers,
        kind=np.full(PAGES, Kind.READABLE, np.uint8),
        reason=np.zeros(PAGES, np.uint8),
        time=numbers,
        identity=np.stack([numbers % identities, numbers % identities], 1).astype(np.uint64),
        fingerprint=np.where(numbers % 2, alone, (numbers % 3 == 0).astype(np.uint64)),
        sketch=np.zeros((PAGES, 0), np.uint64),
        words=np.full(PAGES, 9, np.uint32),
        id_ends=np.arange(6, 6 * PAGES + 1, 6, dtype=np.uint32),
        url_ends=np.zeros(PAGES, np.uint32),
        ids="".join(names).encode(),
        urls=b"",
    )


def alive() -> int:
    """How many pages exist in memory, whoever holds them."""
    return sum(isinstance(found, LivePage) for found in gc.get_objects())


@pytest.mark.parametrize("link", ["any", "canonical"])
@pytest.mark.parametrize(("window_ms", "identities"), [(50, 10**6), (None, 50)], ids=["window", "edits"])
def test_pages_that_left_are_freed_without_the_collector(
    no_collector: None, link: str, window_ms: int | None, identities: int
) -> None:
    before = alive()
    chosen = policy(link, window_ms)
    resolver = Resolver(chosen, make_index(chosen))
    for first in range(0, 4 * PAGES, PAGES):
        batch = columns(first, identities)
        sources = [Source("pages", 0, int(offset)) for offset in batch.offset]
        resolver.judge(batch, batch.time, first, sources)
    assert resolver.live_pages == 50
    assert alive() - before <= 5 * 50 + 64
