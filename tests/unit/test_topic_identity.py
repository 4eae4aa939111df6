"""Whether a broker answers, as the watch over topics tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from simstream.errors import BrokerUnreachable, TopicMissing
from simstream.log.base import TopicInfo
from simstream.log.kafka import topic_identity as module
from simstream.log.kafka.cluster import MAX_SILENCE_S, TRY_S, KafkaCluster
from simstream.log.kafka.topic_identity import CHECK_EVERY_S, MISSING_S, KafkaTopicIdentity
from simstream.log.options import PAGES, LogOptions
from tests.manual_clock import ManualClock


class SilentCluster:
    """Answers the first question. Every later one ends without an answer after TRY_S."""

    def __init__(self, clock: ManualClock) -> None:
        self.options = LogOptions(patience=10 * TRY_S)
        self._clock = clock
        self._asked: list[tuple[float, Future[Any]]] = []
        self.silent_since: float | None = None

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicInfo]:
        return {}

    def describe_soon(self, topics: Sequence[str]) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        self._asked.append((self._clock.now, future))
        return {PAGES: future}

    def read_descriptions(self, asked: Mapping[str, Future[Any]]) -> Mapping[str, TopicInfo]:
        raise self.unreachable()

    def say_silence(self, since: float) -> None:
        self.silent_since = since

    def unreachable(self) -> BrokerUnreachable:
        return BrokerUnreachable("no broker answers", "start one")

    def pass_time(self, seconds: float) -> None:
        self._clock.now += seconds
        for at, future in self._asked:
            if self._clock.now - at >= TRY_S and not future.done():
                future.set_result(None)


def test_a_question_that_was_open_while_the_process_was_stopped_is_no_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(module, "time", clock)
    cluster = SilentCluster(clock)
    watch = KafkaTopicIdentity(cast(KafkaCluster, cluster), [PAGES])
    clock.now += CHECK_EVERY_S
    watch.check()
    cluster.pass_time(20 * TRY_S)
    watch.check()
    assert not watch.away


def test_a_silence_lasts_over_all_its_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    monkeypatch.setattr(module, "time", clock)
    cluster = SilentCluster(clock)
    watch = KafkaTopicIdentity(cast(KafkaCluster, cluster), [PAGES])
    told, passed, began = [], 0.0, clock.now
    while passed < 4 * TRY_S:
        watch.check()
        told.append((passed, watch.answers()))
        cluster.pass_time(0.1)
        passed += 0.1
    assert {answers for passed, answers in told if passed <= CHECK_EVERY_S + MAX_SILENCE_S - 1} == {True}
    assert {answers for passed, answers in told if passed >= CHECK_EVERY_S + MAX_SILENCE_S + 1} == {False}
    assert cluster.silent_since is not None
    assert cluster.silent_since - began < CHECK_EVERY_S + 1, "the log says when the silence began"


class DenyingCluster(SilentCluster):
    """Answers at once; denies that the topic exists while a test says so."""

    denies = True

    def describe_soon(self, topics: Sequence[str]) -> dict[str, Future[Any]]:
        found = super().describe_soon(topics)
        found[PAGES].set_result(None)
        return found

    def read_descriptions(self, asked: Mapping[str, Future[Any]]) -> Mapping[str, TopicInfo]:
        if self.denies:
            raise TopicMissing("there is no topic", "create it")
        return {}


@pytest.fixture
def denying(monkeypatch: pytest.MonkeyPatch) -> tuple[DenyingCluster, KafkaTopicIdentity]:
    """A cluster that denies its topic for the first time, and the watch that has heard it."""
    clock = ManualClock()
    monkeypatch.setattr(module, "time", clock)
    cluster = DenyingCluster(clock)
    watch = KafkaTopicIdentity(cast(KafkaCluster, cluster), [PAGES])
    for _ in range(2):
        cluster.pass_time(CHECK_EVERY_S)
        watch.check()
    return cluster, watch


def test_a_broker_that_has_just_started_may_deny_a_topic_for_a_moment(
    denying: tuple[DenyingCluster, KafkaTopicIdentity],
) -> None:
    cluster, watch = denying
    for denies in (True, False):
        cluster.denies = denies
        for _ in range(2):
            cluster.pass_time(MISSING_S / 4)
            watch.check()
    assert not watch.away


def test_a_topic_that_brokers_deny_again_is_missing(denying: tuple[DenyingCluster, KafkaTopicIdentity]) -> None:
    cluster, watch = denying
    cluster.pass_time(MISSING_S)
    watch.check()  # asks once more
    with pytest.raises(TopicMissing):
        watch.check()
