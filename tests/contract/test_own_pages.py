"""`pages` in a topic of the user's own: every part of both logs reads it there, and no part creates it."""

from __future__ import annotations

import pytest

from simstream.errors import SettingsError, TopicMissing
from simstream.log.base import FINGERPRINTS, PAGES, TOPICS, VERDICTS, LogOptions
from tests.contract.helpers import read_all, read_source
from tests.kafka_fixtures import TopicPlace


@pytest.fixture
def theirs(place: TopicPlace) -> str:
    """The full name of a topic of 3 partitions under another prefix."""
    with TopicPlace(place.address, f"{place.prefix}-crawl").open() as log:
        log.create_topics(3)
        return log.topic(PAGES).name


def test_a_missing_topic_of_ones_own_is_never_created(place: TopicPlace) -> None:
    name = f"{place.prefix}-nowhere"
    with place.open(pages_topic=name) as log:
        for _ in range(2):
            with pytest.raises(TopicMissing, match=f"there is no topic {name} .*simstream never creates it"):
                log.create_topics()
        with pytest.raises(TopicMissing, match=r"topics create .*--pages-topic"):
            log.topic(FINGERPRINTS)


def test_the_topics_beside_a_topic_of_ones_own_are_created(place: TopicPlace, theirs: str) -> None:
    with place.open(pages_topic=theirs) as log:
        reports = {report.name: report for report in log.create_topics()}
        assert not reports[theirs].created
        assert all(reports[f"{place.prefix}.{topic}"].created for topic in TOPICS[1:])
        assert log.topic(VERDICTS).partitions == 3
        assert [report.differs for report in log.create_topics()] == [()] * len(TOPICS)
        assert "partitions: 3, not 4" in log.create_topics(4)[0].differs
    with place.open() as usual, pytest.raises(TopicMissing):
        usual.topic(PAGES)


def test_pages_are_read_and_committed_and_sent_there(place: TopicPlace, theirs: str) -> None:
    with place.open(pages_topic=theirs) as log:
        log.create_topics()
        with log.open_appender(PAGES) as appender:
            for number in range(6):
                appender.append(b"%d" % number, partition=number % 3)
        with log.open_consumer() as consumer:
            read = read_source(consumer, 6)
            assert {record.topic for record in read.records} == {theirs}
            consumer.commit({0: 2, 1: 1})
        assert log.source_offsets() == {0: 2, 1: 1}
        log.set_group_offsets({0: 1})
        assert log.source_offsets()[0] == 1
        assert sorted(record.value or b"" for record in read_all(log, PAGES)) == [b"%d" % n for n in range(6)]


def test_a_commit_belongs_to_its_own_topic(place: TopicPlace, theirs: str) -> None:
    with place.open() as usual, place.open(pages_topic=theirs) as log:
        usual.create_topics(3)
        with log.open_appender(PAGES) as appender:
            appender.append(b"x", partition=0)
        with log.open_consumer() as consumer:
            read_source(consumer, 1)
            consumer.commit({0: 1})
        assert log.source_offsets() == {0: 1}
        assert usual.source_offsets() == {}


@pytest.mark.parametrize(
    "topic", ["p.fingerprints", "p.verdicts", "q.verdicts", "q.answers", "p.matches", "p.dead-letters"]
)
def test_a_topic_that_the_service_writes_is_refused(topic: str) -> None:
    with pytest.raises(SettingsError, match=f"pages_topic is {topic}, a topic that the service writes itself"):
        LogOptions(prefix="p", publish_to="q", matches="answers", pages_topic=topic)


def test_pages_may_come_from_a_topic_that_is_named_like_one_of_another_service() -> None:
    for topic in ("court.verdicts", "a.b.matches", "x.p.verdicts", "verdicts", "p.pages"):
        assert LogOptions(prefix="p", publish_to="q", pages_topic=topic).full_name(PAGES) == topic
