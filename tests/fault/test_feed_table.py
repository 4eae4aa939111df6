"""The news page's table: its changes in their order, the places after them, and what a kill leaves of both."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from deploy.kafka.broker import KafkaBroker
from simstream.errors import DeliveryFailed, LogLocked, TopicRecreated
from simstream.feeds import table
from simstream.feeds.condition import FeedPartition
from simstream.feeds.fold import FoldLimits
from simstream.feeds.intake import NewsIntake
from simstream.feeds.state import FeedState
from simstream.feeds.table import Change, NewsTable, TableTopic, table_cluster
from simstream.log import Log
from simstream.log.base import PAGES, VERDICTS, TopicInfo
from simstream.log.kafka.topics import create_table
from simstream.settings import Settings
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits
from tests.kafka_fixtures import TopicPlace
from tests.unit.test_feed_costs import verdict

INFO = TopicInfo("t.pages", "an id", 2)


def held(changes: list[Change], entries: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """What a compacted topic holds after these changes."""
    found = dict(entries or {})
    for key, entry in changes:
        if entry is None:
            found.pop(key, None)
        else:
            found[key] = entry
    return found


def test_a_table_gives_its_changes_once_in_order_and_the_places_last() -> None:
    first = NewsTable()
    assert first.begin(PAGES, INFO) == {}
    first["va"], first["vb"] = b"1", b"2"
    del first["va"]
    first.places[PAGES].offsets[1] = 7
    changes = first.take_changes()
    assert changes[:-1] == [("va", b"1"), ("vb", b"2"), ("va", None)]
    assert first.take_changes() == []
    first.places[PAGES].offsets[1] = 8
    assert [key for key, _ in first.take_changes()] == ["p"]
    again = NewsTable(held(changes))
    assert (dict(again), again.begin(PAGES, INFO)) == ({"vb": b"2"}, {1: 7})


def test_a_topic_that_was_created_again_is_read_from_its_beginning() -> None:
    first = NewsTable()
    first.begin(PAGES, INFO)
    first.places[PAGES].offsets[0] = 7
    again = NewsTable(held(first.take_changes()))
    assert again.begin(PAGES, INFO._replace(id="another id")) == {}
    assert again.begin(PAGES, INFO) == {}


class HeldPlace:
    """A place that a test takes away."""

    def __init__(self) -> None:
        self.is_held = True

    def check_other(self) -> None:
        raise LogLocked("another process shows the stories", "stop it")


class KeptTopic:
    """A table's topic in memory."""

    def __init__(self, entries: dict[str, bytes] | None = None) -> None:
        self.entries = entries or {}

    def read(self) -> dict[str, bytes]:
        return dict(self.entries)

    def write(self, changes: list[Change]) -> None:
        self.entries = held(changes, self.entries)

    def end(self) -> None:
        pass


def play(log: Log, topic: KeptTopic, place: Any, until: Callable[[FeedState], bool]) -> FeedState:
    """Run an intake until a condition holds, then stop it; raise what ends it."""

    async def run() -> FeedState:
        feed = FeedState(FoldLimits())
        stored: Any = topic
        intake = NewsIntake(log, feed, PageLimits(), stored, place)
        running = asyncio.ensure_future(intake.run())
        async with asyncio.timeout(30):
            while not running.done() and not (feed.fold is not None and until(feed)):
                await asyncio.sleep(0.02)
            intake.stop()
            await running
        return feed

    return asyncio.run(run())


@pytest.fixture
def log(tmp_path: Any) -> Any:
    place = TopicPlace(str(tmp_path / "log"), "simstream")
    with place.open() as opened:
        opened.create_topics()
        yield opened


def tell(log: Log, numbers: range) -> None:
    with log.open_appender(VERDICTS) as verdicts, log.open_appender(PAGES) as pages:
        for number in numbers:
            pages.append(b'{"text": "x", "title": "Title %d"}' % number, b"a", ())
            verdicts.append(wire.encode(verdict(number, number)), b"a", ())
        pages.flush(10)
        verdicts.flush(10)


def count(feed: FeedState) -> int:
    assert feed.fold is not None
    return len(feed.fold.versions) if not feed.fold.awaited_titles() else -1


