"""Writes the answers of all shards of one process to `matches`, and writes them again after a failed delivery."""

from __future__ import annotations

import threading
from collections import deque

from simstream.closing import Closing
from simstream.errors import DeliveryFailed
from simstream.log.base import Log
from simstream.log.options import MATCHES


class AnswerWriter(Closing):
    """Appends answers from any thread. If too many are in flight, `write` waits: the appender bounds them."""

    def __init__(self, log: Log) -> None:
        """Open an appender. Raises TopicMissing, BrokerUnreachable; LogLocked on a second writer of a local log."""
        self._log = log
        self._lock = threading.Lock()
        self._appender = log.open_appender(MATCHES)
        self._in_flight: deque[tuple[int, bytes]] = deque()
        """The answers that are not yet acknowledged, with their shards."""
        self._acknowledged = 0
        """How many answers of this appender are acknowledged."""

    def write(self, shard: int, answer: bytes) -> None:
        """Append an answer to the shard's partition."""
        with self._lock:
            self._in_flight.append((shard, answer))
            try:
                self._appender.append(answer, partition=shard)
                self._forget()
            except DeliveryFailed:
                self._rewrite()

    def settle(self) -> None:
        """Forget what is acknowledged by now. Call it at least every few seconds."""
        with self._lock:
            try:
                self._forget()
            except DeliveryFailed:
                self._rewrite()

    def close(self) -> None:
        """See Closing. Waits for the answers in flight."""
        self._appender.close()

    def _forget(self) -> None:
        done = self._appender.acknowledged()
        for _ in range(done - self._acknowledged):
            self._in_flight.popleft()
        self._acknowledged = done

    def _rewrite(self) -> None:
        """Write all answers in flight again; the judge drops repeated answers."""
        self._appender.discard()
        self._appender, self._acknowledged = self._log.open_appender(MATCHES), 0
        for shard, answer in self._in_flight:
            self._appender.append(answer, partition=shard)
