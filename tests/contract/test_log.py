"""What every log keeps, whatever it is made of: each test runs on a local log and on a real broker."""

from __future__ import annotations

import shlex
import time
from itertools import chain

import pytest

from simstream.cli.main import invoke
from simstream.errors import (
    LogError,
    LogLocked,
    PositionMissing,
    RecordTooLarge,
    TakenOver,
    TopicMissing,
    TopicRecreated,
)
from simstream.log.base import Log, OutgoingVerdict, Reader
from simstream.log.committed_records import committed
from simstream.log.kafka import page_consumer
from simstream.log.options import FINGERPRINTS, MATCHES, PAGES, POSITIONS, TOPICS, VERDICTS
from simstream.log.partitioner import partition_of
from tests.contract.helpers import batch, kill_after, poll_for, read_all, read_source, writer
from tests.contract.writer import BATCH
from tests.kafka_fixtures import PARTITIONS, TopicPlace
from tests.waiting import until


def test_topics_are_made_once_and_then_only_compared(place: TopicPlace) -> None:
    log = place.open()
    assert all(report.created for report in log.create_topics(2))
    again = log.create_topics(2)
    assert [(report.created, report.differs) for report in again] == [(False, ())] * len(TOPICS)


def test_another_number_of_partitions_is_reported_and_not_changed(log: Log) -> None:
    report = {report.name.split(".")[1]: report.differs for report in log.create_topics(7)}
    assert report[PAGES] == ("partitions: 4, not 7",)
    assert report[FINGERPRINTS] == ()
    assert log.topic(PAGES).partitions == PARTITIONS


def test_the_number_of_partitions_is_compared_only_where_it_is_given(log: Log) -> None:
    assert [report.differs for report in log.create_topics()] == [()] * len(TOPICS)


def test_new_verdicts_get_as_many_partitions_as_pages_have(place: TopicPlace, log: Log) -> None:
    place.delete(VERDICTS)
    report = {report.name.split(".")[1]: report for report in log.create_topics(7)}
    assert report[VERDICTS].created
    assert report[VERDICTS].differs == ()
    assert log.topic(VERDICTS).partitions == PARTITIONS


def test_new_verdicts_get_as_many_partitions_as_are_asked_for(place: TopicPlace, log: Log) -> None:
    place.delete(VERDICTS)
    for partitions, differs in ((1, ()), (3, ("partitions: 1, not 3",))):
        report = {report.name.split(".")[1]: report for report in log.create_topics(verdict_partitions=partitions)}
        assert [report[topic].differs for topic in (PAGES, VERDICTS)] == [(), differs]
        assert log.topic(VERDICTS).partitions == 1


def test_the_topic_of_answers_is_made_only_on_request(log: Log) -> None:
    assert log.shards() is None
    *others, report = log.create_topics(shards=8)
    assert [other.created for other in others] == [False] * len(TOPICS)
    assert (report.name.split(".")[1], report.created, report.differs) == (MATCHES, True, ())
    assert log.shards() == 8
    assert len(log.create_topics()) == len(TOPICS)
    assert log.differences([MATCHES]) == {MATCHES: []}


def test_another_number_of_shards_is_reported_and_not_changed(log: Log) -> None:
    log.create_topics(shards=4)
    assert log.create_topics(shards=8)[-1].differs == ("partitions: 4, not 8",)
    assert log.create_topics(shards=4)[-1].differs == ()
    assert log.shards() == 4


def test_answers_are_those_of_a_policy(place: TopicPlace, log: Log) -> None:
    other = place.open(publish_to=f"{place.prefix}-other")
    other.create_topics(shards=2)
    assert other.shards() == 2
    assert log.shards() is None


def test_a_missing_topic_is_named_with_what_to_do(place: TopicPlace) -> None:
    log = place.open()
    for use in (log.topic, log.open_appender, log.open_reader, log.low_watermarks, log.end_offsets):
        with pytest.raises(TopicMissing, match=r"pages .*topics create"):
            use(PAGES)
    with pytest.raises(TopicMissing):
        log.open_consumer()
    with pytest.raises(TopicMissing):
        log.open_publisher().start()


