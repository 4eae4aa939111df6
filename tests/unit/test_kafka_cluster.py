"""A question to the brokers ends in its time and gets a real answer, whatever the Kafka client does."""

from __future__ import annotations

import gc
import logging
import time
import weakref
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, Uuid

from simstream.errors import LogError, SettingsError
from simstream.log.kafka import cluster as kafka_cluster
from simstream.log.kafka.client_log import RareMessages
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.options import PAGES, LogOptions
from tests.forked_process import forked
from tests.manual_clock import ManualClock

END_S = 120.0
NO_OFFSET = -1001
"""A broker's answer for a partition whose leader was just killed."""


def test_a_file_that_a_client_cannot_read_is_named_by_its_setting_alone(tmp_path: Path) -> None:
    ours = tmp_path / "our.crt"
    ours.touch()
    key = "-----BEGIN PRIVATE KEY-----"  # in place of its file's name
    files = {"ssl.ca.location": "probe", "ssl.certificate.location": f" {ours}", "ssl.key.location": key}
    with pytest.raises(SettingsError, match=r"name a readable file in ssl\.key\.location$") as caught:
        kafka_cluster.make(Producer, {"security.protocol": "ssl", **files})
    assert key not in str(caught.value)


def test_the_client_is_heard_once_in_half_a_minute_and_not_about_short_waits() -> None:
    heard = RareMessages()

    def passes(text: str, level: int = logging.WARNING) -> bool:
        return heard.filter(logging.LogRecord("k", level, "", 0, "GETPID [a] %s", (text,), None))

    failed = "Failed to acquire transactional PID from broker 1: "
    assert [passes("broker 1 is down") for _ in range(2)] == [True, False]
    assert passes("broker 2 is down")
    assert [passes("x", logging.DEBUG) for _ in range(2)] == [True, True]
    assert not passes(failed + "Broker: Coordinator load in progress: retrying")
    assert passes(failed + "Broker: Cluster authorization failed: retrying")


def test_clients_that_say_the_same_of_a_broker_are_heard_once_and_without_their_guess() -> None:
    heard = RareMessages()
    guess = "probably due to broker version < 0.10 (see api.version.request configuration)"

    def said(client: int, broker: int) -> str | None:
        text = (
            f"FAIL [simstream#consumer-{client}] [thrd:127.0.0.1:9092/{broker}]: 127.0.0.1:9092/{broker}: "
            f"ApiVersionRequest failed: Local: Timed out: {guess} (after 100{client}ms in state APIVERSION_QUERY)"
        )
        record = logging.LogRecord("k", logging.WARNING, "", 0, "%s", (text,), None)
        return record.getMessage() if heard.filter(record) else None

    first, *others = [said(client, broker) for broker in (1, 2) for client in (1, 2, 3)]
    assert first is not None
    assert "Timed out (after 1001ms" in first
    assert "0.10" not in first
    assert [bool(each) for each in others] == [False, False, True, False, False]


class UnansweredQuestion(Future[Any]):
    """A question that the client forgets; nobody may wait for it for END_S seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._end = time.monotonic() + END_S

    def result(self, timeout: float | None = None) -> Any:
        """See Future."""
        assert timeout is not None, "it is waited for without an end"
        assert time.monotonic() < self._end, "it is still waited for"
        return super().result(timeout)


def test_an_answer_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_cluster, "GRACE_S", 0.1)
    with pytest.raises(KafkaException, match="did not end a request in time"):
        KafkaCluster("127.0.0.1:1", LogOptions()).answer(UnansweredQuestion(), 0.1)


def test_a_silence_is_told_once_and_not_after_the_answer_to_another_question(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "simstream.log")
    clock = ManualClock()
    monkeypatch.setattr(kafka_cluster, "time", clock)
    cluster, answered = KafkaCluster("127.0.0.1:1", LogOptions()), Future[Any]()
    answered.set_result("yes")
    asked_at = clock.now
    clock.now += 2 * kafka_cluster.MAX_SILENCE_S
    for _ in range(2):
        cluster.say_silence(asked_at)
    cluster.answer(answered, 1.0)
    cluster.say_silence(asked_at)  # a question from before that answer is still open
    clock.now += 2 * kafka_cluster.MAX_SILENCE_S
    cluster.say_silence(asked_at)
    told = [record.getMessage().split(" at ")[0] for record in caplog.records]
    assert told == ["no broker answers", "a broker answers again", "no broker answers"]


def test_brokers_without_ids_of_topics_are_refused() -> None:
    described: Future[Any] = Future()
    described.set_result(SimpleNamespace(topic_id=Uuid(0, 0), partitions=[None]))
    with pytest.raises(LogError, match=r"give topics no ids.*use Kafka 2\.8 or newer"):
        KafkaCluster("127.0.0.1:1", LogOptions()).read_descriptions({PAGES: described})


def test_a_client_lives_until_the_descriptions_that_it_was_asked_for_have_ended() -> None:
    cluster = KafkaCluster("127.0.0.1:1", LogOptions())
    client = weakref.ref(cluster.admin())
    [future] = cluster.describe_soon([PAGES], 0.2).values()
    del cluster
    gc.collect()
    assert client() is not None
    with pytest.raises(KafkaException):
        future.result(END_S)
    KafkaCluster("127.0.0.1:1", LogOptions()).describe_soon([PAGES], 0.2)
    gc.collect()
    assert client() is None


def test_a_forked_process_asks_and_frees_no_client_of_its_parent() -> None:
    cluster = KafkaCluster("127.0.0.1:1", LogOptions())
    [future] = cluster.describe_soon([PAGES], 0.2).values()
    with pytest.raises(KafkaException):
        future.result(END_S)
    del cluster
    assert forked(lambda: KafkaCluster("127.0.0.1:1", LogOptions()).describe_soon([PAGES], 0.2)) == 0


class Broker:
    """Answers questions for offsets, in turn, with the given offset of each partition."""

    def __init__(self, *answers: dict[int, int]) -> None:
        self.answers = list(answers)

    def poll(self, timeout: float) -> int:
        """See AdminClient."""
        return 0

    def list_offsets(self, partitions: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        """See AdminClient."""
        answer = self.answers.pop(0)
        futures: dict[Any, Future[Any]] = {where: Future() for where in partitions}
        for where, future in futures.items():
            future.set_result(SimpleNamespace(offset=answer[where.partition]))
        return futures


def test_an_offset_that_a_broker_does_not_know_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_cluster, "PAUSE_S", 0.01)
    broker, cluster = Broker({0: 7, 1: NO_OFFSET}, {0: 7, 1: 9}), KafkaCluster("127.0.0.1:1", LogOptions())
    monkeypatch.setattr(cluster, "admin", lambda: broker)
    assert cluster.offsets_of("pages", range(2), "end") == {0: 7, 1: 9}
    assert not broker.answers


def test_a_ctrl_c_that_the_client_hid_stays_one() -> None:
    def ask(patience: float) -> None:
        raise SystemError("describe_configs returned a result with an exception set") from KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        KafkaCluster("127.0.0.1:1", LogOptions()).ask(ask)


def test_another_error_within_the_client_is_told() -> None:
    def ask(patience: float) -> None:
        raise SystemError("error return without exception set")

    with pytest.raises(SystemError, match="without exception"):
        KafkaCluster("127.0.0.1:1", LogOptions()).ask(ask)
