"""The news page's table: its changes with their progress, its one writer, and what a kill leaves of it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from deploy.kafka.broker import KafkaBroker
from simstream.errors import LogDamaged, LogError, LogLocked, StateDamaged, TopicMissing, TopicRecreated
from simstream.feeds.condition import FeedPartition
from simstream.feeds.fold import FoldLimits
from simstream.feeds.intake import NewsIntake
from simstream.feeds.records import GONE, version_key
from simstream.feeds.state import FeedState
from simstream.feeds.table import Changes, NewsTable, TableAccess, TableTopic, table_cluster
from simstream.log import Log
from simstream.log.base import Appender, OutgoingVerdict, TopicInfo
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.topics import create_table, topic_settings
from simstream.log.options import PAGES, TABLE, VERDICTS
from simstream.model import PageSource
from simstream.settings import Settings
from simstream.wire import verdict as wire
from simstream.wire.page import PageLimits
from tests.kafka_fixtures import TopicPlace
from tests.unit.test_feed_costs import verdict
from tests.waiting import until

INFO = TopicInfo("t.pages", "an id", 2)


def held(changes: Changes, entries: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """What a compacted topic holds after these changes."""
    found = dict(entries or {})
    for key, entry in changes.items():
        if entry is None:
            found.pop(key, None)
        else:
            found[key] = entry
    return found


def test_a_table_gives_the_last_change_of_each_key_once_and_the_progress() -> None:
    first = NewsTable()
    assert first.begin(PAGES, INFO) == {}
    first["va"], first["vb"] = b"1", b"2"
    del first["va"]
    first.progress[PAGES].offsets[1] = 7
    changes = first.take_changes()
    assert {key: entry for key, entry in changes.items() if key != "p"} == {"va": None, "vb": b"2"}
    assert first.take_changes() == {}
    first.progress[PAGES].offsets[1] = 8
    assert list(first.take_changes()) == ["p"]
    again = NewsTable(held(changes))
    assert (dict(again), again.begin(PAGES, INFO)) == ({"vb": b"2"}, {1: 7})


def test_a_topic_that_was_created_again_is_read_from_its_beginning() -> None:
    first = NewsTable()
    first.begin(PAGES, INFO)
    first.progress[PAGES].offsets[0] = 7
    again = NewsTable(held(first.take_changes()))
    assert again.begin(PAGES, INFO._replace(id="another id")) == {}
    assert again.begin(PAGES, INFO) == {}


class HeldPlace:
    """A place that a test takes away."""

    def __init__(self) -> None:
        self.is_held = True
        self.is_taken = False

    def close(self) -> None:
        pass


class KeptTopic:
    """A table's topic in memory."""

    def __init__(self, entries: dict[str, bytes] | None = None) -> None:
        self.entries = entries or {}

    def begin(self) -> dict[str, bytes]:
        return dict(self.entries)

    def check(self) -> None:
        pass

    def write(self, changes: Changes) -> bool:
        self.entries = held(changes, self.entries)
        return True

    def end(self) -> None:
        pass

    def close(self) -> None:
        pass


def play(log: Log, topic: KeptTopic, place: Any, until: Callable[[FeedState], bool]) -> FeedState:
    """Run an intake until a condition holds, then stop it; raise what ends it."""

    async def run() -> FeedState:
        feed = FeedState(FoldLimits())
        stored: Any = topic
        with NewsIntake(log, feed, PageLimits(), lambda: TableAccess(stored, place)) as intake:
            running = asyncio.ensure_future(intake.run())
            async with asyncio.timeout(30):
                while not running.done() and not (hasattr(feed, "fold") and until(feed)):
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


def append_page(pages: Appender, number: int) -> None:
    key = verdict(number, number).id.encode()
    pages.append(b'{"text": "x", "title": "Title %d"}' % number, key, (), partition=0)


def tell(log: Log, numbers: range) -> None:
    with log.open_appender(VERDICTS) as verdicts, log.open_appender(PAGES) as pages:
        for number in numbers:
            append_page(pages, number)
            verdicts.append(wire.encode(verdict(number, number)), b"a", ())
        pages.flush(10)
        verdicts.flush(10)


def count(feed: FeedState) -> int:
    return len(feed.fold.versions) if not feed.fold.awaited_titles() else -1


