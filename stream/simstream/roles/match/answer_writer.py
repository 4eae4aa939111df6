"""Writes the answers of all shards of one process to `matches`, and writes them again after a failed delivery."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Final

from simstream.closing import Closing
from simstream.errors import DeliveryFailed, DiskFull
from simstream.log.base import Log
from simstream.log.options import MATCHES

PAUSE_S: Final = 1.0
"""Seconds between two tries to write the answers again."""
_logger = logging.getLogger("simstream.match")


class AnswerWriter(Closing):
    """Appends answers from any thread. If too many are in flight, `write` waits: the appender bounds them.

    While the log takes no answers, as on a full disk, `write` only keeps them, up to `max_ahead` frames.
    """

    obstacle = ""
    """Why the log takes no answers; empty if it takes them."""

    def __init__(self, log: Log, give_up_s: float = 0.0) -> None:
        """Open an appender. Raises TopicMissing, BrokerUnreachable; LogLocked on a second writer of a local log.

        If the log takes no answers for `give_up_s` seconds, `settle` raises the error.
        """
        self._log = log
        self._give_up_s = give_up_s
        self._failing_since: float | None = None
        self._next_try = 0.0
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
            if self.obstacle:
                return  # `settle` writes it after the others
            try:
                self._appender.append(answer, partition=shard)
                self._forget()
            except DeliveryFailed:
                self._rewrite()

    def settle(self) -> None:
        """Forget what is acknowledged by now, and write again what failed. Call it at least every few seconds."""
        with self._lock:
            if self.obstacle:
                if time.monotonic() >= self._next_try:
                    self._rewrite()
                return
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
        """Write all answers in flight again; the judge drops repeated answers. If this fails, `settle` does it."""
        self._appender.discard()
        try:
            self._appender, self._acknowledged = self._log.open_appender(MATCHES), 0
            for shard, answer in list(self._in_flight):
                self._appender.append(answer, partition=shard)
                self._forget()  # so that a later failure does not write it once more
        except (DeliveryFailed, DiskFull) as error:
            self._note_failure(error)
        else:
            self.obstacle, self._failing_since = "", None

    def _note_failure(self, error: DeliveryFailed | DiskFull) -> None:
        """Note that the log takes no answers. After `give_up_s` seconds raise the error."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            _logger.warning("%s; trying again", error.what)
        elif now - self._failing_since > self._give_up_s:
            raise error
        self.obstacle, self._next_try = error.what, now + PAUSE_S
