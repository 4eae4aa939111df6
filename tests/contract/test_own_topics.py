"""Topics with names of their own: every part of both logs finds them there, and none creates the user's pages."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from simstream.errors import LogLocked, SettingsError, TakenOver, TopicMissing
from simstream.log import open_log
from simstream.log.options import (
    DEAD_LETTERS,
    FINGERPRINTS,
    MATCHES,
    PAGES,
    POSITIONS,
    TOPICS,
    VERDICTS,
    LogOptions,
    setting_of,
)
from simstream.roles.fingerprint.first_frame import first_header, warn_of_other_pages
from simstream.wire.frame import NO_PAGES, FrameHeader, encode
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


def test_a_log_with_pages_of_another_topic_is_warned_of(
    place: TopicPlace, theirs: str, caplog: pytest.LogCaptureFixture
) -> None:
    with place.open() as usual, place.open(pages_topic=theirs) as log:
        usual.create_topics(3)
        for one in (usual, log):
            warn_of_other_pages(one, first_header(one))
        info = usual.topic(PAGES)
        header = FrameHeader("0badcafe", info.name, info.id, 0, 0, 5, 0, lost=True)
        with usual.open_appender(FINGERPRINTS) as appender:
            appender.append(encode(header, NO_PAGES), partition=0)
        warn_of_other_pages(usual, first_header(usual))
        assert "the oldest frame" not in caplog.text
        warn_of_other_pages(log, first_header(log))
    assert f"the oldest frame has pages of {info.name}, and this service reads {theirs}" in caplog.text


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


def test_every_topic_but_pages_is_created_under_the_name_that_is_set(place: TopicPlace) -> None:
    names = {FINGERPRINTS: "frames", VERDICTS: "public.verdicts", DEAD_LETTERS: "dlq"}
    names = {topic: f"{place.prefix}-{name}" for topic, name in names.items()}
    with place.open(**{setting_of(topic): name for topic, name in names.items()}) as log:
        created = {report.name for report in log.create_topics(2) if report.created}
        others = {f"{place.prefix}.pages", f"{place.prefix}-public.positions"}
        assert created == {*names.values(), *others}
        for topic, name in names.items():
            assert log.topic(topic).name == name
        with log.open_appender(FINGERPRINTS) as appender:
            appender.append(b"frame", partition=0)
        assert [record.value for record in read_all(log, FINGERPRINTS)] == [b"frame"]


def test_judges_of_one_topic_of_verdicts_fence_each_other_whatever_their_prefix(place: TopicPlace) -> None:
    name = f"{place.prefix}-court.verdicts"
    with place.open(verdicts_topic=name) as log:
        log.create_topics(1)
        other = TopicPlace(place.address, f"{place.prefix}-other")
        with other.open(verdicts_topic=name) as beside, other.open(publish_to=f"{place.prefix}-court") as same:
            for one in (beside, same):
                one.create_topics(1)
                assert one.topic(VERDICTS) == log.topic(VERDICTS)
                with log.open_publisher() as first:
                    first.start()
                    if place.is_local:
                        with one.open_publisher() as second, pytest.raises(LogLocked):
                            second.start()
                        continue
                    with one.open_publisher() as second:
                        second.start()
                        with pytest.raises(TakenOver):
                            first.publish([], b"position")


def test_names_that_do_not_collide_are_accepted() -> None:
    given = {"fingerprints_topic": "frames", "verdicts_topic": "p.verdicts", "dead_letters_topic": "a.pages"}
    options = LogOptions(prefix="p", pages_topic="crawl", **given)
    names = ["crawl", "frames", "p.verdicts", "p.positions", "a.pages", "p.matches"]
    assert [options.full_name(topic) for topic in (*TOPICS, MATCHES)] == names
    assert (options.judged_prefix, options.log_prefix) == ("p", "frames.fingerprints")
    assert LogOptions(verdicts_topic=".verdicts").full_name(POSITIONS) == ".verdicts.verdicts.positions"
    assert LogOptions(prefix="p", verdicts_topic="p").full_name(POSITIONS) == "p.verdicts.positions"


@pytest.mark.parametrize(("setting", "topic"), [("fingerprints_topic", FINGERPRINTS), ("verdicts_topic", VERDICTS)])
def test_two_names_of_a_topic_share_no_position_group_or_fencing(setting: str, topic: str) -> None:
    words = ("a", topic, "b")
    names = [".".join(some) for count in range(1, 4) for some in product(words, repeat=count)] + [f".{topic}"]
    found: dict[str, str] = {}
    for given in [{setting: name} for name in names] + [{"prefix": name} for name in names]:
        try:
            options = LogOptions(**{"prefix": "p"} | given)
        except SettingsError:
            continue
        prefix = options.log_prefix if topic == FINGERPRINTS else options.judged_prefix
        assert found.setdefault(prefix, options.full_name(topic)) == options.full_name(topic)
    assert len(found) == len(set(found.values())) > 20


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("fingerprints_topic", "p.verdicts"),
        ("fingerprints_topic", "theirs"),
        ("verdicts_topic", "p.fingerprints"),
        ("verdicts_topic", "p.positions"),
        ("verdicts_topic", ".."),
        ("dead_letters_topic", "p.matches"),
        ("dead_letters_topic", "p.answers"),
        ("dead_letters_topic", "theirs"),
    ],
)
def test_a_topic_with_two_uses_is_refused(setting: str, name: str) -> None:
    with pytest.raises(SettingsError, match=f"_topic is {name}, a topic "):
        LogOptions(prefix="p", matches="answers", pages_topic="theirs", **{setting: name})


@pytest.mark.parametrize("name", TOPICS)
def test_answers_never_go_into_another_topic(name: str) -> None:
    with pytest.raises(SettingsError, match=f"matches is {name}, which is another topic"):
        LogOptions(matches=name)


@pytest.mark.parametrize(
    "given",
    [
        {"prefix": "a.verdicts"},
        {"prefix": "a.fingerprints"},
        {"publish_to": "a.verdicts"},
        {"verdicts_topic": "a.verdicts.verdicts"},
        {"fingerprints_topic": "a.fingerprints.fingerprints"},
    ],
)
def test_a_prefix_that_ends_like_a_topic_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="once too often at its end"):
        LogOptions(**given)


@pytest.mark.parametrize("name", ["x.judge", "x.source", "x.matchers", "x.answers.matchers-2", "topics", "x" * 231])
def test_a_folder_refuses_a_topic_whose_lock_file_is_in_use(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="a log in a folder cannot have the topic"):
        open_log(str(tmp_path), LogOptions(dead_letters_topic=name))
    with pytest.raises(SettingsError, match=r"a log in a folder cannot have the topic simstream\.judge:"):
        open_log(str(tmp_path), LogOptions(matches="judge"))


def test_two_settings_for_the_place_of_verdicts_are_refused() -> None:
    with pytest.raises(SettingsError, match="publish_to is a, and verdicts_topic is b: give one of them"):
        LogOptions(publish_to="a", verdicts_topic="b")


@pytest.mark.parametrize(
    "topic", ["p.fingerprints", "p.verdicts", "q.verdicts", "q.answers", "p.matches", "p.dead-letters"]
)
def test_a_topic_that_the_service_writes_is_refused(topic: str) -> None:
    with pytest.raises(SettingsError, match=f"pages_topic is {topic}, a topic that the service writes itself"):
        LogOptions(prefix="p", publish_to="q", matches="answers", pages_topic=topic)


def test_pages_may_come_from_a_topic_that_is_named_like_one_of_another_service() -> None:
    for topic in ("court.verdicts", "a.b.matches", "x.p.verdicts", "verdicts", "p.pages"):
        assert LogOptions(prefix="p", publish_to="q", pages_topic=topic).full_name(PAGES) == topic
