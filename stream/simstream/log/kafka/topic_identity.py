"""Checks beside the work that topics were not recreated and that a broker answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from simstream.errors import BrokerUnreachable, TopicRecreated
from simstream.log.kafka.cluster import MAX_SILENCE_S, PAUSE_S, KafkaCluster

CHECK_EVERY_S = 3.0
"""Seconds between two checks of the topics' ids."""


class KafkaTopicIdentity:
    """Watches whether a broker answers, and whether the topics still have the ids of the start. Never waits."""

    def __init__(self, cluster: KafkaCluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._topics = topics
        self.infos = cluster.describe(topics)
        """The topics as of the last answer. Their number of partitions may grow."""
        self.away = False
        """Whether the last request got no answer within the log's patience."""
        self._no_news_since: float | None = None
        self._asked: dict[str, Future[Any]] = {}
        self._asked_at = 0.0
        self._next = time.monotonic() + CHECK_EVERY_S

    def check(self) -> None:
        """Raise TopicRecreated, TopicMissing or, until a broker answers again, BrokerUnreachable.

        It asks every few seconds, as the client's own reports of lost connections are too rare.
        """
        now = time.monotonic()
        if self._asked and all(future.done() for future in self._asked.values()):
            asked, self._asked = self._asked, {}
            self._next = now + CHECK_EVERY_S
            self._compare(asked, self._asked_at)
        if not self._asked and (self.away or now >= self._next):
            self._asked = self._cluster.describe_soon(self._topics)
            self._asked_at = now
        if self.away:
            raise self._cluster.unreachable()

    def answers(self) -> bool:
        """Whether a broker answered the last request, or still has time to answer."""
        waiting = self._asked and not all(future.done() for future in self._asked.values())
        return not self.away and not (waiting and time.monotonic() - self._asked_at > MAX_SILENCE_S)

    def check_now(self) -> None:
        """Raise TopicRecreated or TopicMissing, waiting for the answer."""
        began = time.monotonic()
        self._compare(self._cluster.describe_soon(self._topics), began)

    def _compare(self, futures: Mapping[str, Future[Any]], asked_at: float) -> None:
        """Compare the ids. A broker that is not ready for the log's patience counts as away."""
        for topic, future in futures.items():
            try:
                found = self._cluster.read_description(topic, future)
            except BrokerUnreachable:
                now = time.monotonic()
                self._no_news_since = asked_at if self._no_news_since is None else self._no_news_since
                self.away = now - self._no_news_since >= 0.9 * self._cluster.options.patience
                self._next = now + PAUSE_S
                return
            if found.id != self.infos[topic].id:
                raise TopicRecreated(
                    f"{found.name} was deleted and created again while it was in use",
                    "start this process again: it then begins with the new topic",
                )
            self.infos[topic] = found
        self.away, self._no_news_since = False, None
