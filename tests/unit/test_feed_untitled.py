"""Pages whose records never come: after a bounded time they are shown by their addresses, and counted."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from simstream.feeds.condition import FeedCondition
from simstream.feeds.fold import FoldLimits, VerdictFold
from simstream.feeds.records import PageSheet, place
from simstream.feeds.state import FeedState
from simstream.feeds.watch import TitleDeadline
from tests.unit.test_feed_condition import PAGES, ManualClock
from tests.unit.test_feed_costs import TIME, verdict


def waiting(clock: ManualClock, table: dict[str, bytes]) -> tuple[FeedState, TitleDeadline]:
    """A ready feed of four pages; the records of two of them have not come."""
    feed = FeedState(FoldLimits())
    feed.begin(table)
    feed.condition = FeedCondition(clock)
    feed.condition.has_read_table = True
    for number in range(4):
        if number % 2:
            feed.fold.read(place(0, number), PageSheet(f"title {number}", TIME))
        feed.fold.apply(verdict(number, number))
    return feed, TitleDeadline(feed, clock)


def after_a_round(feed: FeedState, deadline: TitleDeadline, clock: ManualClock, end: int = 0) -> dict[str, str]:
    """Let a round pass, in which a broker has answered; return the titles by page."""
    clock.now += deadline.ROUND_S
    feed.condition.hear({PAGES: end})
    asyncio.run(deadline.look())
    return {page_id[-1]: version.title for page_id, version in feed.fold.versions.items()}


def test_a_page_that_waits_for_a_whole_ready_round_is_shown_by_its_address() -> None:
    clock, table = ManualClock(), dict[str, bytes]()
    feed, deadline = waiting(clock, table)
    feed.condition.hear({PAGES: 0})
    assert after_a_round(feed, deadline, clock) == {"0": "", "1": "title 1", "2": "", "3": "title 3"}
    feed.fold.read(place(0, 2), PageSheet("title 2", TIME))  # in time
    found = after_a_round(feed, deadline, clock)
    assert found == {"0": "https://s0.example/0", "1": "title 1", "2": "title 2", "3": "title 3"}
    assert feed.fold.counts.untitled == 1
    after_a_round(feed, deadline, clock)
    again = VerdictFold(table)
    assert (again.counts.untitled, again.versions["https://s0.example/0"].title) == (1, "https://s0.example/0")


def test_pages_that_come_again_at_the_places_of_others_get_their_own_titles() -> None:
    """The topic `pages` was made anew, and the same pages came again behind another one."""
    fold = VerdictFold({})
    for ordinal, number in enumerate([0, 1, 2]):
        fold.apply(msgspec.structs.replace(verdict(number, number), ordinal=ordinal))
    came = [3, 0, 1, 2]
    for offset, number in enumerate(came):
        source = msgspec.structs.replace(verdict(0, 0).source, offset=offset)
        fold.apply(msgspec.structs.replace(verdict(number, number), ordinal=10 + offset, source=source))
    for offset, number in enumerate(came):
        fold.read(place(0, offset), PageSheet(f"title {number}", TIME, page_id=verdict(number, number).id))
    assert {name[-1]: version.title for name, version in fold.versions.items()} == {
        str(number): f"title {number}" for number in came
    }


@pytest.mark.parametrize("pages_first", [True, False])
def test_the_record_of_another_page_at_a_page_s_place_gives_no_title(pages_first: bool) -> None:
    """The verdicts are of an older topic `pages`: this one was created anew, or is a copy without its beginning."""
    fold = VerdictFold(table := {})
    old, new = verdict(0, 0), verdict(1, 1)
    new = msgspec.structs.replace(new, source=old.source)
    sheet = PageSheet("The new one's", TIME, page_id=new.id)
    if pages_first:
        fold.read(place(0, 0), sheet)
    fold.apply(old)
    assert VerdictFold(table).versions[old.id].title == ""
    fold.read(place(0, 0), sheet)
    fold = VerdictFold(table)
    fold.apply(new)
    assert {one.url: one.title for one in fold.versions.values()} == {old.url: old.url, new.url: "The new one's"}
    assert (fold.counts.untitled, fold.awaited_titles()) == (1, set())


def test_pages_that_a_shorter_window_removes_at_the_start_are_told(caplog: pytest.LogCaptureFixture) -> None:
    table: dict[str, bytes] = {}
    feed = FeedState(FoldLimits())
    feed.begin(table)
    for number, ahead in ((0, 0), (1, 1), (2, 2 * 3_600_000)):
        feed.fold.apply(verdict(number, number, ahead=ahead))
    caplog.set_level("INFO", "simstream.news")
    again = FeedState(FoldLimits(), name="simstream.news2.x")
    again.begin(dict(table))
    assert [record.getMessage() for record in caplog.records] == ["the news page has read its table; pages: 3"]
    shorter = FeedState(FoldLimits(window_ms=3_600_000), name="simstream.news2.x")
    shorter.begin(table)
    assert caplog.records[-1].getMessage() == (
        "pages that left the news page because its window is now 60 min: 2; to have them back, stop the news page, "
        "delete the topic simstream.news2.x.table, and start it with a longer --window"
    )


def test_a_feed_that_is_behind_waits_for_its_titles() -> None:
    clock = ManualClock()
    feed, deadline = waiting(clock, {})
    feed.condition.hear({PAGES: 0})
    after_a_round(feed, deadline, clock)
    found = [after_a_round(feed, deadline, clock, end=9) for _ in range(3)][-1]
    assert feed.condition.state == "loading"
    assert (found["0"], found["2"]) == ("", "")
