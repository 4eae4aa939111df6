"""Live pages: those that leave must leave nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

from simstream.judge.pages import store
from simstream.judge.policy import Policy, make_policy
from simstream.judge.record_table import MAX_RECORDS
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.model import FingerprintColumns, PageSource
from simstream.text.recipe import preset
from tests.columns import page_columns

PAGES = 400


def policy(link: str, window_ms: int | None) -> Policy:
    return make_policy(
        preset("google2007"), "00000000", distance=3, similarity=None, window_ms=window_ms, link=link
    )


def columns(first: int, identities: int) -> FingerprintColumns:
    """Pages one ms apart under `identities` different ids; every other one is alone in its cluster."""
    numbers = np.arange(first, first + PAGES)
    alone = np.random.default_rng(first).integers(0, 2**63, PAGES, dtype=np.uint64)
    return page_columns(
        [b"%06d" % (number % identities) for number in numbers.tolist()],
        offset=numbers,
        time=numbers,
        identity=np.stack([numbers % identities, numbers % identities], 1),
        fingerprint=np.where(numbers % 2, alone, (numbers % 3 == 0).astype(np.uint64)),
        words=9,
    )


def in_use(resolver: Resolver) -> dict[str, int]:
    """How many records each table of the state holds."""
    return {part.name: int(part.facts["used"]) for part in resolver.parts() if part.kind == "table"}


@pytest.mark.parametrize("link", ["any", "canonical"])
@pytest.mark.parametrize(("window_ms", "identities"), [(50, 10**6), (None, 50)], ids=["window", "edits"])
def test_pages_that_left_take_no_room(link: str, window_ms: int | None, identities: int) -> None:
    chosen = policy(link, window_ms)
    resolver = Resolver(chosen, make_index(chosen))
    for turn in range(40):
        batch = columns(turn * PAGES, identities)
        sources = [PageSource("pages", 0, int(offset)) for offset in batch.offset]
        resolver.judge(batch, batch.time, turn * PAGES, sources)
        assert resolver.live_pages == 50
        assert not resolver._store.clusters._untidy
        assert resolver.numbers_used == max(in_use(resolver).values())
        if turn == 4:
            early = in_use(resolver)
    assert resolver.numbers_used > 50 or link == "canonical", "departed founders have none"
    assert all(now <= 2 * early[name] + 2 * PAGES for name, now in in_use(resolver).items())


def test_chunks_of_pages_use_numbers_as_their_share_of_all_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge of edited pages uses all slots before it uses all numbers of rows."""
    monkeypatch.setattr(store, "MAX_SLOTS", 8)
    monkeypatch.setattr(store.PageStore.__init__, "__defaults__", (PAGES // 4, None))
    chosen = policy("any", None)
    resolver = Resolver(chosen, make_index(chosen))
    batch = columns(0, 10**6)
    resolver.judge(batch, batch.time, 0, [PageSource("pages", 0, int(offset)) for offset in batch.offset])
    resolver.parts()  # seals full chunks
    assert resolver.numbers_used == MAX_RECORDS // 2
