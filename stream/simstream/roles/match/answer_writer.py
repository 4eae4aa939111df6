"""Writes the answers of all shards of one process to `matches`, and writes them again after a failed delivery."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Final

from simstream.closing import Closing
from simstream.errors import DeliveryFailed, DiskFull
from simstream.log.base import Appender, Log
from simstream.log.options import MATCHES

PAUSE_S: Final = 1.0
"""Seconds between two tries to write the answers again."""
_logger = logging.getLogger("simstream.match")


class AnswerWriter(Closing):
    """Appends answers from any thread. If too many are in flight, `write` waits: the appender bounds them.

    While the log takes no answers, as on a full disk, `write` only keeps them, up to `max_ahead` frames.
    """

    _failure = ""
    """Why the log has refused answers; empty if it takes them."""
    _is_full = False
    """Whether `write` waits for room in the appender's queue."""

    def __init__(self, log: Log, give_up_s: float = 0.0) -> None:
        """Open an appender. Raises TopicMissing, BrokerUnreachable; LogLocked on a second writer of a local log.

        If the log takes no answers for `give_up_s` seconds, `settle` raises the error.
        """
        self._log = log
        self._give_up_s = give_up_s
        self._failing_since: float | None = None
        self._next_try = 0.0
        self._lock = threading.Lock()
        self._appender = self._open()
        self._in_flight: deque[tuple[int, bytes]] = deque()
        """The answers that are not yet acknowledged, with their shards."""
        self._acknowledged = 0
        """How many answers of this appender are acknowledged."""

    @property
    def obstacle(self) -> str:
        """Why the log takes no answers; empty if it takes them."""
        return self._failure or ("its queue is full" if self._is_full else "")

    def write(self, shard: int, answer: bytes) -> None:
        """Append an answer to the shard's partition."""
        with self._lock:
            self._in_flight.append((shard, answer))
            if self._failure:
                return  # `settle` writes it after the others
            try:
                self._append(shard, answer)
            except DeliveryFailed as error:
                self._failure = error.what
                self._rewrite()

    def settle(self) -> None:
        """Forget what is acknowledged by now. Call it at least every few seconds.

        If there is an `obstacle`, write again what failed. This may take minutes while no broker answers. While
        another thread writes, do nothing: `write` does the same.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def close(self) -> None:
        """See Closing. Waits for the answers in flight."""
        self._appender.close()

    def _open(self) -> Appender:
        appender = self._log.open_appender(MATCHES)
        appender.waiting = self._note_full
        return appender

    def _note_full(self) -> None:
        self._is_full = True

    def _append(self, shard: int, answer: bytes) -> None:
        try:
            self._appender.append(answer, partition=shard)
        finally:
            self._is_full = False
        self._forget()  # so that a later failure does not write it once more

    def _settle(self) -> None:
        if self._failure:
            if time.monotonic() >= self._next_try:
                self._rewrite()
            return
        try:
            self._forget()
        except DeliveryFailed as error:
            self._failure = error.what  # the next call writes again: by then the caller can tell why it may wait

    def _forget(self) -> None:
        done = self._appender.acknowledged()
        for _ in range(done - self._acknowledged):
            self._in_flight.popleft()
        self._acknowledged = done

    def _rewrite(self) -> None:
        """Write all answers in flight again; the judge drops repeated answers. If this fails, `settle` does it."""
        self._appender.discard()
        try:
            self._appender, self._acknowledged = self._open(), 0
            for shard, answer in list(self._in_flight):
                self._append(shard, answer)
        except (DeliveryFailed, DiskFull) as error:
            self._note_failure(error)
        else:
            self._failure, self._failing_since = "", None

    def _note_failure(self, error: DeliveryFailed | DiskFull) -> None:
        """Note that the log takes no answers. After `give_up_s` seconds raise the error."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            _logger.warning("%s; trying again", error.what)
        elif now - self._failing_since > self._give_up_s:
            raise error
        self._failure, self._next_try = error.what, now + PAUSE_S
