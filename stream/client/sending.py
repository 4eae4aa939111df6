"""The thread that appends pages: batch after batch, each acknowledged before the next."""

from __future__ import annotations

import queue
import time

from stream.client.pending import Entry, Pending
from stream.errors import ClientClosed, LogError, RecordTooLarge
from stream.log.base import PAGES, Appender, Log

STEP = 0.1
"""Seconds of waiting for acknowledgements after which it is asked whether to stop."""


class Sender:
    """Appends what it is given, in order; what could not be written ends as failed.

    After a failed delivery the next batch begins with a new appender.
    """

    def __init__(self, log: Log, pending: Pending) -> None:
        """Raises TopicMissing, BrokerUnreachable, and on a local log LogLocked."""
        self._log = log
        self._pending = pending
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._appender: Appender | None = log.appender(PAGES)
        self._unsure: dict[int, Entry] = {}
        self._stop_at: float | None = None

    def put(self, entry: Entry) -> None:
        """Take a page; how many there are at most is the caller's affair."""
        self._queue.put(entry)

    def stop(self, patience: float) -> None:
        """Let `run` end once all that was put before is written, or `patience` seconds are over."""
        self._stop_at = time.monotonic() + patience
        self._queue.put(None)

    def run(self) -> None:
        """Work until `stop`."""
        try:
            more = True
            while more:
                more = self._append_batch()
                self._settle()
        finally:
            if self._appender is not None:
                self._appender.discard()

    def _append_batch(self) -> bool:
        """Append all that waits, at least one; False at the end."""
        entry = self._queue.get()
        while entry is not None:
            self._append(entry)
            try:
                entry = self._queue.get_nowait()
            except queue.Empty:
                return True
        return False

    def _append(self, entry: Entry) -> None:
        page = entry.page
        try:
            if self._appender is None:
                self._appender = self._log.appender(PAGES)
            number = self._appender.append(
                page.value,
                page.key,
                page.headers,
                placed=lambda partition, offset: self._pending.placed(entry, partition, offset),
            )
        except RecordTooLarge as error:
            self._pending.failed(entry, error)
        except LogError as error:
            self._pending.failed(entry, error)
            self._give_up(error)
        else:
            self._unsure[number] = entry

    def _settle(self) -> None:
        """Wait until all is acknowledged or refused."""
        while self._unsure and self._appender is not None:
            try:
                done = self._appender.flush(STEP)
            except RecordTooLarge as error:
                refused = self._unsure.pop(error.number or 0, None)
                if refused is not None:
                    self._pending.failed(refused, error)
                continue
            except LogError as error:
                self._give_up(error)
                return
            for number in [number for number in self._unsure if number <= done]:
                del self._unsure[number]
            if self._unsure and self._stop_at is not None and time.monotonic() > self._stop_at:
                self._give_up(ClientClosed("the client was closed before the page was written", "submit it again"))

    def _give_up(self, error: LogError | ClientClosed) -> None:
        """Fail what is not acknowledged, and drop the appender."""
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.discard()
        unsure, self._unsure = self._unsure, {}
        for entry in unsure.values():
            self._pending.failed(entry, error)
