"""Topics on a real broker that others made first: what would break a rule is said, the user's own is left alone."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest
from confluent_kafka.admin import NewTopic

from deploy.kafka.tools import install
from simstream.log.base import Log
from simstream.log.kafka import topics as kafka_topics
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.kafka.topics import topic_settings
from simstream.log.options import DEAD_LETTERS, FINGERPRINTS, MATCHES, PAGES, POSITIONS, TOPICS, VERDICTS
from tests.contract.helpers import cluster_of
from tests.e2e.harness import ROOT
from tests.kafka_fixtures import TopicPlace

pytestmark = pytest.mark.kafka


def make(place: TopicPlace, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
    """Create a topic with wrong settings, as a person might who has not read the manual."""
    admin = place.admin()
    name = f"{place.prefix}.{topic}"
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(settings or {}))])[name].result(10)


def differing(log: Log, partitions: int | None = None) -> dict[str, tuple[str, ...]]:
    """What `create_topics` says about topics that were there."""
    return {r.name.split(".", 1)[1]: r.differs for r in log.create_topics(partitions) if not r.created}


def settings(cluster: KafkaCluster, topic: str, *names: str) -> list[str]:
    found = topic_settings(cluster, topic)
    return [found[name] for name in names]


def test_the_users_own_pages_are_left_alone_and_verdicts_have_as_many_partitions(kafka_place: TopicPlace) -> None:
    make(
        kafka_place, PAGES, 3, {"cleanup.policy": "compact", "max.message.bytes": "9000000", "retention.ms": "1000"}
    )
    log = kafka_place.open()
    assert differing(log) == {PAGES: ()}
    assert {topic: log.topic(topic).partitions for topic in TOPICS} == {
        PAGES: 3,
        FINGERPRINTS: 1,
        VERDICTS: 3,
        POSITIONS: 1,
        DEAD_LETTERS: 1,
    }
    assert differing(log) == dict.fromkeys(TOPICS, ())


def test_another_number_of_partitions_is_said_only_where_it_was_asked_for(kafka_place: TopicPlace) -> None:
    make(kafka_place, PAGES, 3)
    log = kafka_place.open()
    assert differing(log, 5) == {PAGES: ("partitions: 3, not 5",)}
    assert log.topic(VERDICTS).partitions == 3


def test_new_pages_have_eight_partitions(kafka_place: TopicPlace) -> None:
    log = kafka_place.open()
    log.create_topics()
    assert [log.topic(topic).partitions for topic in (PAGES, VERDICTS)] == [8, 8]


def test_a_dead_letter_has_room_for_the_largest_page_that_the_users_topic_admits(kafka_place: TopicPlace) -> None:
    make(kafka_place, PAGES, 1, {"max.message.bytes": "30000000"})
    kafka_place.open().create_topics()
    assert int(*settings(cluster_of(kafka_place), DEAD_LETTERS, "max.message.bytes")) > 30_000_000


def test_topics_that_a_broker_created_itself_are_refused_with_the_broken_rule(
    kafka_place: TopicPlace,
) -> None:
    make(kafka_place, PAGES, 2, {"max.message.bytes": "2000000"})
    for topic in (FINGERPRINTS, VERDICTS, POSITIONS, DEAD_LETTERS):
        make(kafka_place, topic, 2)
    differs = differing(kafka_place.open())
    assert [text.split(":")[0] for text in differs[FINGERPRINTS]] == [
        "partitions",
        "retention.ms",
        "message.timestamp.type",
        "max.message.bytes",
    ]
    assert differs[POSITIONS] == ("partitions: 2, not 1", "cleanup.policy: delete, not compact")
    assert differs[DEAD_LETTERS] == ("max.message.bytes: 1048588, less than 2000000",)
    assert differs[VERDICTS] == ()


def test_compacted_verdicts_and_a_compacted_log_are_refused(kafka_place: TopicPlace) -> None:
    make(kafka_place, VERDICTS, 8, {"cleanup.policy": "compact"})
    make(kafka_place, FINGERPRINTS, 1, {"cleanup.policy": "compact,delete", "max.message.bytes": "90000000"})
    differs = differing(kafka_place.open())
    assert differs[VERDICTS] == ("cleanup.policy: compact, not delete",)
    assert "cleanup.policy: compact,delete, not delete" in differs[FINGERPRINTS]
    assert not any("max.message.bytes" in text for text in differs[FINGERPRINTS])


def test_answers_are_kept_like_the_log(kafka_place: TopicPlace) -> None:
    log = kafka_place.open()
    log.create_topics(1, shards=16)
    names = ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type", "max.message.bytes")
    names += ("unclean.leader.election.enable",)
    cluster = cluster_of(kafka_place)
    assert settings(cluster, MATCHES, *names) == settings(cluster, FINGERPRINTS, *names)
    assert log.retention_ms(MATCHES) is None


def test_answers_that_do_not_stay_are_named_and_compacted_ones_break_a_rule(kafka_place: TopicPlace) -> None:
    make(kafka_place, MATCHES, 4, {"cleanup.policy": "compact", "max.message.bytes": "90000000"})
    log = kafka_place.open()
    reports = {report.name.split(".", 1)[1]: report for report in log.create_topics(1, shards=8)}
    assert "partitions: 4, not 8" in reports[MATCHES].differs
    found = {difference.setting: difference for difference in log.differences([MATCHES])[MATCHES]}
    assert {name: one.breaks for name, one in found.items()} == {
        "cleanup.policy": True,
        "retention.ms": False,
        "message.timestamp.type": False,
    }
    assert MATCHES not in {report.name.split(".", 1)[1] for report in log.create_topics(1)}


def test_the_tools_in_the_guides_exist_and_work(kafka_place: TopicPlace, tmp_path: Path) -> None:
    guides = " ".join((ROOT / "docs/operate" / name).read_text() for name in ("guide.md", "runbook.md"))
    tools = {path.name: path for path in install(tmp_path)}
    assert set(re.findall(r"kafka-[a-z-]+\.sh", guides)) <= tools.keys()
    made = re.search(r"^broker:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert made is not None
    assert "deploy.kafka.tools $(BIN)" in made[1], "`make broker` leaves them out"
    log = kafka_place.open()
    log.create_topics(1)
    servers = ("--bootstrap-server", kafka_place.servers)
    pages, frames = (f"{kafka_place.prefix}.{topic}" for topic in (PAGES, FINGERPRINTS))
    for tool, arguments in (
        ("kafka-topics.sh", f"--topic {pages} --partitions 3"),
        ("kafka-configs.sh", f"--entity-type topics --entity-name {frames} --add-config retention.ms=1000"),
    ):
        call = [tools[tool], *servers, "--alter", *arguments.split()]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert log.topic(PAGES).partitions == 3
    assert log.retention_ms(FINGERPRINTS) == 1000


def test_verdicts_with_another_number_of_partitions_than_pages_are_named(kafka_place: TopicPlace) -> None:
    make(kafka_place, PAGES, 4)
    make(kafka_place, VERDICTS, 5)
    assert differing(kafka_place.open()) == {PAGES: (), VERDICTS: ("partitions: 5, not 4",)}


def test_the_brokers_are_counted_once_for_all_topics(
    kafka_place: TopicPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = kafka_place.open()
    log.create_topics(1)
    counted = Mock(wraps=kafka_topics._count_brokers)
    monkeypatch.setattr(kafka_topics, "_count_brokers", counted)
    assert log.differences(TOPICS) == {topic: [] for topic in TOPICS}
    assert counted.call_count == 1


def test_fewer_replicas_than_three_of_three_brokers_are_named_and_two_need_not_be_in_sync(
    kafka_place: TopicPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the topics were made while two of the brokers were away."""
    log = kafka_place.open()
    log.create_topics(1)
    monkeypatch.setattr(kafka_topics, "_count_brokers", lambda _: 3)
    found = log.differences([FINGERPRINTS, VERDICTS, POSITIONS])
    assert {str(one) for differences in found.values() for one in differences} == {"replicas: 1, less than 3"}
    assert log.differences([PAGES]) == {PAGES: []}
