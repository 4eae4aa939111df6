"""What only a real broker does: transactions that outlive their time, kills, rebalances, limits of its own."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
import weakref
from collections.abc import Callable
from statistics import median
from typing import Any, Literal

import pytest
from confluent_kafka import Consumer, Producer

from deploy.kafka.broker import KafkaBroker
from simstream.errors import BrokerUnreachable, LogError, RecordTooLarge, SettingsError
from simstream.log import open_log
from simstream.log.base import Log, OutgoingVerdict
from simstream.log.kafka import cluster as kafka_cluster
from simstream.log.kafka import missing_offsets, page_consumer
from simstream.log.kafka import reader as reader_module
from simstream.log.kafka.appender import KafkaAppender
from simstream.log.kafka.client_watch import ClientWatch
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.page_consumer import set_group_offsets
from simstream.log.kafka.publisher import KafkaPublisher
from simstream.log.kafka.reader import KafkaReader, consume, last_record
from simstream.log.kafka.topics import group_state
from simstream.log.options import FINGERPRINTS, PAGES, POSITIONS, VERDICTS, LogOptions
from simstream.model import Record
from tests.contract.helpers import add_partitions, batch, cluster_of, poll_for, read_all, read_source, take
from tests.kafka_fixtures import PARTITIONS, TopicPlace
from tests.waiting import until

pytestmark = pytest.mark.kafka
NOWHERE = "kafka://127.0.0.1:1"


@pytest.mark.parametrize("use", [lambda log: log.topic(PAGES), lambda log: log.create_topics(1)])
@pytest.mark.parametrize("logs_silence", [True, False])
def test_a_broker_that_stays_silent_is_said_once_while_it_is_waited_for(
    use: Callable[[Log], object],
    logs_silence: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_cluster, "MAX_SILENCE_S", 0.2)
    log = open_log(NOWHERE, LogOptions(patience=0.5, logs_silence=logs_silence))
    for _ in range(2):
        with pytest.raises(BrokerUnreachable):
            use(log)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("simstream")]
    assert said == ["no broker answers at 127.0.0.1:1; waiting up to 0.5 s"] * logs_silence


def test_no_broker_is_one_clear_error_and_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    log = open_log(NOWHERE, LogOptions(patience=0.5))
    began = time.monotonic()
    for use in (
        log.open_consumer,
        log.open_publisher().start,
        lambda: log.topic(PAGES),
        lambda: log.create_topics(1),
    ):
        with pytest.raises(BrokerUnreachable, match=r"127.0.0.1:1 within 0.5 s: check that the broker runs"):
            use()
    assert time.monotonic() - began < 10
    assert capfd.readouterr().err == ""


def test_a_wrong_client_setting_is_named(broker: KafkaBroker) -> None:
    log = open_log(broker.address, LogOptions(client={"no.such.setting": 1}))
    with pytest.raises(SettingsError, match=r"no\.such\.setting"):
        log.topic(PAGES)


def test_client_settings_reach_the_client_unless_a_rule_needs_them(kafka_place: TopicPlace) -> None:
    wrong = {"isolation.level": "read_uncommitted", "acks": 1, "enable.idempotence": False, "linger.ms": 0}
    log = kafka_place.open(client=wrong)
    log.create_topics(1)
    producer = KafkaPublisher(KafkaCluster(kafka_place.servers, LogOptions(client=wrong)))
    assert producer._cluster.config("x", {}, {"acks": "all"})["acks"] == "all"
    with log.open_appender(FINGERPRINTS) as appender:
        appender.append(b"v")
    assert [r.value for r in read_all(log, FINGERPRINTS)] == [b"v"]


def test_a_record_that_only_the_broker_refuses_is_named_and_the_others_arrive(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    appender = kafka_log.open_appender(PAGES)
    kafka_place.alter(PAGES, {"max.message.bytes": 10_000})  # the appender still believes in the old limit
    refused = []
    for i in range(20):
        appender.append(b"x" * (20_000 if i in (4, 9) else 10), b"k%d" % i)
        appender_flush(appender, refused)
    assert refused == [5, 10]
    assert appender.flush(10) == 20
    appender.close()
    assert len(read_all(kafka_log, PAGES)) == 18


def appender_flush(appender: object, refused: list[int | None]) -> None:
    """Flush until it says no more that a record was too large."""
    while True:
        try:
            appender.flush(10)  # type: ignore[attr-defined]
            return
        except RecordTooLarge as error:
            refused.append(error.number)


def test_records_count_as_acknowledged_without_a_gap_in_whatever_order_reports_come(
    kafka_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, reports = KafkaAppender._delivered, dict[int, tuple[Any, ...]]()
    monkeypatch.setattr(KafkaAppender, "_delivered", lambda _, number, *rest: reports.update({number: rest}))
    counts: list[int] = []
    with kafka_log.open_appender(PAGES) as appender:
        assert isinstance(appender, KafkaAppender)
        for i in range(5):
            appender.append(b"v", b"k%d" % i)
        until(lambda: appender.acknowledged() == 0 and len(reports) == 5, "all reports have come")
        for number in (2, 3, 5, 1, 4):
            report(appender, number, *reports[number])
            counts.append(appender.acknowledged())
    assert counts == [0, 0, 0, 3, 5]


def test_a_full_queue_makes_the_appender_wait_and_loses_nothing(kafka_place: TopicPlace) -> None:
    log = kafka_place.open(client={"queue.buffering.max.messages": 10})
    log.create_topics(1)
    with log.open_appender(FINGERPRINTS) as appender:
        for i in range(500):
            appender.append(b"%d" % i)
    assert [r.value for r in read_all(log, FINGERPRINTS)] == [b"%d" % i for i in range(500)]


def test_an_appender_that_waits_for_room_says_so_all_the_while(kafka_place: TopicPlace) -> None:
    kafka_place.open().create_topics(1)
    log = kafka_place.open(client={"queue.buffering.max.messages": 10, "linger.ms": 60_000})
    heard: list[float] = []
    with log.open_appender(FINGERPRINTS) as appender:

        def hear() -> None:
            heard.append(time.monotonic())
            if len(heard) == 10:
                appender.flush(60)

        appender.waiting = hear
        for i in range(15):
            appender.append(b"%d" % i)
    assert len(heard) >= 10
    gaps = [after - before for before, after in itertools.pairwise(heard[:10])]
    assert median(gaps) < 1.0
    assert max(gaps) < 30


def test_an_open_transaction_of_a_dead_publisher_is_undone_by_the_next_start(kafka_place: TopicPlace) -> None:
    log = kafka_place.open()
    log.create_topics(1)
    dead = KafkaPublisher(cluster_of(kafka_place), transaction_ms=120_000)
    dead.start()
    dead._producer.begin_transaction()
    dead._producer.produce(f"{kafka_place.prefix}.verdicts", b"never", b"k")
    dead._producer.flush(60)
    publisher = log.open_publisher()
    began = time.monotonic()
    assert publisher.start() is None
    assert time.monotonic() - began < 30
    publisher.publish([OutgoingVerdict(b"k", b"once", ())], b"one")
    publisher.close()
    assert [r.value for r in read_all(log, VERDICTS, least=1)] == [b"once"]


def test_an_open_transaction_is_refused_by_name(kafka_place: TopicPlace) -> None:
    log = kafka_place.open(patience=1.0)
    log.create_topics(1)
    other = Producer({"bootstrap.servers": kafka_place.servers, "transactional.id": "x"})
    other.init_transactions(20)
    other.begin_transaction()
    other.produce(f"{kafka_place.prefix}.positions", b"one", b"judge")
    other.flush(5)
    with pytest.raises(LogError, match=r"positions has an open transaction that the broker does not end: .*abort"):
        log.open_publisher().start()
    other.commit_transaction(20)
    assert log.open_publisher().start() == b"one"


def test_the_last_position_is_found_in_a_few_looks_behind_however_many_aborted_ones(
    kafka_place: TopicPlace, kafka_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []

    class CountedReader(KafkaReader):
        def __init__(self, cluster: KafkaCluster, topic: str, start: Any) -> None:
            looks.append(start)
            assert len(looks) <= 2
            super().__init__(cluster, topic, start)

    monkeypatch.setattr(reader_module, "KafkaReader", CountedReader)
    producer = Producer({"bootstrap.servers": kafka_place.servers, "transactional.id": secrets.token_hex(8)})
    producer.init_transactions(60)

    def publish(value: bytes, end: Callable[[float], object]) -> None:
        producer.begin_transaction()
        producer.produce(f"{kafka_place.prefix}.{POSITIONS}", value, b"judge")
        producer.flush(60)
        end(60)

    cluster = cluster_of(kafka_place)
    for expected in (None, b"one"):
        if expected is not None:
            publish(expected, producer.commit_transaction)
        for _ in range(10):  # each takes two offsets
            publish(b"never", producer.abort_transaction)
        looks.clear()
        found = last_record(cluster, POSITIONS)
        assert (found and found.value, len(looks)) == (expected, 2)


def test_pages_behind_an_open_transaction_are_counted_as_uncommitted(kafka_place: TopicPlace) -> None:
    log = kafka_place.open()
    log.create_topics(2)
    crawler = Producer({"bootstrap.servers": kafka_place.servers, "transactional.id": "c"})
    crawler.init_transactions(20)
    assert log.uncommitted(PAGES) == {}
    crawler.begin_transaction()
    crawler.produce(f"{kafka_place.prefix}.pages", b"one", partition=1)
    crawler.flush(5)
    with log.open_appender(PAGES) as appender:
        for partition in (0, 1):
            appender.append(b"page", partition=partition)
        appender.flush(10)
    assert log.uncommitted(PAGES) == {1: 2}
    assert log.end_offsets(PAGES) == {0: 1, 1: 0}
    crawler.abort_transaction(20)
    until(lambda: log.uncommitted(PAGES) == {}, "no transaction is open", every=0.1)


def test_two_sources_share_the_partitions_and_every_page_is_read_on(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    with kafka_log.open_appender(PAGES) as appender:
        for i in range(400):
            appender.append(b"%d" % i, partition=i % PARTITIONS)
    first = kafka_log.open_consumer()
    owned = {start.partition for start in read_source(first, 400).started}
    first.commit(dict.fromkeys(range(PARTITIONS), 100))
    second = kafka_place.open().open_consumer()
    others: set[int] = set()

    def are_shared() -> bool:
        for consumer, partitions in ((first, owned), (second, others)):
            polled = consumer.poll(100, 0.1)
            partitions.difference_update(polled.stopped)
            partitions.update(start.partition for start in polled.started)
        assert all(start.offset == 100 and not start.first for start in polled.started)
        return len(others) == len(owned) == 2

    until(are_shared, "both have two partitions")
    assert owned | others == set(range(PARTITIONS))
    assert not owned & others
    first.close()
    second.close()


def test_a_fingerprinter_that_the_brokers_refuse_is_an_error_and_no_waiting(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    with (
        kafka_place.open(client={"session.timeout.ms": 50, "heartbeat.interval.ms": 10}) as log,
        log.open_consumer() as consumer,
        pytest.raises(LogError, match=r"refuse the session\.timeout\.ms"),
    ):
        until(lambda: bool(consumer.poll(1, 0.1).started), "it is refused")


def test_a_program_that_shares_the_pages_in_another_way_is_an_error_of_the_fingerprinter(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    group = page_consumer.group_of(cluster_of(kafka_place))
    settings = {"bootstrap.servers": kafka_place.servers, "group.id": group}
    other = Consumer(settings | {"partition.assignment.strategy": "range"})
    other.subscribe([kafka_log.topic(PAGES).name])
    try:
        until(lambda: other.poll(0.1) is None and bool(other.assignment()), "the other program has the pages")
        with (
            kafka_log.open_consumer() as consumer,
            pytest.raises(LogError, match=f"another program has joined the group {group}"),
        ):
            until(lambda: bool(consumer.poll(1, 0.1).started), "it is refused")
    finally:
        other.close()


def test_a_partition_that_left_during_a_rest_is_read_when_it_comes_back(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    first, owned = kafka_log.open_consumer(), set[int]()

    def turn(limit: int) -> int:
        polled = first.poll(limit, 0.1)
        owned.difference_update(polled.stopped)
        owned.update(start.partition for start in polled.started)
        return len(polled.records)

    def has_all() -> bool:
        turn(100)
        return len(owned) == PARTITIONS

    until(has_all, "the first has all partitions")
    second = kafka_place.open().open_consumer()

    def has_lost_some() -> bool:
        turn(0)
        second.poll(100, 0.1)
        return len(owned) < PARTITIONS

    until(has_lost_some, "the second has partitions")
    second.close()
    until(has_all, "the first has all partitions again")
    with kafka_log.open_appender(PAGES) as appender:
        for i in range(40):
            appender.append(b"%d" % i, partition=i % PARTITIONS)
    found = 0

    def has_found_all() -> bool:
        nonlocal found
        found += turn(100)
        return found >= 40

    until(has_found_all, "all pages are read")
    first.close()
    assert found == 40


def test_a_consumer_that_gets_partitions_while_it_closes_asks_the_broker_nothing(
    kafka_place: TopicPlace, kafka_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = kafka_log.open_consumer()
    cluster = cluster_of(kafka_place)

    def is_assigned() -> bool:
        members = group_state(cluster, page_consumer.group_of(cluster)).members
        return any(member.assignment and member.assignment.topic_partitions for member in members)

    until(is_assigned, "the broker gives the partitions to the member, which has not called `poll`", every=0.1)
    asked: list[object] = []
    ask = KafkaCluster.ask

    def noted(self: KafkaCluster, *how: Any, **more: Any) -> Any:
        asked.append(how)
        return ask(self, *how, **more)

    monkeypatch.setattr(KafkaCluster, "ask", noted)
    consumer.close()
    assert not asked
    assert not consumer.positions()


def test_an_offset_beyond_the_end_is_waited_for_before_pages_count_as_lost(
    kafka_place: TopicPlace, kafka_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a new leader did not know yet that all replicas have the page."""
    monkeypatch.setattr(missing_offsets, "MAX_LEADER_CHANGE_S", 60.0)
    with kafka_log.open_appender(PAGES) as appender:
        appender.append(b"0", partition=0)
    set_group_offsets(cluster_of(kafka_place), {0: 3})
    with kafka_log.open_consumer() as source:

        def is_missed() -> bool:
            source.poll(100, 0.1)
            return bool(source._missing._since)  # type: ignore[attr-defined]

        until(is_missed, "the offset is missed")
        assert source.poll(100, 0.1).records == []
        with kafka_log.open_appender(PAGES) as appender:
            for number in range(1, 5):
                appender.append(b"%d" % number, partition=0)
        found: list[Record] = []

        def has_two() -> bool:
            found.extend(source.poll(100, 0.1).records)
            return len(found) >= 2

        until(has_two, "two pages come")
        assert [record.value for record in found] == [b"3", b"4"]
        monkeypatch.setattr(missing_offsets, "MAX_LEADER_CHANGE_S", 0.0)
        source._next[0] = 9  # type: ignore[attr-defined]
        source._seek(0, 9)  # type: ignore[attr-defined]
        with pytest.raises(LogError, match="no offset 9 in partition 0 any more: the broker has lost pages"):
            poll_for(source, 40)


