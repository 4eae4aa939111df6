"""Live pages: those that leave must leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from simstream.index import entry_numbers
from simstream.judge import clusters, lookups
from simstream.judge.numbers import ClusterId
from simstream.judge.pages import store
from simstream.judge.policy import Policy, make_policy
from simstream.judge.record_table import MAX_RECORDS
from simstream.judge.resolver import Resolver
from simstream.judge.state import make_index
from simstream.model import FingerprintColumns, PageKind, PageSource
from simstream.roles.context import RoleContext
from simstream.roles.query import NAME, QueryRole
from simstream.settings import Settings
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


def test_a_bucket_that_leaves_gives_its_rows_back_a_bounded_number_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_numbers, "MAX_NUMBERS_AT_ONCE", 20)
    monkeypatch.setattr(entry_numbers, "MAX_GIVEN_BACK", 40)
    chosen = policy("any", PAGES)
    resolver = Resolver(chosen, make_index(chosen))

    def rows_after(batch: FingerprintColumns, ordinal: int) -> int:
        resolver.judge(batch, batch.time, ordinal, [PageSource("pages", 0, 0)] * len(batch))
        resolver.check()
        return in_use(resolver)["rows"]

    alone = np.random.default_rng(0).integers(0, 2**63, PAGES, dtype=np.uint64)
    rows = [rows_after(replace(columns(0, 10**6), fingerprint=alone), 0)]
    while rows[-1] > 1:
        one = columns(10**6, 1).part(0, 1)
        rows.append(rows_after(one, PAGES + len(rows)))
    assert resolver.live_pages == 1
    assert len(rows) > 5
    assert max(before - after for before, after in pairwise(rows)) <= 40 + 1


def pairs(first: int, count: int) -> FingerprintColumns:
    """Pages of which every two successive ones are one cluster, apart from all others."""
    numbers = np.arange(first, first + count)
    fingerprints = np.random.default_rng(first).integers(0, 2**63, count // 2, dtype=np.uint64)
    return page_columns(
        [b"%06d" % number for number in numbers.tolist()],
        offset=numbers,
        identity=np.stack([numbers, numbers], 1),
        fingerprint=np.repeat(fingerprints, 2),
        words=9,
    )


def test_a_cluster_is_asked_for_while_the_state_changes_between_two_short_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = RoleContext(Settings())
    context.health.turn(NAME)
    role = QueryRole(None, policy("any", None), None, context)  # type: ignore[arg-type]  # unused here
    resolver, count = role._resolver, 600
    changes: list[FingerprintColumns] = [pairs(0, count)]
    columns_before = resolver._store.clusters.ids()

    def judge_more() -> None:
        batch = changes.pop()
        resolver.judge(batch, batch.time, int(batch.offset[0]), [PageSource("pages", 0, 0)] * len(batch))

    def scan(ids: NDArray[np.int64], cluster_id: ClusterId) -> Iterator[int]:
        assert not role._turns._taken, "others have their turns while ids are scanned"
        found = list(clusters.records_of(ids, cluster_id))
        judge_more()
        return iter(found)

    judge_more()
    monkeypatch.setattr(clusters, "IDS_AT_ONCE", 7)
    monkeypatch.setattr(lookups, "records_of", scan)
    changes.append(pairs(count, 4000))
    found = role.cluster(480, 9)
    assert found is not None
    assert [member.ordinal for member in found.members] == [480, 481]
    assert not np.shares_memory(columns_before, resolver._store.clusters.ids()), "the table has grown meanwhile"
    changes.append(replace(pairs(480, 2), offset=np.arange(4600, 4602), kind=np.full(2, PageKind.WITHDRAWN)))
    assert role.cluster(480, 9) is None
