"""Runs both clients: one thread sends pages, another thread listens for verdicts."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import Any

from simstream.client.connecting import ServiceConnection
from simstream.client.pages import Submitted, sendable
from simstream.client.pending import PendingPage, PendingPages
from simstream.client.room import PageRoom, RoomPlace
from simstream.client.sending import Sender
from simstream.closing import Closing
from simstream.errors import BrokerUnreachable, ClientClosed, ClientFull, SimstreamError, UsageError
from simstream.interrupts import interrupts_held
from simstream.log import open_log, options_of
from simstream.log.base import Log, Reader
from simstream.model import Verdict
from simstream.settings import Settings, refuse_paths, resolve

logger = logging.getLogger("simstream.client")
PATIENCE_S = 15.0
"""Seconds to wait for a broker that does not answer."""
MAX_CLOSE_S = 10.0
"""The most seconds that closing a client takes."""
MAX_FLUSH_S = MAX_CLOSE_S - 2.0
"""The part of MAX_CLOSE_S for acknowledgements; the rest is for threads to end."""
LISTEN_S = 0.25
"""Seconds of one wait for verdicts. Then the thread checks whether to stop."""
LOOK_EVERY_S = 0.05
"""Seconds between two looks for futures whose time is over."""
_NUMBERS = (float, int, Real)  # the quickest to tell first


def settings_of(config: str | None, *, log: str | Path | None, **given: str | None) -> Settings:
    """Return a client's settings. Variables, then the file, fill in what is None."""
    settings = resolve({"log": None if log is None else str(log)} | given, file=config).settings
    refuse_paths(settings, "a client")
    return settings


def log_of(settings: Settings, timeout: float) -> Log:
    """Return the log that the settings name.

    `timeout`: seconds for connecting. One question to the log has a little less, so that its own error comes first.
    """
    return open_log(settings.log, options_of(settings, min(PATIENCE_S, 0.9 * timeout)))


def check_limits(in_flight: Any, timeout: float) -> None:
    """Raise UsageError unless both are numbers above 0, and `in_flight` is a whole one."""
    if not isinstance(in_flight, Integral) or in_flight < 1:
        raise UsageError(f"in_flight is {in_flight!r}", "give a whole number, 1 or more")
    if checked_seconds("timeout", timeout) <= 0:
        raise UsageError(f"timeout is {timeout!r}", "give more than 0 seconds")


def checked_seconds(name: str, seconds: float) -> float:
    """Return the seconds. Raises UsageError if they are no number."""
    if not isinstance(seconds, _NUMBERS) or seconds != seconds:
        raise UsageError(f"{name} is {seconds!r}", "give a number of seconds; float('inf') is for ever")
    return seconds


