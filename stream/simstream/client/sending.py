"""Appends pages in a thread of its own: batch after batch, each acknowledged before the next."""

from __future__ import annotations

import contextlib
import queue
import time

from simstream.client.pending import PendingPage, PendingPages
from simstream.errors import ClientClosed, LogError, RecordTooLarge
from simstream.log.base import Appender, Log
from simstream.log.options import PAGES

STEP_S = 0.1
"""Seconds of one wait for acknowledgements. Then the sender checks whether to stop."""


class Sender:
    """Appends pages in the order of `put`. The future of a page that cannot be written gets the error.

    After a failed delivery the next batch begins with a new appender.
    """

    def __init__(self, log: Log, appender: Appender, pending: PendingPages) -> None:
        self._log = log
        self._pending = pending
        self._queue: queue.SimpleQueue[PendingPage | None] = queue.SimpleQueue()
        self._appender: Appender | None = appender
        self._unsure: dict[int, PendingPage] = {}
        self._stop_at: float | None = None

    def put(self, entry: PendingPage) -> None:
        """Queue a page. The caller limits how many wait."""
        self._queue.put(entry)

    def stop(self, patience: float) -> None:
        """Let `run` end once all earlier pages are written, or once `patience` seconds are over. May be called
        twice.

        A broker's answer that `run` already waits for may take longer.
        """
        self._stop_at = self._stop_at or time.monotonic() + patience
        self._queue.put(None)

    def run(self) -> None:
        """Append pages until `stop`."""
        try:
            more = True
            while more:
                more = self._append_batch()
                self._settle()
        finally:
            if self._appender is not None:
                self._appender.discard()

    def _append_batch(self) -> bool:
        """Wait for a page, and append all waiting pages. Return False at the end."""
        entry = self._queue.get()
        while entry is not None:
            self._append(entry)
            try:
                entry = self._queue.get_nowait()
            except queue.Empty:
                return True
        return False

    def _append(self, entry: PendingPage) -> None:
        page = entry.page
        try:
            number = self._usable().append(
                page.value,
                page.key,
                page.headers,
                placed=lambda partition, offset: self._pending.note_written(entry, partition, offset),
            )
        except RecordTooLarge as error:
            self._pending.fail(entry, error)
        except (LogError, ClientClosed) as error:
            self._pending.fail(entry, error)
            self._give_up(error)
        else:
            self._unsure[number] = entry

    def _usable(self) -> Appender:
        """Return the appender, or a new one. Raises LogError, ClientClosed.

        If no new appender can be made, all waiting pages fail at once: none asks the broker again.
        """
        if self._is_over():
            raise _closed()
        if self._appender is None:
            try:
                self._appender = self._log.open_appender(PAGES)
            except LogError as error:
                self._fail_waiting(error)
                raise
        return self._appender

    def _fail_waiting(self, error: LogError) -> None:
        with contextlib.suppress(queue.Empty):
            while (entry := self._queue.get_nowait()) is not None:
                self._pending.fail(entry, error)
            self._queue.put(None)

    def _is_over(self) -> bool:
        return self._stop_at is not None and time.monotonic() > self._stop_at

    def _settle(self) -> None:
        """Wait until all appended pages are acknowledged or refused."""
        while self._unsure and self._appender is not None:
            try:
                done = self._appender.flush(STEP_S)
            except RecordTooLarge as error:
                refused = self._unsure.pop(error.number or 0, None)
                if refused is not None:
                    self._pending.fail(refused, error)
                continue
            except LogError as error:
                self._give_up(error)
                return
            for number in [number for number in self._unsure if number <= done]:
                del self._unsure[number]
            if self._unsure and self._is_over():
                self._give_up(_closed())

    def _give_up(self, error: LogError | ClientClosed) -> None:
        """Fail all pages that are not acknowledged, and drop the appender."""
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.discard()
        unsure, self._unsure = self._unsure, {}
        for entry in unsure.values():
            self._pending.fail(entry, error)


def _closed() -> ClientClosed:
    return ClientClosed("the client was closed before the page was written", "submit it again")
