"""Shards that take in a log without answers: what they keep, and how short their next answers are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from simstream.index import segment
from simstream.index.index import Index
from simstream.index.keys import KeyColumns
from simstream.index.shard import WHOLE, Shard
from simstream.judge import shard_matcher
from simstream.judge.batch import PageBatch
from simstream.judge.numbers import Ordinal
from simstream.judge.seen_keys import SeenKeys
from simstream.judge.shard_matcher import owned_keys
from simstream.judge.state import ShardState
from simstream.model import FingerprintColumns
from simstream.wire.answer import MatchColumns
from tests.bench.made_pages import BATCH, columns_of, copies, distinct, policy, template
from tests.cpu_time import least_seconds
from tests.property.test_shards import short_tables

PAGES = 3 * BATCH


def taken_in(pages: Iterable[FingerprintColumns], state: ShardState | None = None) -> ShardState:
    """A shard, usually one that owns everything, that has these pages."""
    state, seen = state or ShardState(policy(), WHOLE), SeenKeys(PAGES)
    for columns in pages:
        state.matcher.take_in(columns, columns.time, state.acceptor.ordinal, seen)
        state.acceptor.ordinal += len(columns)
    state.check()
    return state


def next_answer(state: ShardState, pages: Iterable[FingerprintColumns]) -> MatchColumns:
    """The answer to the last of these pages, which the shard does not have yet."""
    *_, last = pages
    one = last.part(len(last) - 1, len(last))
    state.acceptor.ordinal += 1
    return state.matcher.answer(one, one.time, state.acceptor.ordinal - 1)


@pytest.mark.parametrize("held", [1000, PAGES])
def test_an_answer_names_few_of_many_pages_that_match_one_another(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6,000 pages are a crowd, 1,000 are not."""
    state = taken_in(template(held))
    assert len(state.index) > held // 2
    assert state.matcher.live_pages == held
    found = next_answer(state, template(held + BATCH))
    assert len(found.best) == 1
    assert len(found.ties) <= 16
    monkeypatch.setattr(shard_matcher, "MAX_FEW_TIES", held)
    whole = next_answer(taken_in(template(held)), template(held + BATCH))
    assert len(whole.ties) > held // 2, "each of them is in a cluster of its own"
    assert not len(next_answer(state, template(held + 2 * BATCH)).ties), "an answer ties all"


def test_copies_of_one_batch_share_an_entry() -> None:
    [pages] = distinct(BATCH)
    half = BATCH // 2
    twice = columns_of(0, pages.fingerprint[:half].repeat(2), pages.sketch[:half].repeat(2, axis=0))
    state = taken_in([twice])
    assert state.matcher.live_pages == BATCH
    assert len(state.index) == half


def test_copies_share_an_entry_and_a_cluster() -> None:
    one, sketch = np.array([77], np.uint64), np.arange(4, dtype=np.uint64).reshape(1, 4)
    state = taken_in(copies(PAGES, one, sketch))
    assert state.matcher.live_pages == PAGES
    assert len(state.index) == 1
    assert len(next_answer(state, copies(PAGES + BATCH, one, sketch)).ties) <= 1


@pytest.mark.parametrize("answers", [False, True])
def test_copies_share_an_entry_in_each_shard_that_owns_them(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard may own a page by a word of its sketch alone. Then only this lookup finds it."""
    monkeypatch.setattr(segment, "choose_divided", short_tables)
    pages = [*distinct(PAGES)]
    again = [
        columns_of(PAGES + BATCH * number, columns.fingerprint, columns.sketch)
        for number, columns in enumerate(pages)
    ]
    state = ShardState(policy(), Shard(1, 8), memtable_limit=256)
    if answers:
        for number, columns in enumerate([*pages, *again]):
            state.matcher.answer(columns, columns.time, BATCH * number)
        state.check()
    else:
        taken_in([*pages, *again], state)
    keys = [KeyColumns(page.fingerprint, page.sketch, np.empty(0, np.uint8)) for page in pages]
    owned = sum(
        int(owned_keys(state.matcher.shard, key, policy().lookups, policy().distance).sum()) for key in keys
    )
    assert len(state.index) == owned
    assert state.matcher.live_pages == 2 * owned


def test_copies_of_a_page_in_a_crowd_share_an_entry_too() -> None:
    crowd = list(template(PAGES))
    first = crowd[0]
    again = [
        columns_of(PAGES + at, first.fingerprint[:1].repeat(BATCH), first.sketch[:1].repeat(BATCH, axis=0))
        for at in range(0, 2 * BATCH, BATCH)
    ]
    state = taken_in([*crowd, *again])
    assert state.matcher.live_pages == PAGES + 2 * BATCH
    assert len(state.index) <= len(taken_in(crowd).index) + 1


def test_taking_in_a_crowd_that_was_fetched_again_costs_less_than_answering_it() -> None:
    """Each page has a cluster of its own then. A lookup that went over all of them would cost twice as much."""
    pages = [*template(2 * BATCH)] * 2

    def answer_all() -> None:
        state = ShardState(policy(), WHOLE)
        for number, columns in enumerate(pages):
            state.matcher.answer(columns, columns.time, number * BATCH)

    taking = least_seconds(lambda: taken_in(pages))
    assert taking < 0.8 * least_seconds(answer_all)


def test_hardly_any_page_with_a_new_key_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    query = Index.query_equal

    def noted(self, fingerprints, *more):
        asked.append(len(fingerprints))
        return query(self, fingerprints, *more)

    monkeypatch.setattr(Index, "query_equal", noted)
    taken_in(distinct(PAGES))
    assert sum(asked) < PAGES // 20


def test_seen_keys_have_every_key_that_came_and_few_others() -> None:
    seen, wrong = SeenKeys(PAGES), 0
    for number, columns in enumerate(distinct(PAGES)):
        nothing = np.zeros(len(columns), np.int64)
        batch = PageBatch.of_readable(
            columns, columns.time, Ordinal(number * BATCH), nothing.astype(np.bool_), nothing
        )
        wrong += int(seen.add_and_find_seen(batch).sum())
        assert seen.add_and_find_seen(batch).all()
    assert wrong < PAGES // 100
