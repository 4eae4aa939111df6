"""Partitions of a reader that are paused and resumed: no record comes meanwhile, is lost, or comes twice."""

from __future__ import annotations

import random

import pytest

from simstream.log.base import Log, OutgoingVerdict
from simstream.log.kafka.client_watch import ClientWatch
from simstream.log.kafka.reader import KafkaReader
from simstream.log.local.reading import LocalReader
from simstream.log.options import PAGES, VERDICTS
from simstream.model import Record
from tests.contract.helpers import take
from tests.kafka_fixtures import PARTITIONS
from tests.waiting import until

EVERY = frozenset(range(PARTITIONS))


def append(log: Log, count: int, partition: int | None = None) -> None:
    """Pages with a number that counts up, over all partitions by turns or in one."""
    with log.open_appender(PAGES) as appender:
        for number in range(count):
            appender.append(b"%d" % number, partition=number % PARTITIONS if partition is None else partition)


def publish(log: Log, batches: int, size: int) -> None:
    """Verdicts over all partitions; a local log keeps each batch in one piece."""
    with log.open_publisher() as publisher:
        publisher.start()
        for number in range(batches):
            verdicts = [OutgoingVerdict(b"%d" % i, b"%d" % number, ()) for i in range(size)]
            publisher.publish(verdicts, b"%d" % number)


def offsets(records: list[Record]) -> dict[int, list[int]]:
    """The offsets of each partition in the order in which they came."""
    out: dict[int, list[int]] = {}
    for record in records:
        out.setdefault(record.partition, []).append(record.offset)
    return out


def test_a_paused_partition_brings_nothing_and_goes_on_where_it_stopped(log: Log) -> None:
    append(log, 400)
    with log.open_reader(PAGES) as reader:
        seen = take(reader, 30, 7)
        reader.pause({1, 2})
        paused = offsets(seen)
        running = take(reader, 200 - sum(len(paused.get(p, ())) for p in (0, 3)))
        assert {record.partition for record in running} == {0, 3}
        assert reader.poll(100, 0.3) == []
        reader.pause({2})
        again = take(reader, 100 - len(paused.get(1, ())))
        reader.pause(())
        seen += running + again + take(reader, 100 - len(paused.get(2, ())))
        assert reader.caught_up()
    assert offsets(seen) == {partition: list(range(100)) for partition in range(PARTITIONS)}


def test_a_partition_that_is_paused_from_the_start_is_read_later(log: Log) -> None:
    append(log, 40)
    with log.open_reader(PAGES, {3: 4}) as reader:
        reader.pause({3})
        assert {record.partition for record in take(reader, 30)} == {0, 1, 2}
        reader.pause(())
        assert offsets(take(reader, 6)) == {3: list(range(4, 10))}


def test_a_reader_with_a_paused_partition_has_not_caught_up_before_it_is_read(log: Log) -> None:
    append(log, 40)
    ends = dict.fromkeys(range(PARTITIONS), 10)
    with log.open_reader(PAGES) as reader:
        reader.pause({0})
        take(reader, 30)
        assert not reader.caught_up()
        assert not reader.passed(ends)
        assert reader.passed(ends | {0: 0})
        assert reader.poll(10, 0.1) == []
        reader.pause(())
        take(reader, 10)
        assert reader.passed(ends)
        until(reader.caught_up, "it has caught up")


def test_records_that_come_during_a_pause_are_read_after_it(log: Log) -> None:
    with log.open_reader(PAGES) as reader:
        reader.pause(EVERY)
        append(log, 40)
        assert reader.poll(10, 0.3) == []
        reader.pause({0})
        assert offsets(take(reader, 30)) == {p: list(range(10)) for p in (1, 2, 3)}
        append(log, 40)
        assert offsets(take(reader, 30)) == {p: list(range(10, 20)) for p in (1, 2, 3)}
        reader.pause(())
        assert offsets(take(reader, 20)) == {0: list(range(20))}


