"""Pages that the window leaves behind many at once: verdicts as one by one, and as the quadratic judge gives."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simstream.index import entry_numbers
from simstream.judge import batch_changes, best_match, expiry, live_pages, live_pages_check
from simstream.judge.pages.store import PageStore
from simstream.judge.policy import Link, Policy
from simstream.judge.resolver import Resolver
from simstream.judge.state import JudgeState
from simstream.model import PageKind
from tests.property.test_judge import RECIPE, index_for, judge_rows, pages, random_pages, said_of
from tests.short import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simstream.model import Verdict

    Rows = list[tuple[int, tuple]]


@dataclass(frozen=True)
class ExpiryWay:
    """How pages leave: from how many on in arrays, and by which of the ways that a large step takes."""

    few: int = 0
    most_ahead: int = 1 << 18
    keep_share: int = 1024
    most_apart: int = 1 << 13
    most_near: int = 32
    at_once: int = 1 << 16
    most_later: int = 1 << 18
    chunk: int = 1 << 16
    most_given_back: int = 1 << 17


ONE_BY_ONE = ExpiryWay(few=10**9)
WAYS = (
    ONE_BY_ONE,
    ExpiryWay(),
    ExpiryWay(few=2, at_once=3, keep_share=0),
    ExpiryWay(few=1, chunk=4),
    ExpiryWay(few=0, most_ahead=2, chunk=4),
    ExpiryWay(few=1, most_ahead=0, chunk=3, keep_share=10**9, most_apart=0),
    ExpiryWay(few=10**9, most_apart=1),
    ExpiryWay(few=4, most_apart=3),
    ExpiryWay(few=4, most_near=0),
    ExpiryWay(few=2, most_later=1, chunk=4),
    ExpiryWay(few=1, most_given_back=1),
)
"""`keep_share` 0: each is taken out of the directory by its identity; 10**9: always by going over all of it."""


@contextmanager
def taking(way: ExpiryWay) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry, "MAX_SINGLE_PAGES", way.few)
        patch.setattr(live_pages, "MAX_SINGLE_PAGES", way.few)
        patch.setattr(expiry, "MAX_AHEAD_PAGES", way.most_ahead)
        patch.setattr(expiry, "MAX_PAGES_AT_ONCE", way.at_once)
        patch.setattr(expiry, "MAX_LATER_PAGES", way.most_later)
        patch.setattr(batch_changes, "KEEP_SHARE", way.keep_share)
        patch.setattr(batch_changes, "MAX_APART_HEIRS", way.most_apart)
        patch.setattr(best_match, "MAX_NEAR_HEIRS", way.most_near)
        patch.setattr(live_pages, "PageStore", partial(PageStore, capacity=way.chunk))
        patch.setattr(entry_numbers, "MAX_GIVEN_BACK", way.most_given_back)
        patch.setattr(entry_numbers, "MAX_NUMBERS_AT_ONCE", min(way.most_given_back, 1 << 16))
        yield


def judged(
    policy: Policy, rows: Rows, batches: list[int], way: ExpiryWay
) -> tuple[list[Verdict], list[tuple[int, ...]]]:
    """The verdicts, and after each batch how many pages are live, and the sizes of the clusters."""
    verdicts: list[Verdict] = []
    states = []
    with taking(way):
        resolver = Resolver(policy, index_for(policy, memtable_limit=8))
        at = 0
        for size in [*batches, len(rows)]:
            part = rows[at : at + size]
            verdicts += judge_rows(resolver, part, at)
            at += len(part)
            resolver.check()
            sizes = sorted((size, count) for size, count in resolver.cluster_sizes.items() if count)
            states.append((resolver.live_pages, resolver.largest_cluster, *sum(sizes, ())))
    return verdicts, states


@st.composite
def histories(draw: st.DrawFn) -> Rows:
    """Pages in order, with late ones, new versions, and pauses up to longer than the window."""
    now, rows = 1000, []
    pauses = st.sampled_from([0] * 8 + [2, 5, 9, 40])
    for offset, row in enumerate(draw(st.lists(pages, min_size=2, max_size=60))):
        now += max(0, row[4]) + draw(pauses)
        rows.append((offset, (*row[:4], now + min(0, row[4]), row[5])))
    return rows


@pytest.mark.parametrize("link", ["any", "canonical"])
@pytest.mark.parametrize("short_words", [0, 20])
@given(rows=histories(), batches=st.lists(st.integers(1, 20), max_size=6), window=st.sampled_from([5, 8, 30]))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_pages_that_leave_at_once_change_no_verdict(link, short_words, rows, batches, window) -> None:
    policy = Policy(RECIPE, 128, 3, 100, window, link, short_words, 2, 118)
    expected = said_of(policy, rows)
    known = None
    for way in WAYS:
        verdicts, states = judged(policy, rows, batches, way)
        assert verdicts == expected, way
        known = known or states
        assert states == known, way


@cache
def with_pauses(count: int, seed: int) -> Rows:
    """Pages that come in waves, with a pause behind each: in one step hundreds of clusters leave or lose pages."""
    rows = random_pages(count, seed)
    return [
        (offset, (*row[:4], 1000 + offset // 8 + 70 * (offset // 400), row[5]))
        for offset, row in rows
        if row[1] is not PageKind.WITHDRAWN
    ]


@pytest.mark.parametrize("link", ["any", "canonical"])
@pytest.mark.parametrize(("window", "batches"), [(60, [300, 700]), (90, [300, 700]), (150, [40] * 40)])
def test_waves_of_pages_leave_as_the_quadratic_judge_says(link, window, batches) -> None:
    rows, policy = with_pauses(1600, seed=3), Policy(RECIPE, 128, 4, 100, window, link)
    expected = said_of(policy, rows)
    for way in WAYS:
        verdicts, _ = judged(policy, rows, batches, way)
        assert verdicts == expected, way


@pytest.mark.parametrize("way", WAYS)
def test_copies_of_which_one_was_withdrawn_in_the_same_batch_leave_once(way) -> None:
    policy = Policy(RECIPE, 128, 4, 100, 60, "any")
    copies = [(number, (number, PageKind.READABLE, 7, 7, 1000, 300)) for number in range(5)]
    then = [(5, (0, PageKind.WITHDRAWN, 0, 0, 1001, 300)), (6, (9, PageKind.READABLE, 7, 7, 5000, 300))]
    rows = copies + then
    verdicts, states = judged(policy, rows, [5], way)
    assert verdicts == said_of(policy, rows)
    assert states[-1][0] == 1


@cache
def expected_of_restarted(link: Link) -> list[Verdict]:
    """What the quadratic judge says of the pages that judges are restarted over."""
    return said_of(Policy(RECIPE, 128, 4, 100, 90, link), with_pauses(1600, seed=5))


@pytest.mark.parametrize("link", ["any", "canonical"])
@pytest.mark.parametrize("way", WAYS)
def test_a_judge_that_was_restarted_before_the_step_goes_on_as_one_that_was_not(link, way) -> None:
    rows, policy = with_pauses(1600, seed=5), Policy(RECIPE, 128, 4, 100, 90, link)
    verdicts = []
    with taking(way):
        state = JudgeState(policy, memtable_limit=8)
        for at in range(0, len(rows), 130):
            part = rows[at : at + 130]
            verdicts += judge_rows(state.resolver, part, at)
            parts, facts = state.parts(), state.facts("L")
            state.close()
            state = JudgeState(policy, memtable_limit=8)
            state.restore(parts, facts, "L")
        live_pages_check.check(state.resolver._store)
    assert verdicts == expected_of_restarted(link)


def test_pages_from_the_end_of_the_window_do_not_gather_in_memory() -> None:
    times = [0, 5_000, *(2_441 + n % 9 for n in range(300)), 5_003, *(2_447 + n % 3 for n in range(100)), 9_000]
    rows = [(n, (n, PageKind.READABLE, 0, 0, time, 300)) for n, time in enumerate(times)]
    policy = Policy(RECIPE, 128, 4, 100, 2_560, "any")  # its part is 10 ms
    verdicts, most = [], 0
    with taking(ExpiryWay(few=4, most_later=20, chunk=16)):
        state = JudgeState(policy, memtable_limit=8)
        for at in range(0, len(rows), 10):
            verdicts += judge_rows(state.resolver, rows[at : at + 10], at)
            expiry_of = state.resolver._store._expiry
            assert expiry_of is not None
            most = max(most, len(expiry_of._late))
    assert verdicts == said_of(policy, rows)
    assert state.resolver.live_pages == 1
    assert 10 <= most <= 20


def test_no_more_than_a_slice_of_pages_leaves_between_two_beats() -> None:
    rows, beats = with_pauses(400, seed=3), []
    policy = Policy(RECIPE, 128, 4, 100, 60, "any")
    with taking(ExpiryWay(few=4, most_ahead=10, at_once=32, chunk=16)):
        state = JudgeState(policy, memtable_limit=8, beat=lambda: beats.append(state.resolver.live_pages))
        judge_rows(state.resolver, rows, 0)
        live = state.resolver.live_pages
        beats.clear()
        judge_rows(state.resolver, [(400, (0, PageKind.READABLE, 0, 0, 10**6, 300))], len(rows))
    assert live > 150
    steps = [before - after for before, after in zip([live, *beats], beats, strict=False)]
    assert max(steps) <= 32
    assert sum(steps) >= live - 1