class Traffic(Closing):
    """Carries pages to the service and verdicts back. Safe between threads.

    One reader serves all pages. It begins at the end of `verdicts`, before the first page can be sent.
    """

    def __init__(self, log: Log, connection: ServiceConnection, in_flight: int, timeout: float) -> None:
        """Take over a connection to the log. At most `in_flight` pages are on their way at once.

        `timeout` is in seconds, by default for each verdict.
        """
        self._log = log
        self._process = os.getpid()
        self._timeout = timeout
        self._in_flight = in_flight
        self.room = PageRoom(in_flight)
        self._reader: Reader = connection.verdicts
        self._pending = PendingPages(connection.pages, self.room.leave)
        self._sender = Sender(log, connection.appender, self._pending)
        self._away = False
        self.ended = False
        """Whether an error has ended it for good, such as a topic that was created again."""
        self._stops = False
        self._threads = [
            self._thread(self._sender.run, "simstream-send"),
            self._thread(self._listen, "simstream-listen"),
        ]
        atexit.register(self.close)

    @property
    def _is_inherited(self) -> bool:
        """Whether this process got the client by a fork. Its threads are those of the process that made it."""
        return os.getpid() != self._process

    def enter(self, place: RoomPlace) -> None:
        """Give a page this place, or put it in line. Raises UsageError in a forked process, and the client's last
        error."""
        if self._is_inherited:
            raise UsageError("this client belongs to another process", "make one in this process")
        self.room.enter(place)

    def make_full_error(self, seconds: float) -> ClientFull:
        """Return the error for a page that got no place within `seconds`."""
        return ClientFull(
            f"{self._in_flight} pages are on their way, and none made room within {seconds:g} s",
            "wait for verdicts before you submit more, and check with `simstream status` that the service runs",
        )

    def send(
        self,
        place: RoomPlace,
        page: Submitted,
        timeout: float | None,
        headers: Mapping[str, str | bytes] = MappingProxyType({}),
    ) -> Future[Verdict]:
        """Send a page that has this place, and return the future of its verdict.

        The place is given back once the page is done. If this call raises, the caller gives it back.
        """
        seconds = self._timeout if timeout is None else checked_seconds("timeout", timeout)
        entry = PendingPage(sendable(page, headers), time.monotonic() + seconds, place)
        self._pending.add(entry)
        self._sender.put(entry)
        return entry.future

    def is_own_thread(self) -> bool:
        """Whether a callback calls. It must not wait for room, since only its own thread can make room."""
        return threading.current_thread() in self._threads

    def close(self) -> None:
        """Write the submitted pages, then complete every remaining future with ClientClosed.

        Takes at most MAX_CLOSE_S seconds, even if no broker answers. A thread that still waits for the broker then
        ends by itself, and keeps no program alive. In a forked process, do nothing. After Ctrl-C the futures are
        complete; the end of the process then waits for the pages.
        """
        if self._is_inherited:
            return
        end = time.monotonic() + MAX_CLOSE_S
        error = ClientClosed("the client was closed", "wait for the verdicts before you close it")
        try:
            self.room.close(error)
            self._sender.stop(MAX_FLUSH_S)
            self._join(self._threads[0], end - 1.0)
            self._stops = True
            self._join(self._threads[1], end)
            atexit.unregister(self.close)
        finally:
            self._stops = True
            self._sender.stop(MAX_FLUSH_S)
            with interrupts_held(every=True):
                self._pending.close(error)
            self._log.close()

    def _join(self, thread: threading.Thread, end: float) -> None:
        if thread is not threading.current_thread():
            thread.join(max(0.0, end - time.monotonic()))

    def _listen(self) -> None:
        with closing(self._reader):
            look_at = 0.0
            while not self._stops:
                self._hear(min(LISTEN_S, max(0.0, look_at - time.monotonic())))
                now = time.monotonic()
                if now >= look_at:
                    look_at = now + min(LISTEN_S, max(LOOK_EVERY_S, self._pending.expire()))

    def _hear(self, timeout: float) -> None:
        """Take the verdicts that come within `timeout` seconds.

        If no broker answers, wait: each page has a time limit of its own.
        """
        try:
            records = self._reader.poll(1_000, timeout)
        except BrokerUnreachable as error:
            if not self._away:
                logger.warning("%s", error)
            self._away = True
            time.sleep(LISTEN_S)
            return
        self._away = False
        for record in records:
            self._pending.take_verdict(record)

    def _thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        """Start a thread that keeps no program alive. A program that forgets to close the client can still end."""
        thread = threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
        thread.start()
        return thread

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do the work of a thread. An error that ends it ends the client, so that no caller waits for ever."""
        try:
            work()
        except SimstreamError as error:
            self._end(error)
        except Exception as error:
            logger.exception("the client failed")
            self._end(
                ClientClosed(
                    f"the client failed ({type(error).__name__}: {error})",
                    "make a new client, and report this error",
                )
            )

    def _end(self, error: SimstreamError) -> None:
        self.ended = True
        self.room.close(error)
        self._pending.close(error)
