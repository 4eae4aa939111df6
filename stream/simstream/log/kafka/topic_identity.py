"""Checks beside the work that topics were not recreated and that a broker answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from simstream.errors import BrokerUnreachable, TopicMissing, TopicRecreated
from simstream.log.base import TopicInfo
from simstream.log.kafka.cluster import GRACE_S, MAX_SILENCE_S, PAUSE_S, TRY_S, KafkaCluster

CHECK_EVERY_S = 3.0
"""Seconds between two checks of the topics' ids."""
MISSING_S = 2.0
"""Seconds for which brokers may deny a topic: one that has just started may not know it yet (KAFKA-5269)."""


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
        self._missing_since: float | None = None
        """When a broker first denied that a topic exists; None since the last other answer."""
        self._asked: dict[str, Future[Any]] = {}
        self._asked_at = 0.0
        self._next = time.monotonic() + CHECK_EVERY_S

    def check(self) -> None:
        """Raise TopicRecreated, TopicMissing or, until a broker answers again, BrokerUnreachable.

        A topic is missing if brokers deny it again after MISSING_S. It asks every few seconds, as the client's own
        reports of lost connections are too rare.
        """
        now = time.monotonic()
        if self._asked and all(future.done() for future in self._asked.values()):
            asked, self._asked = self._asked, {}
            self._next = now + CHECK_EVERY_S
            self._look(partial(self._cluster.read_descriptions, asked), self._asked_at)
        elif self._asked and now - self._asked_at > TRY_S + GRACE_S:  # the client has not ended it in time
            self._asked = {}
            self._note_silence(self._asked_at)
        if not self._asked and (self.away or now >= self._next):
            self._asked = self._cluster.describe_soon(self._topics)
            self._asked_at = now
        if (since := self._silent_since()) is not None:
            self._cluster.say_silence(since)
        if self.away:
            raise self._cluster.unreachable()

    def answers(self) -> bool:
        """Whether a broker answered the last request, or still has time to answer."""
        since = self._silent_since()
        return not self.away and (since is None or time.monotonic() - since <= MAX_SILENCE_S)

    def check_now(self) -> None:
        """Raise TopicRecreated or TopicMissing, waiting for the answer."""
        self._look(partial(self._cluster.describe, self._topics), time.monotonic())
        while self._missing_since is not None:
            time.sleep(PAUSE_S)
            self._look(partial(self._cluster.describe, self._topics), time.monotonic())

    def _silent_since(self) -> float | None:
        """Return the time of the first question that has no answer yet; None if all have."""
        since = self._no_news_since  # a question that ended without an answer and was asked again is one silence
        if since is None and self._asked and not all(future.done() for future in self._asked.values()):
            since = self._asked_at
        return since

    def _note_silence(self, asked_at: float) -> None:
        """Note a question without an answer. A broker that is not ready for the log's patience counts as away.

        A question has its time. If it ends much later, this process was stopped meanwhile, or did not look.
        """
        now = time.monotonic()
        if self._no_news_since is None:
            self._no_news_since = max(asked_at, now - TRY_S - GRACE_S)
        self.away = now - self._no_news_since >= 0.9 * self._cluster.options.patience
        self._next = now + PAUSE_S

    def _look(self, answer: Callable[[], Mapping[str, TopicInfo]], asked_at: float) -> None:
        """Look at the `answer` to a question of this moment, or note that there is none."""
        try:
            infos = answer()
        except BrokerUnreachable:
            self._missing_since = None  # silence is no answer
            self._note_silence(asked_at)
        except TopicMissing:
            now = time.monotonic()
            if self._missing_since is None:
                self._missing_since = now
            elif now - self._missing_since >= MISSING_S:
                raise
            self.away, self._no_news_since, self._next = False, None, now + PAUSE_S
        else:
            self._compare(infos)

    def _compare(self, infos: Mapping[str, TopicInfo]) -> None:
        """Compare the ids with those of the start. Raises TopicRecreated."""
        for topic, found in infos.items():
            if found.id != self.infos[topic].id:
                raise TopicRecreated(
                    f"{found.name} was deleted and created again while it was in use",
                    "start this process again: it then begins with the new topic",
                )
            self.infos[topic] = found
        self.away, self._no_news_since, self._missing_since = False, None, None