def test_a_reader_beyond_the_end_waits_before_records_count_as_lost(
    kafka_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for a reader without a group."""
    monkeypatch.setattr(missing_offsets, "MAX_LEADER_CHANGE_S", 60.0)
    with kafka_log.open_appender(PAGES) as appender:
        appender.append(b"0", partition=0)
        appender.flush(10)
        with kafka_log.open_reader(PAGES, {0: 1, 1: 0}) as reader:
            reader._next[0] = 3  # type: ignore[attr-defined]
            reader._assign()  # type: ignore[attr-defined]
            offsets_of, asked = KafkaCluster.offsets_of, list[str]()

            def noted(cluster: KafkaCluster, *given: Any) -> dict[int, int]:
                asked.append(given[2])
                if len(asked) == 1:
                    raise cluster.unreachable()  # silence is no answer
                if len(asked) == 4:
                    for number in range(1, 5):
                        appender.append(b"%d" % number, partition=0)
                    appender.append(b"other", partition=1)
                    appender.flush(10)
                return offsets_of(cluster, *given)

            monkeypatch.setattr(KafkaCluster, "offsets_of", noted)
            assert {record.value for record in take(reader, 3)} == {b"3", b"4", b"other"}
            assert asked[:4] == ["first", "first", "open end", "first"]
            monkeypatch.setattr(missing_offsets, "MAX_LEADER_CHANGE_S", 0.0)
            reader._next[0] = 9  # type: ignore[attr-defined]
            reader._assign()  # type: ignore[attr-defined]
            with pytest.raises(
                LogError, match="no offset 9 in partition 0 any more: the brokers have lost records"
            ):
                take(reader, 1)


def test_a_reader_that_waits_asks_the_client_only_a_few_times(
    kafka_place: TopicPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, asked = kafka_place.open(), []
    log.create_topics(1)

    def counted(consumer: Any, limit: int, timeout: float, *taken: Any) -> list[Any]:
        asked.append(timeout)
        return consume(consumer, limit, timeout, *taken)

    monkeypatch.setattr(reader_module, "consume", counted)
    monkeypatch.setattr(page_consumer, "consume", counted)
    with log.open_reader(VERDICTS, "end") as reader, log.open_consumer(15) as pages:
        until(lambda: pages.poll(10, 1).started, "the consumer has its partition")
        for wait in (0.0107, 0.0209, 0.0008):  # no whole milliseconds
            for one in (reader, pages):
                asked.clear()
                one.poll(10, wait)
                assert 1 <= len(asked) < 30


@pytest.mark.parametrize("start", [0, "end"])
def test_a_reader_hears_of_partitions_that_are_added_while_it_reads(
    kafka_place: TopicPlace, start: int | Literal["end"]
) -> None:
    log = kafka_place.open()
    log.create_topics(1)
    with log.open_reader(VERDICTS, start) as reader:
        add_partitions(kafka_place, VERDICTS, 8)
        with kafka_place.open().open_publisher() as publisher:
            publisher.start()
            publisher.publish(batch(1, 40), b"one")
        found: list[bytes | None] = []
        partitions, end = set(), time.monotonic() + 20
        while len(found) < 40 and time.monotonic() < end:
            reader.answers()  # it may take a message, which must not come twice
            records = reader.poll(100, 0.2)
            found += [record.key for record in records]
            partitions.update(record.partition for record in records)
        assert len(set(found)) == len(found) == 40
        assert len(partitions) > 1
        while not reader.passed(log.end_offsets(VERDICTS)):
            assert reader.poll(100, 0.2) == []
            assert time.monotonic() < end


def test_all_go_on_when_the_broker_was_killed_and_came_back(broker: KafkaBroker, kafka_place: TopicPlace) -> None:
    log = kafka_place.open(patience=30.0)
    log.create_topics(1)
    appender, reader, publisher = (
        log.open_appender(FINGERPRINTS),
        log.open_reader(FINGERPRINTS),
        log.open_publisher(),
    )
    publisher.start()
    publisher.publish(batch(1), b"one")
    for i in range(100):
        appender.append(b"%d" % i)
    assert appender.flush(10) == 100
    assert len(read_all(log, POSITIONS, least=1)) == 1  # else a lone broker may never end the transaction
    broker.kill()
    for i in range(100, 200):
        appender.append(b"%d" % i)
    assert appender.flush(0.2) == 100
    broker.restart()
    publisher.publish(batch(2), b"two")
    assert appender.flush(30) == 200
    values, end = [], time.monotonic() + 120
    while len(values) < 200 and time.monotonic() < end:
        values += [int(r.value or b"") for r in reader.poll(100, 0.5)]
    assert values == list(range(200))
    for opened in (appender, reader, publisher):
        opened.close()
    assert [r.value for r in read_all(log, POSITIONS, least=2)] == [b"one", b"two"]
    assert len(read_all(log, VERDICTS, least=20)) == 20


@pytest.mark.long
def test_a_publisher_without_its_broker_says_so_and_publishes_once_afterwards(
    broker: KafkaBroker, kafka_place: TopicPlace
) -> None:
    log = kafka_place.open(patience=5.0)
    kafka_place.open(patience=60.0).create_topics(1)
    with kafka_place.open(patience=60.0).open_publisher() as first:
        first.start()  # a fresh broker may take seconds over its first transaction
    publisher, reader = log.open_publisher(), log.open_reader(VERDICTS)
    publisher.start()
    publisher.publish(batch(1), b"one")
    assert len(read_all(kafka_place.open(), POSITIONS, least=1)) == 1
    broker.kill()
    with pytest.raises(BrokerUnreachable):
        publisher.publish(batch(2), b"two")
    with pytest.raises(BrokerUnreachable):
        poll_for(reader, 120)
    broker.restart()
    end = time.monotonic() + 120
    while True:
        try:
            publisher.publish(batch(2), b"two")
            break
        except BrokerUnreachable:
            assert time.monotonic() < end
    publisher.close()
    reader.close()
    assert [r.value for r in read_all(kafka_place.open(), POSITIONS, least=2)] == [b"one", b"two"]


def test_the_clients_own_log_lines_go_to_the_logger(
    kafka_place: TopicPlace, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    log = kafka_place.open(client={"debug": "generic"})
    log.create_topics(1)
    name = "simstream.log.kafka.client_log"
    with caplog.at_level(logging.DEBUG, logger=name), log.open_appender(PAGES) as appender:
        appender.append(secrets.token_bytes(10))
    assert any(record.name == name for record in caplog.records)
    assert "%7|" not in capfd.readouterr().err


def test_a_cluster_that_is_closed_frees_its_admin_client_and_answers_again(kafka_place: TopicPlace) -> None:
    kafka_place.open().create_topics(1)
    cluster = cluster_of(kafka_place)
    assert cluster.describe([PAGES])[PAGES].partitions == 1
    freed = weakref.ref(cluster.admin())
    cluster.close()
    until(lambda: freed() is None, "the client is freed")
    assert cluster.describe([PAGES])[PAGES].partitions == 1
    cluster.close()


def test_a_reader_that_is_only_asked_for_its_health_keeps_few_messages_and_no_reports(
    kafka_place: TopicPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simstream.log.kafka.reader.HOLD_S", 0.3)
    monkeypatch.setattr(ClientWatch, "INTERVAL_MS", 50)
    reports: list[str] = []
    monkeypatch.setattr(ClientWatch, "_look", lambda _, statistics: reports.append(statistics))
    log = kafka_place.open()
    log.create_topics(1)
    with log.open_appender(FINGERPRINTS) as appender:
        for number in range(200):
            appender.append(b"%d" % number)
    values = []
    with log.open_reader(FINGERPRINTS) as reader:
        for _ in range(2):
            end = time.monotonic() + 2
            while time.monotonic() < end:
                assert reader.answers()
                time.sleep(0.01)
            reader.pause([0])
            reader.pause([])
            came, began = len(reports), time.monotonic()
            while len(reports) <= came + 5 or time.monotonic() < began + 1:
                assert reader.answers()
                assert time.monotonic() < began + 120, "the client reports no more"
                time.sleep(0.01)
            assert len(reader._taken) <= 2  # type: ignore[attr-defined]
            values += [int(record.value or b"") for record in take(reader, 100)]
    assert values == list(range(200))
