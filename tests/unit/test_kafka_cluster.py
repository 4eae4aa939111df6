"""A question to the brokers ends in its time, even if the Kafka client itself never ends it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaException

from simstream.log.base import LogOptions
from simstream.log.kafka import cluster as kafka_cluster
from simstream.log.kafka.cluster import KafkaCluster

END_S = 30.0


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
    with pytest.raises(KafkaException, match="did not end a question in time"):
        KafkaCluster("127.0.0.1:1", LogOptions()).answer(UnansweredQuestion(), 0.1)