def test_an_intake_goes_on_where_its_table_says(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = KeptTopic()
    tell(log, range(5))
    play(log, topic, HeldPlace(), lambda feed: count(feed) == 5)
    progress = msgspec.json.decode(topic.entries["p"])
    assert [progress[name]["offsets"] for name in (VERDICTS, PAGES)] == [{"0": 5}, {"0": 5}]
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
    feed.condition.hear({FeedPartition(PAGES, 0): 10})
    assert feed.condition.behind == 1


def test_records_that_expired_before_they_were_read_are_told(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = KeptTopic()
    tell(log, range(5))
    play(log, topic, HeldPlace(), lambda feed: count(feed) == 5)
    monkeypatch.setattr(log, "low_watermarks", lambda topic: {0: 5 if topic == PAGES else 9})

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    play(log, topic, HeldPlace(), lambda feed: bool(told()))
    assert told() == ["about 4 records of simstream.verdicts expired before the news page read them"]


@pytest.mark.kafka
def test_markers_of_transactions_that_expired_are_no_records_that_were_not_read(
    kafka_place: TopicPlace, caplog: pytest.LogCaptureFixture
) -> None:
    with kafka_place.open() as log:
        log.create_topics(1)
        with log.open_publisher() as publisher:
            publisher.start()
            publisher.publish([OutgoingVerdict(b"a", wire.encode(verdict(0, 0)), ())], b"{}")
        topic = KeptTopic()

        def has_read(feed: FeedState) -> bool:
            feed.condition.hear({FeedPartition(VERDICTS, 0): 2})  # the verdict and the marker
            return feed.condition.behind == 0

        play(log, topic, HeldPlace(), has_read)
        kafka_place.expire(VERDICTS)
        assert log.low_watermarks(VERDICTS) == {0: 2}
        play(log, topic, HeldPlace(), has_read)
    assert "expired" not in caplog.text


def test_after_a_start_only_what_is_not_read_yet_counts_as_behind(log: Log) -> None:
    topic = KeptTopic()
    tell(log, range(5))
    play(log, topic, HeldPlace(), lambda feed: count(feed) == 5)
    asked: list[int] = []

    def ask(feed: FeedState) -> bool:
        feed.condition.hear({FeedPartition(name, 0): 7 for name in (PAGES, VERDICTS)})
        asked.append(feed.condition.behind)
        return asked[-1] == 4

    play(log, topic, HeldPlace(), ask)
    assert asked[-1] == 4


def test_an_intake_writes_nothing_without_its_place_and_ends_if_another_has_it(log: Log) -> None:
    topic, place = KeptTopic(), HeldPlace()
    tell(log, range(3))

    def lose(feed: FeedState) -> bool:
        place.is_held, place.is_taken = False, True
        topic.entries = {"untouched": b""}
        return False

    with pytest.raises(LogLocked):
        play(log, topic, place, lose)
    assert topic.entries == {"untouched": b""}


def test_an_intake_that_ends_while_it_waits_for_its_place_touches_no_table(log: Log) -> None:
    class Untouched(KeptTopic):
        begun = False

        def begin(self) -> dict[str, bytes]:
            self.begun = True
            return super().begin()

    topic, place = Untouched(), HeldPlace()
    place.is_held = False

    async def run() -> None:
        stored: Any = topic
        held: Any = place
        with NewsIntake(log, FeedState(FoldLimits()), PageLimits(), lambda: TableAccess(stored, held)) as intake:
            running = asyncio.ensure_future(intake.run())
            await asyncio.sleep(0.5)
            intake.stop()
            await asyncio.wait_for(running, 10)
            await asyncio.sleep(0.2)  # a thread that was begun would have called by now

    asyncio.run(run())
    assert not topic.begun


def test_what_a_table_did_not_take_is_written_again(log: Log) -> None:
    class RefusingTopic(KeptTopic):
        writes = 0

        def write(self, changes: Changes) -> bool:
            self.writes += 1
            return self.writes > 3 and super().write(changes)

    topic = RefusingTopic()
    tell(log, range(10))
    play(log, topic, HeldPlace(), lambda feed: count(feed) == 10)
    assert sum(key.startswith(version_key("")) for key in topic.entries) == 10


def test_an_intake_waits_for_a_place_that_nobody_has_as_long_as_it_takes(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LatePlace(HeldPlace):
        is_taken = False
        looks = 0

        def __init__(self) -> None: ...

        @property
        def is_held(self) -> bool:
            self.looks += 1
            return self.looks > 5

    monkeypatch.setattr(NewsIntake, "PATIENCE_S", 0.0)
    tell(log, range(3))
    assert count(play(log, KeptTopic(), LatePlace(), lambda feed: count(feed) == 3)) == 3


def test_reading_waits_for_a_table_that_is_slow(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewsIntake, "MAX_CHANGES", 10)
    monkeypatch.setattr(NewsIntake, "MAX_RECORDS", 5)
    monkeypatch.setattr(NewsIntake, "WRITE_EVERY_S", 0.2)
    waited: list[int] = []

    class SlowTopic(KeptTopic):
        def write(self, changes: Changes) -> bool:
            waited.append(len(changes))
            return super().write(changes)

    tell(log, range(100))
    assert count(play(log, SlowTopic(), HeldPlace(), lambda feed: count(feed) == 100)) == 100
    assert max(waited) <= 10 + 2 * 3 * 5 + 1  # each topic passes the limit by the changes of one poll
    assert len(waited) > 5


@pytest.fixture
def cluster(broker: KafkaBroker) -> KafkaCluster:
    made = table_cluster(Settings(log=broker.address), f"t{secrets.token_hex(4)}", INFO)
    create_table(made)
    create_table(made)
    return made


@pytest.mark.kafka
def test_a_table_is_read_as_it_was_written_and_by_the_newest_writer_alone(cluster: KafkaCluster) -> None:
    with TableTopic(cluster) as first, TableTopic(cluster) as second:
        assert first.begin() == {}
        assert first.write({"va": b"1", "v\u00e9": b"2", "vb": b"3"})
        assert first.write({"va": None, "vb": b"4"})
        assert second.begin() == {"v\u00e9": b"2", "vb": b"4"}
        with pytest.raises(LogLocked, match="another news page writes"):
            first.write({"vb": b"stale", "v\u00e9": None})
        assert second.write({"vc": b"5"})
        second.end()
        assert not second.write({"vc": b"6"})
    with TableTopic(cluster) as third:
        assert third.begin() == {"v\u00e9": b"2", "vb": b"4", "vc": b"5"}


@pytest.mark.kafka
def test_a_writer_that_has_lost_its_client_goes_on_unless_another_has_written(cluster: KafkaCluster) -> None:
    with TableTopic(cluster) as first, TableTopic(cluster) as second:
        first.begin()
        assert first.write({"va": b"1", "p": b"{}"})
        first._drop()
        assert first.write({"va": b"2", "p": b'{"a":1}'})
        assert second.begin()["va"] == b"2"
        assert second.write({"va": b"3", "p": b'{"a":2}'})
        first._drop()
        with pytest.raises(LogLocked):
            first.write({"va": b"stale", "p": b'{"a":3}'})
        assert second.write({"va": b"4", "p": b'{"a":4}'})  # it was not fenced
    with TableTopic(cluster) as third:
        assert third.begin()["va"] == b"4"


@pytest.mark.kafka
def test_what_a_writer_left_half_written_is_never_read(cluster: KafkaCluster) -> None:
    with TableTopic(cluster) as first, TableTopic(cluster) as second:
        first.begin()
        first._producer.begin_transaction()
        first._producer.produce(first._name, value=b"half", key=b"va", partition=0)
        first._producer.flush(10)
        assert second.begin() == {}
        with pytest.raises(LogLocked):
            first._insist(first._producer, first._producer.commit_transaction)


@pytest.mark.kafka
def test_an_aborted_write_is_made_again(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "aborted", txn_requires_abort=True))

    with TableTopic(cluster) as topic:
        topic.begin()
        with monkeypatch.context() as patched:
            patched.setattr(topic, "_produce", refused)
            assert not topic.write({"va": b"1"})
        assert topic.write({"va": b"1"})
    with TableTopic(cluster) as again:
        assert again.begin() == {"va": b"1"}


@pytest.mark.kafka
def test_a_table_that_is_another_topic_ends_its_writer_or_is_refused(
    broker: KafkaBroker, cluster: KafkaCluster
) -> None:
    place = TopicPlace(broker.address, cluster.options.prefix)
    admin = place.admin()
    with TableTopic(cluster) as topic:
        topic.begin()
        place.delete(TABLE)
        admin.create_topics([NewTopic(cluster.name(TABLE), 3, 1)])[cluster.name(TABLE)].result()
        with pytest.raises(TopicRecreated):
            until(topic.check, "the table is another topic", every=0.1)
    with TableTopic(cluster) as other, pytest.raises(LogDamaged, match="has 3 partitions, not 1"):
        other.begin()


@pytest.mark.kafka
def test_a_table_that_is_deleted_under_an_idle_page_is_told_by_its_name(
    broker: KafkaBroker, cluster: KafkaCluster
) -> None:
    with TableTopic(cluster) as topic:
        topic.begin()
        TopicPlace(broker.address, cluster.options.prefix).delete(TABLE)
        with pytest.raises(TopicMissing, match=r"there is no topic .*\.table") as missing:
            until(topic.check, "the table is missed", every=0.1)
    assert missing.value.todo.startswith("start the news page again: it creates the topic")


@pytest.mark.kafka
def test_a_table_whose_entries_would_expire_is_refused(broker: KafkaBroker, cluster: KafkaCluster) -> None:
    place = TopicPlace(broker.address, cluster.options.prefix)
    assert topic_settings(cluster, TABLE)["segment.bytes"] == str(50 << 20)
    place.delete(TABLE)
    admin = place.admin()
    admin.create_topics([NewTopic(cluster.name(TABLE), 1, 1)])[cluster.name(TABLE)].result()
    create_table(cluster)
    with TableTopic(cluster) as other, pytest.raises(LogDamaged, match=r"cleanup\.policy=delete") as refused:
        other.begin()
    assert refused.value.todo.startswith("set it to compact, or delete the topic")


def moved(topic: KeptTopic, name: str, **changed: Any) -> None:
    """Change what the table says of the place in a topic."""
    progress = msgspec.json.decode(topic.entries["p"])
    progress[name] |= changed
    topic.entries["p"] = msgspec.json.encode(progress)


def test_pages_of_a_topic_that_is_gone_take_no_titles_of_the_new_one(log: Log) -> None:
    topic = KeptTopic()
    tell(log, range(3))
    play(log, topic, HeldPlace(), lambda feed: count(feed) == 3)
    moved(topic, PAGES, id="another topic")
    with log.open_appender(VERDICTS) as verdicts, log.open_appender(PAGES) as pages:
        for number in range(3):
            append_page(pages, 50 + number)
            later = msgspec.structs.replace(
                verdict(50 + number, 50 + number), source=PageSource("pages", 0, 3 + number)
            )
            verdicts.append(wire.encode(later), b"a", ())
    feed = play(log, topic, HeldPlace(), lambda feed: count(feed) == 6)
    assert [one.source for one in feed.fold.versions.values()][:3] == [GONE] * 3
    assert all(one.title.startswith("Title ") for one in feed.fold.versions.values())


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"p": b"{"}, "the table: "),
        ({"": b"{}"}, "the news page's table holds an entry that cannot be read"),
        ({"x1": b"{}"}, "the news page's table holds an entry that cannot be read"),
    ],
)
def test_a_damaged_table_is_called_so(log: Log, entries: dict[str, bytes], said: str) -> None:
    class Damaged(KeptTopic):
        def damaged(self, error: Exception) -> StateDamaged:
            return StateDamaged(f"the table: {error}", "delete the topic")

    with pytest.raises(StateDamaged, match=said):
        play(log, Damaged(entries), HeldPlace(), lambda feed: False)


def test_a_place_behind_the_end_of_a_topic_names_the_table(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewsIntake, "MAX_LEADER_WAIT_S", 0.1)
    topic = KeptTopic()
    tell(log, range(3))
    play(log, topic, HeldPlace(), lambda feed: count(feed) == 3)
    moved(topic, VERDICTS, offsets={"0": 9})
    with pytest.raises(LogError, match="had read more of a topic than there is") as caught:
        play(log, topic, HeldPlace(), lambda feed: False)
    assert ".table" in caught.value.todo


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
