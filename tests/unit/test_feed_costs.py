"""What a request and an event cost the news page, against a tenth as many pages: counted calls, never seconds."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Coroutine, Generator
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from simstream.errors import LogError
from simstream.feeds import cards
from simstream.feeds.cards import CardQuery
from simstream.feeds.fold import FoldLimits
from simstream.feeds.records import PageSheet, place
from simstream.feeds.slices import MAX_WAITING, SearchRunner
from simstream.feeds.state import FeedState
from simstream.feeds.web import FeedWeb
from simstream.model import PageSource, Verdict

FEW, MANY = 2_000, 20_000
TIME = 1_795_000_000_000
SHAPES = {
    "one story": lambda number: 0,
    "a story a page": lambda number: number,
    "stories of five pages": lambda number: number - number % 5,
}


def verdict(number: int, cluster: int, merged: tuple[int, ...] = (), ahead: int = 0) -> Verdict:
    return Verdict(
        id=f"https://s{number % 999}.example/{number}",
        url=f"https://s{number % 999}.example/{number}",
        verdict="new" if number == cluster else "near_duplicate",
        reason=None,
        near_duplicate_of=None,
        distance=None,
        similarity=None,
        cluster_id=str(cluster),
        canonical=None,
        merged_clusters=tuple(map(str, merged)),
        fingerprint=None,
        policy="p",
        ordinal=number,
        time=TIME + number + ahead,
        source=PageSource("pages", 0, number),
    )


def feed_of(pages: int, cluster_of: Callable[[int], int], limits: FoldLimits | None = None) -> FeedState:
    """A feed that has read so many pages, and has cards of all."""
    feed = FeedState(limits or FoldLimits())
    feed.begin({})
    for number in range(pages):
        feed.fold.read(place(0, number), PageSheet(f"title {number}", TIME))
        feed.fold.apply(verdict(number, cluster_of(number)))
    asyncio.run(feed.settle())
    return feed


class CallCounter:
    """Counts calls that code of `stream/simstream/feeds` makes or that come into it."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> CallCounter:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        self.count += event in ("call", "c_call") and "/simstream/feeds/" in frame.f_code.co_filename


