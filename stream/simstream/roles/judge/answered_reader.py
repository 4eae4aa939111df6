"""Reads the frames of the log that all shards have answered, for a judge whose index is on matchers."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import Final

from simstream.errors import TopicUnfit
from simstream.judge.answer_book import AnswerBook, AnswerIssue, few_shards
from simstream.log.base import Reader
from simstream.log.options import MATCHES
from simstream.model import Record
from simstream.telemetry.metrics import Metrics

MAX_WAITING_FRAMES: Final = 512
"""Frames that wait for their answers."""
MAX_WAITING_BYTES: Final = 16 << 20
MAX_ANSWER_BYTES: Final = 64 << 20
"""Bytes of answers of all shards that wait for their frames, or for the answers of others. A shard beyond its share
is paused."""
MIN_SHARE_BYTES: Final = 1 << 20
ANSWERS_A_POLL: Final = 1_000
STEP_S: Final = 0.05
"""Seconds that one poll waits for answers, while frames wait for them."""
SLOW_S: Final = 3.0
"""Seconds that a frame may wait for its answers before the judge says so."""
MEASURE_EVERY_S: Final = 1.0
"""Seconds between two measurements of all shards, which take .5 ms at 256 shards."""
_logger = logging.getLogger("simstream.judge")


def more_shards(shards: int) -> TopicUnfit:
    """Return the error for partitions that were added to the topic of answers."""
    return TopicUnfit(
        f"the topic {MATCHES} had {shards} partitions at the start, and has more now",
        "bring up the new number of shards under another --matches: the shards of a topic cannot change",
    )


class AnsweredReader(Reader):
    """Returns a frame once every shard has answered it; the answers are in the book then."""

    def __init__(self, frames: Reader, answers: Reader, book: AnswerBook, metrics: Metrics) -> None:
        self._frames, self._answers, self._book, self._metrics = frames, answers, book, metrics
        self._waiting: deque[Record] = deque()
        self._bytes = 0
        self._next = book.answered
        """The frame that is returned next."""
        self._since = 0.0
        """When the first waiting frame began to wait."""
        self._paused: set[int] = set()
        """Shards that are not read now, as they are far ahead."""
        self._named: set[tuple[int, AnswerIssue]] = set()
        self._next_measure = 0.0

    def poll(self, limit: int, timeout: float) -> list[Record]:
        end = time.monotonic() + timeout
        while True:
            left = max(0.0, end - time.monotonic())
            self._read_frames(limit, left)
            self._read_answers(min(left, STEP_S))
            ready = self._take(limit)
            if ready or time.monotonic() >= end:
                return ready

    def caught_up(self) -> bool:
        """See Reader. Frames without answers are not yet returned."""
        return self._frames.caught_up() and not self._waiting

    def passed(self, ends: Mapping[int, int]) -> bool:
        return self._frames.passed(ends) and not self._waiting

    def pause(self, partitions: Collection[int]) -> None:
        self._frames.pause(partitions)

    def answers(self) -> bool:
        frames, answers = self._frames.answers(), self._answers.answers()
        return frames and answers

    def held_back(self) -> str:
        """Say which shards have not answered the next frame for SLOW_S; empty without one."""
        if not self._waiting or time.monotonic() - self._since < SLOW_S:
            return ""
        return f"frame {self._waiting[0].offset} waits for the answer of shard {few_shards(self._book.missing())}"

    def close(self) -> None:
        self._frames.close()
        self._answers.close()

    def _read_frames(self, limit: int, timeout: float) -> None:
        room = min(limit, MAX_WAITING_FRAMES - len(self._waiting))
        if room <= 0 or self._bytes >= MAX_WAITING_BYTES:
            return
        records = self._frames.poll(room, 0.0 if self._waiting else timeout)
        if records and not self._waiting:
            self._since = time.monotonic()
        self._waiting.extend(records)
        self._bytes += sum(len(record.value or b"") for record in records)

    def _read_answers(self, timeout: float) -> None:
        """Take what the shards have written, and wait for it only if a frame waits."""
        book = self._book
        waits = bool(self._waiting) and book.answered <= self._waiting[0].offset
        for record in self._answers.poll(ANSWERS_A_POLL, timeout if waits else 0.0):
            if record.partition >= book.shards:
                raise more_shards(book.shards)
            issue = book.add(record.partition, record.offset, record.value or b"")
            if issue is None:
                self._metrics.answers.inc()
            else:
                self._ignore(record, issue)
        share = max(MIN_SHARE_BYTES, MAX_ANSWER_BYTES // book.shards)
        self._paused = book.ahead(share, self._next, self._paused)
        self._answers.pause(self._paused)

    def _take(self, limit: int) -> list[Record]:
        ready: list[Record] = []
        answered = self._book.answered
        while self._waiting and len(ready) < limit and self._waiting[0].offset < answered:
            ready.append(self._waiting.popleft())
        if ready:
            self._next = ready[-1].offset + 1
            self._since = time.monotonic()
            self._bytes -= sum(len(record.value or b"") for record in ready)
        self._measure()
        return ready

    def _measure(self) -> None:
        """Set, at most once in MEASURE_EVERY_S, how far the shards are behind the frames that were read."""
        now = time.monotonic()
        if now < self._next_measure:
            return
        self._next_measure = now + MEASURE_EVERY_S
        end = self._waiting[-1].offset + 1 if self._waiting else self._next
        for shard, frame in enumerate(self._book.frames):
            self._metrics.shard_lag.labels(shard).set(max(0, end - frame))

    def _ignore(self, record: Record, issue: AnswerIssue) -> None:
        self._metrics.answers_ignored.labels(issue.value).inc()
        if issue is AnswerIssue.REPEATED or (record.partition, issue) in self._named:
            return
        self._named.add((record.partition, issue))
        _logger.warning(
            "answer %d of shard %d was ignored: %s; it is named once, the metric counts all",
            record.offset,
            record.partition,
            issue.value,
            extra={"shard": record.partition, "offset": record.offset, "reason": issue.value},
        )