def test_an_intake_goes_on_where_its_table_says(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = KeptTopic()
    tell(log, range(5))
    play(log, topic, HeldPlace(), lambda feed: count(feed) == 5)
    places = msgspec.json.decode(topic.entries["p"])
    assert [places[name]["offsets"] for name in (VERDICTS, PAGES)] == [{"0": 5}, {"0": 5}]
    tell(log, range(5, 9))
    taken = []
    apply = NewsIntake._poll

    async def noted(intake: NewsIntake, reader: Any) -> Any:
        taken.extend(found := await apply(intake, reader))
        return found

    monkeypatch.setattr(NewsIntake, "_poll", noted)
    feed = play(log, topic, HeldPlace(), lambda feed: count(feed) == 9)
    assert count(feed) == 9
    assert sorted(record.offset for record in taken) == [5, 5, 6, 6, 7, 7, 8, 8]
    feed.condition.hear({FeedPartition(log.topic(PAGES).name, 0): 10})
    assert feed.condition.behind == 1


def test_after_a_start_only_what_is_not_read_yet_counts_as_behind(log: Log) -> None:
    topic = KeptTopic()
    tell(log, range(5))
    play(log, topic, HeldPlace(), lambda feed: count(feed) == 5)
    asked: list[int] = []

    def ask(feed: FeedState) -> bool:
        feed.condition.hear({FeedPartition(log.topic(name).name, 0): 7 for name in (PAGES, VERDICTS)})
        asked.append(feed.condition.behind)
        return asked[-1] == 4

    play(log, topic, HeldPlace(), ask)
    assert asked[-1] == 4


def test_an_intake_writes_nothing_without_its_place_and_ends_if_another_has_it(log: Log) -> None:
    topic, place = KeptTopic(), HeldPlace()
    tell(log, range(3))

    def lose(feed: FeedState) -> bool:
        place.is_held = False
        topic.entries = {"untouched": b""}
        return False

    with pytest.raises(LogLocked):
        play(log, topic, place, lose)
    assert topic.entries == {"untouched": b""}


def test_reading_waits_for_a_table_that_is_slow(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewsIntake, "MAX_CHANGES", 10)
    monkeypatch.setattr(NewsIntake, "MAX_RECORDS", 5)
    monkeypatch.setattr(NewsIntake, "WRITE_EVERY_S", 0.2)
    waited: list[int] = []

    class SlowTopic(KeptTopic):
        def write(self, changes: list[Change]) -> None:
            waited.append(len(changes))
            super().write(changes)

    tell(log, range(100))
    assert count(play(log, SlowTopic(), HeldPlace(), lambda feed: count(feed) == 100)) == 100
    assert max(waited) <= 10 + 2 * 3 * 5 + 1  # each topic passes the limit by the changes of one poll
    assert len(waited) > 5


@pytest.mark.kafka
def test_a_table_is_written_again_by_a_new_client_and_read_whole(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"t{secrets.token_hex(4)}"
    cluster = table_cluster(Settings(log=broker.address), name, INFO)
    create_table(cluster)
    create_table(cluster)
    failures = [DeliveryFailed("lost", "again"), DeliveryFailed("lost", "again")]
    flush = table.KafkaAppender.flush

    def failing(appender: Any, seconds: float) -> int:
        done = flush(appender, seconds)
        if failures:
            raise failures.pop()
        return done

    monkeypatch.setattr(table.KafkaAppender, "flush", failing)
    with TableTopic(cluster) as topic:
        assert topic.read() == {}
        topic.write([("va", b"1"), ("v\u00e9", b"2"), ("va", None), ("vb", b"3")])
        topic.write([("vb", b"4")])
    assert not failures
    with TableTopic(cluster) as again:
        assert again.read() == {"v\u00e9": b"2", "vb": b"4"}
        again.end()
        again.write([("vb", b"5")])
        assert again.read() == {}


@pytest.mark.kafka
def test_a_topic_that_is_created_again_ends_the_intake_by_name(broker: KafkaBroker) -> None:
    place = TopicPlace(broker.address, f"t{secrets.token_hex(4)}")
    with place.open() as log:
        log.create_topics(1)
        tell(log, range(2))
        made: list[int] = []

        def again(feed: FeedState) -> bool:
            if count(feed) == 2 and not made:
                place.delete(PAGES)
                made.extend(1 for report in log.create_topics(1) if report.created)
            return False

        with pytest.raises(TopicRecreated, match="pages was deleted and created again"):
            play(log, KeptTopic(), HeldPlace(), again)