def largest_step(work: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> int:
    """Calls of the longest of the pieces between which the event loop goes on."""
    largest = 0
    while True:
        with CallCounter() as calls:
            try:
                work.send(None)
            except StopIteration:
                return max(largest, calls.count)
        largest = max(largest, calls.count)


async def asked(feed: FeedState, path: str) -> tuple[int, bytes]:
    """Calls for one request, and the answer's body."""

    async def compare(a: str, b: str) -> dict[str, Any]:
        raise AssertionError

    app = web.Application()
    FeedWeb(feed, compare).serve_on(app)
    async with TestClient(TestServer(app)) as client:
        with CallCounter() as calls:
            answer = await client.get(path)
            body = await answer.read()
    assert answer.status == 200, body
    return calls.count, body


@pytest.mark.parametrize("shape", SHAPES)
def test_a_request_after_a_new_page_costs_only_what_it_shows(shape: str) -> None:
    paths = ("/api/stories", "/api/stories?sort=largest", "/api/stories?sort=growing&page=3", "/api/stories/0")
    costs: list[list[int]] = []
    sizes: list[list[int]] = []
    for pages in (FEW, MANY):
        feed = feed_of(pages, SHAPES[shape])
        costs.append([])
        sizes.append([])
        for number, path in enumerate(paths, pages):
            feed.fold.apply(verdict(number, 0))
            cost, body = asyncio.run(asked(feed, path))
            costs[-1].append(cost)
            sizes[-1].append(len(body))
    for path, few, many in zip(paths, *costs, strict=True):
        assert many < 1.5 * few, f"{path}: {few} calls with {FEW} pages, {many} with {MANY}"
    for path, few, many in zip(paths, *sizes, strict=True):
        assert many < 1.5 * few, f"{path}: {few} bytes with {FEW} pages, {many} with {MANY}"


def merged(pages: int) -> FeedState:
    """A feed of two stories, of half of the pages each, at the moment when they have become one."""
    feed = feed_of(pages, lambda number: number % 2)
    feed.fold.apply(verdict(pages, 0, merged=(1,)))
    return feed


def outlived(pages: int) -> FeedState:
    """A feed at the moment when stream time has gone on by a year."""
    feed = feed_of(pages, lambda number: number % 50)
    feed.fold.apply(verdict(pages, 0, ahead=366 * 86_400_000))
    return feed


def grown_old(pages: int) -> FeedState:
    """A feed at the moment when none of its pages but one is young."""
    feed = feed_of(pages, lambda number: number % 50)
    feed.fold.apply(verdict(pages, 0, ahead=86_400_000))
    return feed


def begun(pages: int) -> FeedState:
    """A feed that has just read its table."""
    feed = feed_of(pages, lambda number: number % 50)
    feed.begin(feed.fold._table)
    return feed


@pytest.mark.parametrize("moment", [merged, outlived, grown_old, begun])
def test_changes_of_many_pages_are_taken_in_by_slices_of_one_size(moment: Callable[[int], FeedState]) -> None:
    few, many = (largest_step(moment(pages).settle()) for pages in (FEW, MANY))
    assert many < 1.5 * few


def test_after_two_stories_have_become_one_its_card_has_the_pages_of_both() -> None:
    feed = merged(FEW)
    asyncio.run(feed.settle())
    while feed.cards.refresh():
        pass
    card = feed.cards.get(1)
    assert card is not None
    assert (card.cluster, card.pages, len(feed.cards)) == (0, FEW + 1, 1)


def test_many_merges_of_a_long_story_into_short_ones_move_few_pages() -> None:
    feed = feed_of(FEW, lambda number: number if number < 50 else 50)
    with CallCounter() as calls:
        for number, (into, cluster) in enumerate(pairwise(reversed(range(51))), FEW):
            feed.fold.apply(verdict(number, cluster, merged=(into,)))
            asyncio.run(feed.settle())
    assert calls.count < 50 * FEW, "each merge looked at every page of the long story"


@pytest.mark.parametrize("most_sorted", [0, 10**6])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_search_works_in_slices_of_one_size(
    shape: str, most_sorted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "MAX_SORTED_CARDS", most_sorted)
    questions = CardQuery(words="nowhere"), CardQuery(words="title"), CardQuery(at_least=10**6)
    steps = []
    for pages in (FEW, MANY):
        feed = feed_of(pages, SHAPES[shape])
        steps.append([largest_step(feed.cards.find(question, 0, 30)) for question in questions])
    for question, few, many in zip(questions, *steps, strict=True):
        assert many < 1.5 * few, question


def found_while(feed: FeedState, query: CardQuery, moment: int, changes: list[Verdict]) -> list[int]:
    """The clusters that a search finds, if these verdicts come after so many of its slices."""
    work = feed.cards.find(query, 0, 10)
    for slices in itertools.count():
        if slices == moment:
            for change in changes:
                feed.fold.apply(change)
            while feed.cards.refresh():
                pass
        try:
            next(work)
        except StopIteration as done:
            return [card.cluster for card in done.value[0]]
    raise AssertionError


@pytest.mark.parametrize("moment", range(4))
def test_a_story_that_loses_its_rank_during_a_search_is_found_once(
    moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "SLICE_PAGES", 1)
    feed = feed_of(7, lambda number: number % 3)
    gone = [
        replace(verdict(number, 0), id=verdict(page, 0).id, verdict="withdrawn", cluster_id=None)
        for number, page in ((7, 3), (8, 6))
    ]
    assert sorted(found_while(feed, CardQuery("largest", since=0), moment, gone)) == [0, 1, 2]


@pytest.mark.parametrize("moment", range(5))
def test_two_stories_that_become_one_during_a_search_are_found_once(
    moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = feed_of(4, lambda number: min(number, 1))
    monkeypatch.setattr(cards, "SLICE_PAGES", 1)
    assert found_while(feed, CardQuery(words="title"), moment, [verdict(4, 0, merged=(1,))]) == [0]


def test_a_story_says_how_many_pages_its_timeline_leaves_out() -> None:
    feed = feed_of(FEW, SHAPES["one story"])
    _, body = asyncio.run(asked(feed, "/api/stories/0"))
    assert b'"left_out":1500' in body
    assert body.count(b'"founder":true') == 1
    assert b'"title":"title 0"' in body


def test_searches_take_turns_leave_half_of_the_time_to_others_and_are_limited() -> None:
    order = []

    def work(name: str, steps: int) -> Generator[None, None, str]:
        for _ in range(steps):
            order.append(name)
            yield
        return name

    async def others() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append("other")

    async def run() -> None:
        searches = SearchRunner()
        done = await asyncio.gather(searches.run(work("a", 5)), searches.run(work("b", 2)), others())
        assert done == ["a", "b", None]
        assert order.index("other") < 4
        assert "".join(name for name in order if name != "other") == "aaaaabb"
        waiting = [asyncio.ensure_future(searches.run(work("c", 1))) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(LogError, match="too many searches"):
            await searches.run(work("d", 1))
        assert await asyncio.gather(*waiting) == ["c"] * MAX_WAITING
        assert await searches.run(work("e", 1)) == "e"

    asyncio.run(run())