@pytest.mark.parametrize("topic", [PAGES, VERDICTS])
def test_pauses_at_any_moment_lose_and_repeat_nothing(log: Log, topic: str) -> None:
    dice = random.Random(7)
    if topic == PAGES:
        append(log, 600)
    else:
        publish(log, 30, 20)
    seen: list[Record] = []
    with log.open_reader(topic) as reader:
        for _ in range(60):
            paused = frozenset(dice.sample(range(PARTITIONS), dice.randrange(PARTITIONS)))
            reader.pause(paused)
            for _ in range(dice.randrange(4)):
                records = reader.poll(dice.choice((1, 5, 30)), 0.02)
                assert not {record.partition for record in records} & paused
                seen += records
        reader.pause(())
        seen += take(reader, 600 - len(seen))
        until(lambda: reader.poll(10, 0.01) == [] and reader.caught_up(), "it has caught up")
    for found in offsets(seen).values():
        assert len(set(found)) == len(found)
        assert found == sorted(found)
    values = sorted(int(record.value or b"") for record in seen)
    assert values == (list(range(600)) if topic == PAGES else sorted(list(range(30)) * 20))


def test_a_long_backlog_of_a_paused_partition_takes_no_memory_on_a_local_log(local_log: Log) -> None:
    append(local_log, 400)
    with local_log.open_reader(PAGES) as reader:
        assert isinstance(reader, LocalReader)
        take(reader, 10)
        for partition in range(3):
            reader.pause(set(range(partition + 1)))
            append(local_log, 500, partition)
            take(reader, 10)
        append(local_log, 500, 3)
        reader.poll(1000, 0)
        followers = reader._followers
        assert 1 < len(followers) <= PARTITIONS
        assert sum(len(follower._pending) for follower in followers) <= len(followers)
        reader.pause(())
        while reader.poll(100, 0):
            pass
        assert len(reader._followers) == 1, "those that meet become one again"


def test_two_followers_that_never_stand_still_meet(local_log: Log) -> None:
    append(local_log, 400)
    with local_log.open_reader(PAGES) as reader:
        assert isinstance(reader, LocalReader)
        reader.pause({0})
        take(reader, 60)
        reader.pause(())
        assert len(reader._followers) == 2
        assert offsets(take(reader, 20, 3)) == {0: list(range(20))}, "the one behind catches up first"
        take(reader, 1)
        assert len(reader._followers) == 1
        assert not reader.caught_up()


@pytest.mark.kafka
def test_a_pause_outlives_the_client(kafka_log: Log) -> None:
    append(kafka_log, 40)
    with kafka_log.open_reader(PAGES) as reader:
        assert isinstance(reader, KafkaReader)
        take(reader, 8, 2)
        reader.pause({1})
        reader._watch._empty_looks = ClientWatch.MAX_EMPTY_LOOKS
        before = reader._consumer
        assert 1 not in {record.partition for record in reader.poll(100, 0.5)}
        assert reader._consumer is not before
        assert 1 not in {record.partition for record in reader.poll(100, 0.5)}
        reader.pause(())
        until(lambda: bool(reader.poll(100, 0.5)), "the paused one goes on")


@pytest.mark.kafka
@pytest.mark.parametrize("long", [True, False], ids=["a long pause", "a short one"])
def test_a_record_that_was_taken_while_its_health_was_asked_comes_once_after_the_pause(
    kafka_log: Log, long: bool
) -> None:
    append(kafka_log, 40)
    with kafka_log.open_reader(PAGES) as reader:
        assert isinstance(reader, KafkaReader)
        until(lambda: reader.answers() and bool(reader._taken), "a record is taken")
        partition = reader._taken[0].partition()
        reader.pause({partition})
        seen = take(reader, 30) if long else []
        reader.pause(())
        seen += take(reader, 40 - len(seen))
        assert offsets(seen) == {partition: list(range(10)) for partition in range(PARTITIONS)}
        assert not long or partition not in offsets(seen[:30])
