"""Records that a broker refuses for ever or returns damaged: each is an error at once, with no wait and no skip."""

from __future__ import annotations

import time
from typing import Any

import pytest

from deploy.kafka.broker import KafkaBroker
from simstream.errors import LogDamaged, LogError
from simstream.log.base import Log, OutgoingVerdict
from simstream.log.kafka.appender import KafkaAppender
from simstream.log.kafka.publisher import KafkaPublisher
from simstream.log.options import DEAD_LETTERS, FINGERPRINTS, PAGES, POSITIONS, VERDICTS
from tests.contract.helpers import read_all, read_source
from tests.kafka_fixtures import TopicPlace

pytestmark = pytest.mark.kafka
AHEAD_S = 7_200


class FastClockProducer:
    """A producer on a machine with a clock two hours ahead. The client stamps records by this clock."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def produce(self, topic: str, **more: Any) -> None:
        self._producer.produce(topic, timestamp=int((time.time() + AHEAD_S) * 1000), **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


def alter(place: TopicPlace, topic: str, setting: str, value: str) -> None:
    """Change a topic's setting, and wait until the broker goes by it."""
    place.alter(topic, {setting: value})
    time.sleep(1)


def published(log: Log, ahead: bool) -> None:
    """Publish one verdict."""
    with log.open_publisher() as publisher:
        assert isinstance(publisher, KafkaPublisher)
        publisher.start()
        if ahead:
            publisher._producer = FastClockProducer(publisher._producer)
        publisher.publish([OutgoingVerdict(b"a", b"{}", ())], b"position")


def test_a_judge_whose_clock_is_ahead_publishes_into_topics_of_our_making(kafka_log: Log) -> None:
    published(kafka_log, ahead=True)
    [record] = read_all(kafka_log, VERDICTS, least=1)
    assert abs(record.timestamp / 1000 - time.time()) < 60


@pytest.mark.parametrize("topic", [VERDICTS, POSITIONS])
def test_a_judge_hears_at_once_that_its_clock_is_wrong_where_its_own_time_counts(
    kafka_place: TopicPlace, kafka_log: Log, topic: str
) -> None:
    alter(kafka_place, topic, "message.timestamp.type", "CreateTime")
    began = time.monotonic()
    with pytest.raises(LogError, match=rf"refuses records of \S+\.{topic} for their time.*correct the clocks"):
        published(kafka_log, ahead=True)
    assert time.monotonic() - began < 5
    published(kafka_log, ahead=False)  # set right, it goes on
    assert len(read_all(kafka_log, VERDICTS, least=1)) == 1


def test_a_fingerprinter_hears_by_its_dead_letters_that_its_clock_is_wrong(
    kafka_place: TopicPlace, kafka_log: Log
) -> None:
    alter(kafka_place, DEAD_LETTERS, "message.timestamp.type", "CreateTime")
    appender = kafka_log.open_appender(DEAD_LETTERS)
    assert isinstance(appender, KafkaAppender)
    appender._producer = FastClockProducer(appender._producer)
    appender.append(b"page", partition=0)
    with pytest.raises(LogError, match=r"refuses records of \S+\.dead-letters for their time"):
        appender.flush(10)
    appender.discard()


@pytest.mark.parametrize("topic", [VERDICTS, PAGES])
def test_a_topic_that_allows_larger_records_than_a_client_is_fine(
    kafka_place: TopicPlace, kafka_log: Log, topic: str
) -> None:
    alter(kafka_place, topic, "max.message.bytes", str(2**31 - 1))
    published(kafka_log, ahead=False)
    with kafka_log.open_appender(PAGES) as appender:
        appender.append(b"v", b"k")
        assert appender.flush(10) == 1


def test_the_topic_that_refuses_a_record_for_its_size_is_named(kafka_place: TopicPlace, kafka_log: Log) -> None:
    alter(kafka_place, POSITIONS, "max.message.bytes", "500")  # room for the markers of transactions
    with kafka_log.open_publisher() as publisher:
        publisher.start()
        with pytest.raises(LogError, match=r"refuses a record of \S+\.positions for its size"):
            publisher.publish([OutgoingVerdict(b"a", b"{}", ())], b"p" * 1000)
        publisher.publish([OutgoingVerdict(b"a", b"{}", ())], b"position")
    assert len(read_all(kafka_log, VERDICTS, least=1)) == 1


def rot(broker: KafkaBroker, place: TopicPlace, topic: str, value: bytes) -> None:
    """Flip a bit of this value on the broker's disk."""
    for path in broker.data.rglob(f"{place.prefix}.{topic}-*/*.log"):
        data = path.read_bytes()
        if (at := data.find(value)) >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([data[at] ^ 1]))
            return
    pytest.fail("the broker does not have it")


def test_a_bit_that_rots_on_a_brokers_disk_is_damage_and_no_page(
    broker: KafkaBroker, kafka_place: TopicPlace, kafka_log: Log
) -> None:
    for topic in (PAGES, FINGERPRINTS):
        with kafka_log.open_appender(topic) as appender:
            for value in (b"the first record", b"the second record"):
                appender.append(value, b"k", partition=0)
                appender.flush(10)
        rot(broker, kafka_place, topic, b"the first record")
        with pytest.raises(LogDamaged, match=rf"{topic} is damaged in partition 0"):
            read_all(kafka_log, topic)
    with kafka_log.open_consumer() as source, pytest.raises(LogDamaged, match="pages is damaged in partition 0"):
        read_source(source, 2)