@pytest.mark.parametrize("topic", [PAGES, MATCHES])
def test_the_command_that_a_missing_topic_names_makes_it(
    place: TopicPlace, capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    log = place.open()
    with pytest.raises(TopicMissing) as caught:
        log.topic(topic)
    _, *arguments = shlex.split(caught.value.todo.removeprefix("create it with: "))
    assert invoke(arguments) == 0, capsys.readouterr().err
    assert log.topic(topic).partitions


def test_records_come_back_as_they_were_appended(log: Log) -> None:
    with log.open_appender(PAGES) as appender:
        appender.append(b"one", b"k", (("a", b"1"), ("a", b""), ("b", b"\xff")), partition=1, timestamp=1234)
        appender.append(None, b"k", partition=1, timestamp=5)
        appender.append(b"", b"", partition=1, timestamp=6)
        appender.append(b"three", None, partition=1, timestamp=7)
    found = [(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in read_all(log, PAGES)]
    assert found == [
        (1, 0, b"k", b"one", (("a", b"1"), ("a", b""), ("b", b"\xff")), 1234),
        (1, 1, b"k", None, (), 5),
        (1, 2, b"", b"", (), 6),
        (1, 3, None, b"three", (), 7),
    ]


def test_order_holds_within_each_partition(log: Log) -> None:
    with log.open_appender(PAGES) as appender:
        for i in range(2000):
            appender.append(b"%d" % i, b"key%d" % (i % 37))
    by_partition: dict[int, list[int]] = {}
    for record in read_all(log, PAGES):
        values = by_partition.setdefault(record.partition, [])
        assert record.offset == len(values)
        values.append(int(record.value or b""))
    assert sorted(chain(*by_partition.values())) == list(range(2000))
    assert all(values == sorted(values) for values in by_partition.values())


def test_the_key_decides_the_partition_as_in_javas_client(log: Log) -> None:
    keys = [b"21", b"foobar", b"a-little-bit-long-string", b"", "页".encode(), b"x" * 99]
    with log.open_appender(PAGES) as appender:
        for key in keys:
            appender.append(b"v", key)
    assert {r.key: r.partition for r in read_all(log, PAGES)} == {k: partition_of(k, PARTITIONS) for k in keys}


def test_verdicts_lie_where_pages_of_their_key_lie(log: Log) -> None:
    publisher = log.open_publisher()
    publisher.start()
    publisher.publish(batch(1, 40), b"p")
    publisher.close()
    assert {r.key: r.partition for r in read_all(log, VERDICTS, least=40)} == {
        b"id%d" % i: partition_of(b"id%d" % i, PARTITIONS) for i in range(40)
    }


def test_pages_keep_their_timestamp_and_frames_take_the_time_of_their_append(log: Log) -> None:
    before = time.time() * 1000
    for topic in (PAGES, FINGERPRINTS):
        with log.open_appender(topic) as appender:
            appender.append(b"v", partition=0, timestamp=77)
    assert read_all(log, PAGES)[0].timestamp == 77
    assert before - 2000 <= read_all(log, FINGERPRINTS)[0].timestamp <= time.time() * 1000 + 2000


def test_what_is_flushed_is_acknowledged_without_a_gap(log: Log) -> None:
    with log.open_appender(PAGES) as appender:
        numbers = [appender.append(b"v", b"k%d" % i) for i in range(500)]
        assert numbers == list(range(1, 501))
        assert appender.flush(10) == 500
        assert appender.acknowledged() == 500


def test_an_appender_says_where_each_record_is(log: Log) -> None:
    with log.open_appender(PAGES) as appender:
        appender.append(b"before", b"k0")
    places: dict[bytes, tuple[int, int]] = {}
    with log.open_appender(PAGES) as appender:
        for i in range(200):
            value = b"%d" % i
            appender.append(value, b"k%d" % i, placed=lambda *place, value=value: places.update({value: place}))
        appender.flush(10)
        assert {r.value: (r.partition, r.offset) for r in read_all(log, PAGES) if r.value != b"before"} == places


def test_a_record_that_is_too_large_is_refused_and_the_appender_goes_on(place: TopicPlace) -> None:
    log = place.open(max_record_bytes=20_000)
    log.create_topics(1)
    with log.open_appender(PAGES) as appender:
        with pytest.raises(RecordTooLarge, match="20000"):
            appender.append(b"x" * 20_001, b"k")
        assert appender.append(b"x" * 19_000, b"k") == 1
        assert appender.flush(10) == 1
    assert [len(r.value or b"") for r in read_all(log, PAGES)] == [19_000]


def test_a_reader_begins_where_it_is_told(log: Log) -> None:
    with log.open_appender(FINGERPRINTS) as appender:
        for i in range(50):
            appender.append(b"%d" % i)
    assert [r.offset for r in read_all(log, FINGERPRINTS, 47)] == [47, 48, 49]
    assert read_all(log, FINGERPRINTS, 50) == []
    with pytest.raises(LogError, match="ends at offset 50, before 51"):
        log.open_reader(FINGERPRINTS, 51)
    with log.open_reader(FINGERPRINTS, "end") as reader:
        assert reader.caught_up()
        with log.open_appender(FINGERPRINTS) as appender:
            appender.append(b"next")
        assert [r.value for r in reader.poll(10, 10)] == [b"next"]


def test_a_reader_begins_in_each_partition_where_it_is_told(log: Log) -> None:
    fill(log, 40)
    places = sorted((r.partition, r.offset) for r in read_all(log, PAGES, {0: 9, 2: 10, 3: 7}))
    assert places == [(0, 9), *((1, offset) for offset in range(10)), (3, 7), (3, 8), (3, 9)]
    assert len(read_all(log, PAGES, {})) == 40
    with log.open_publisher() as publisher:
        publisher.start()
        publisher.publish([], b"one")
        publisher.publish([], b"two")
    second = read_all(log, POSITIONS, least=2)[1]
    assert read_all(log, POSITIONS, {0: second.offset}) == [second]


def test_a_reader_that_would_begin_behind_an_end_is_refused(log: Log) -> None:
    fill(log, 40)
    with pytest.raises(LogError, match=r"partition 2 of .*pages ends at offset 10, before 11"):
        log.open_reader(PAGES, {0: 10, 2: 11})
    with pytest.raises(LogError, match=r"pages has no partition 4"):
        log.open_reader(PAGES, {4: 0})
    assert read_all(log, PAGES, 11) == []  # one number for several partitions names no place in each


def test_a_reader_follows_and_knows_when_it_has_caught_up(log: Log) -> None:
    with log.open_reader(FINGERPRINTS) as reader, log.open_appender(FINGERPRINTS) as appender:
        assert reader.caught_up()
        assert reader.poll(10, 0.1) == []
        for i in range(3):
            appender.append(b"%d" % i)
            appender.flush(10)
            assert not reader.caught_up()
            assert [r.value for r in reader.poll(10, 10)] == [b"%d" % i]
            assert reader.caught_up()


def test_poll_gives_no_more_than_its_limit(log: Log) -> None:
    with log.open_appender(FINGERPRINTS) as appender:
        for i in range(30):
            appender.append(b"%d" % i)
    with log.open_reader(FINGERPRINTS) as reader:
        sizes = []
        while not reader.caught_up():
            sizes.append(len(reader.poll(7, 5)))
    assert sum(sizes) == 30
    assert max(sizes) <= 7


def test_a_reader_that_is_asked_for_its_health_still_returns_all_that_is_there(log: Log) -> None:
    with log.open_appender(FINGERPRINTS) as appender:
        for number in range(40):
            appender.append(b"%d" % number, partition=0)
    with log.open_reader(FINGERPRINTS, 0) as reader:
        found = [int(record.value or b"") for record in reader.poll(1, 10)]
        time.sleep(1)  # the client fetches the others meanwhile
        reader.answers()
        found += [int(record.value or b"") for record in reader.poll(100, 10)]
    assert found == list(range(40))


def is_at_end(reader: Reader) -> bool:
    """Whether a reader has caught up. Fails if one more record comes."""
    assert reader.caught_up() or reader.poll(10, 0.1) == []
    return reader.caught_up()


def test_a_reader_has_caught_up_behind_the_marks_of_transactions(log: Log) -> None:
    publisher = log.open_publisher()
    publisher.start()
    with log.open_reader(POSITIONS) as reader:
        for number in range(3):
            publisher.publish(batch(number), b"%d" % number)
            assert [r.value for r in reader.poll(10, 10)] == [b"%d" % number]
            until(lambda: is_at_end(reader), "the reader has caught up")
    publisher.close()


def test_the_next_publisher_begins_at_the_last_position(log: Log) -> None:
    publisher = log.open_publisher()
    assert publisher.start() is None
    publisher.publish(batch(1), b"one")
    publisher.publish([], b"two")
    publisher.publish(batch(2), b"three")
    assert publisher.results == {"committed": 3}
    assert publisher.start() == b"three"
    publisher.close()
    assert [r.value for r in read_all(log, POSITIONS, least=3)] == [b"one", b"two", b"three"]
    verdicts = read_all(log, VERDICTS, least=20)
    assert len(verdicts) == 20
    assert verdicts[0].headers == (("verdict", b"new"),)


def test_a_killed_publisher_leaves_verdicts_and_position_together_or_neither(place: TopicPlace) -> None:
    log = place.open()
    log.create_topics(PARTITIONS)
    with writer(place, "publish") as process:
        told = kill_after(process, 15)
    publisher = log.open_publisher()
    last = int(publisher.start() or b"0")
    publisher.close()
    assert last >= told
    counts: dict[int, int] = {}
    for record in read_all(log, VERDICTS, least=last * BATCH):
        counts[int(record.value or b"")] = counts.get(int(record.value or b""), 0) + 1
    assert counts == dict.fromkeys(range(1, last + 1), BATCH)
    assert [int(r.value or b"") for r in read_all(log, POSITIONS)] == list(range(1, last + 1))


def test_all_that_was_acknowledged_before_a_kill_is_there_in_order(place: TopicPlace) -> None:
    log = place.open()
    log.create_topics(1)
    with writer(place, "append") as process:
        told = kill_after(process, 20)
    values = [int(r.value or b"") for r in read_all(log, FINGERPRINTS)]
    assert values == list(range(1, len(values) + 1))
    assert len(values) >= told
    with log.open_appender(FINGERPRINTS) as appender:
        appender.append(b"after")
    assert read_all(log, FINGERPRINTS, len(values))[0].value == b"after"


def test_two_publishers_never_both_publish(place: TopicPlace, log: Log) -> None:
    older, newer = log.open_publisher(), place.open().open_publisher()
    older.start()
    older.publish(batch(1), b"one")
    if place.is_local:
        with pytest.raises(LogLocked, match="process"):
            newer.start()
        older.publish(batch(2), b"two")
    else:
        assert newer.start() == b"one"
        newer.publish(batch(2), b"two")
        with pytest.raises(TakenOver):
            older.publish(batch(3), b"three")
    older.close()
    newer.close()
    assert [r.value for r in read_all(log, POSITIONS, least=2)] == [b"one", b"two"]
    assert len(read_all(log, VERDICTS, least=20)) == 20


def test_verdicts_without_a_position_are_refused(log: Log) -> None:
    with log.open_appender(VERDICTS) as appender:
        appender.append(b"v", b"k")
    with pytest.raises(PositionMissing, match="prefix"):
        log.open_publisher().start()


def fill(log: Log, count: int) -> None:
    """Pages over all partitions, by turns."""
    with log.open_appender(PAGES) as appender:
        for i in range(count):
            appender.append(b"%d" % i, partition=i % PARTITIONS)


def test_a_source_without_commits_begins_at_the_first_page_and_says_so(log: Log) -> None:
    fill(log, 40)
    with log.open_consumer() as source:
        polled = read_source(source, 40)
    assert sorted(polled.started) == [(p, 0, True) for p in range(PARTITIONS)]
    assert sorted(int(r.value or b"") for r in polled.records) == list(range(40))


def test_a_source_goes_on_at_its_commits(log: Log) -> None:
    fill(log, 40)
    with log.open_consumer() as source:
        read_source(source, 40)
        source.commit({0: 10, 1: 4})
    with log.open_consumer() as source:
        polled = read_source(source, 6 + 20)
    assert sorted(polled.started) == [(0, 10, False), (1, 4, False), (2, 0, True), (3, 0, True)]
    assert len(polled.records) == 26


def test_a_source_that_has_no_room_reads_nothing_and_loses_nothing(log: Log) -> None:
    fill(log, 400)
    with log.open_consumer() as source:
        seen = list(read_source(source, 20).records)
        for _ in range(20):
            assert not source.poll(0, 0.05).records
        while len(seen) < 400 and (records := source.poll(30, 5.0).records):
            seen += records
            source.poll(0, 0.0)
    places = [(record.partition, record.offset) for record in seen]
    assert sorted(places) == [(p, o) for p in range(PARTITIONS) for o in range(100)]
    assert all(places.index((p, o)) < places.index((p, o + 1)) for p in range(PARTITIONS) for o in range(99))


def test_restart_goes_back_to_the_commits(log: Log) -> None:
    fill(log, 40)
    with log.open_consumer() as source:
        read_source(source, 40)
        source.commit(dict.fromkeys(range(PARTITIONS), 8))
        source.restart()
        polled = read_source(source, 8)
        assert sorted(polled.started) == [(p, 8, False) for p in range(PARTITIONS)]
        assert sorted((r.partition, r.offset) for r in polled.records) == [
            (p, o) for p in range(PARTITIONS) for o in (8, 9)
        ]


def test_lag_counts_what_is_not_read_yet(log: Log) -> None:
    fill(log, 40)
    with log.open_consumer() as source:
        read_source(source, 40)
        assert source.lag() == dict.fromkeys(range(PARTITIONS), 0)
        source.commit({0: 3})
        source.restart()
        polled = source.poll(1, 0)
        assert source.lag()[0] >= 7 - len(polled.records)


def test_lag_counts_what_comes_while_there_is_no_room(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_consumer, "LONG_PAUSE_S", 0.0)
    fill(log, 40)
    with log.open_consumer() as source:
        read_source(source, 40)
        source.poll(0, 0.0)
        fill(log, 40)
        assert source.lag() == dict.fromkeys(range(PARTITIONS), 10)


def test_a_commit_of_another_log_is_ignored(place: TopicPlace, log: Log) -> None:
    fill(log, 8)
    with log.open_consumer() as source:
        read_source(source, 8)
        source.commit(dict.fromkeys(range(PARTITIONS), 2))
    place.delete(FINGERPRINTS)
    log.create_topics(PARTITIONS)
    with log.open_consumer() as source:
        assert sorted(read_source(source, 8).started) == [(p, 0, True) for p in range(PARTITIONS)]


def test_a_source_stops_where_its_topic_was_made_anew(place: TopicPlace, log: Log) -> None:
    fill(log, 8)
    with log.open_consumer() as source:
        read_source(source, 8)
        place.delete(PAGES)
        log.create_topics(PARTITIONS)
        with pytest.raises((TopicRecreated, TopicMissing)):
            read_source(source, 1)


def test_a_reader_stops_where_its_topic_was_made_anew(place: TopicPlace, log: Log) -> None:
    with log.open_reader(FINGERPRINTS) as reader:
        reader.poll(1, 0.1)
        place.delete(FINGERPRINTS)
        log.create_topics(PARTITIONS)
        with pytest.raises((TopicRecreated, TopicMissing)):
            poll_for(reader, 15)


def test_group_offsets_are_set_while_no_fingerprinter_runs(log: Log) -> None:
    fill(log, 40)
    log.set_group_offsets(dict.fromkeys(range(PARTITIONS), 5))
    with log.open_consumer() as source:
        started = read_source(source, 20).started
        assert sorted(started) == [(p, 5, False) for p in range(PARTITIONS)]
        with pytest.raises(LogLocked):
            log.set_group_offsets({0: 1})


def test_a_commit_that_is_forgotten_begins_its_partition_anew(log: Log) -> None:
    fill(log, 40)
    log.set_group_offsets(dict.fromkeys(range(PARTITIONS), 5))
    log.set_group_offsets({1: None, 2: 7})
    with log.open_consumer() as source:
        started = read_source(source, 20).started
    assert sorted(started) == [(0, 5, False), (1, 0, True), (2, 7, False), (3, 5, False)]


def test_end_offsets_lie_behind_all_that_is_committed(log: Log) -> None:
    assert log.end_offsets(PAGES) == dict.fromkeys(range(PARTITIONS), 0)
    with log.open_appender(PAGES) as appender:
        for partition in (0, 2, 2):
            appender.append(b"x", partition=partition)
    assert log.end_offsets(PAGES) == {0: 1, 1: 0, 2: 2, 3: 0}
    with log.open_publisher() as publisher:
        publisher.start()
        publisher.publish([OutgoingVerdict(b"k", b"v", ())], b"position")
    for topic in (VERDICTS, POSITIONS):
        [record] = read_all(log, topic, least=1)
        ends = log.end_offsets(topic)
        assert ends.pop(record.partition) > record.offset
        assert not any(ends.values())


def test_a_topic_that_grows_while_it_is_read_is_read_to_where_it_ended(log: Log) -> None:
    with log.open_appender(PAGES) as appender:
        for _ in range(3):
            appender.append(b"before", partition=0)
    seen: list[bytes | None] = []
    with log.open_appender(PAGES) as appender:
        for records in committed(log, PAGES, 1):
            seen += [record.value for record in records]
            appender.append(b"since", partition=len(seen) % 2)
            appender.flush(10)
            assert len(seen) < 10, "it follows the appended records"
    assert seen == [b"before"] * 3


def test_reading_ends_behind_a_transaction_while_another_partition_grows(log: Log) -> None:
    keys = {partition_of(str(n).encode(), PARTITIONS): str(n).encode() for n in range(100)}
    with log.open_publisher() as publisher:
        publisher.start()
        publisher.publish([OutgoingVerdict(keys[0], b"old", ()), OutgoingVerdict(keys[1], b"old", ())], b"1")
        read_all(log, VERDICTS, least=2)
        seen: list[bytes | None] = []
        for turn, records in enumerate(committed(log, VERDICTS, 1)):
            seen += [record.value for record in records]
            publisher.publish([OutgoingVerdict(keys[1], b"since", ())], b"2")
            assert turn < 100, "it does not end"
    assert seen == [b"old"] * 2


@pytest.mark.parametrize("topic", [VERDICTS, POSITIONS])
def test_a_reader_has_passed_what_poll_has_returned(log: Log, topic: str) -> None:
    with log.open_publisher() as publisher:
        publisher.start()
        for position in (b"1", b"2"):
            publisher.publish([OutgoingVerdict(b"k", b"v", ())], position)
    records = read_all(log, topic, least=2)
    ends = {record.partition: record.offset + 1 for record in records}
    with log.open_reader(topic) as reader:
        assert reader.passed(dict.fromkeys(ends, 0))
        for record in records:
            assert not reader.passed(ends)
            assert reader.poll(1, 15) == [record]
        assert reader.passed(ends)


def test_frames_are_kept_for_ever_where_nobody_says_otherwise(log: Log) -> None:
    assert log.retention_ms(FINGERPRINTS) is None


def test_low_watermarks_are_those_of_every_partition(log: Log) -> None:
    assert log.low_watermarks(PAGES) == dict.fromkeys(range(PARTITIONS), 0)
