"""Asks a schema registry in a thread of its own, again and again until it answers, while a role's loop goes on."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from simstream.errors import RegistryFailed
from simstream.processors import call_in_daemon
from simstream.registry.client import TIMEOUT_S
from simstream.telemetry.metrics import Metrics

MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 5.0
"""Seconds between a failed request and the next one: twice as many after each failure."""
SILENT_S = 2 * TIMEOUT_S
"""Seconds without an answer that count as a failure. A request has no end of its own while bytes trickle in."""
_T = TypeVar("_T")


class RegistryInquiry(ABC):
    """One piece of work in a thread of its own. A subclass says in `work` what it asks for."""

    def __init__(self, url: str, metrics: Metrics) -> None:
        """Start the thread; the attributes that `work` needs must be there."""
        self.began = self.progress_at = time.monotonic()
        self.metrics = metrics
        self.stop = threading.Event()
        self.url = url
        self._failure: RegistryFailed | None = None
        # A daemon: a registry that answers one byte at a time must not keep the process from ending.
        self.outcome = call_in_daemon(self.work, "schemas")

    @abstractmethod
    def work(self) -> None:
        """Ask for everything, in the thread. An error that it raises ends the thread."""

    @property
    def silent_s(self) -> float:
        """Seconds since the last answer, or since the start before the first one."""
        return time.monotonic() - self.progress_at

    @property
    def failure(self) -> RegistryFailed | None:
        """What the registry did instead of answering."""
        silent_s = self.silent_s
        if self._failure is not None or silent_s < SILENT_S or self.outcome.done():
            return self._failure
        what = f"the schema registry {self.url} has not answered for {silent_s:.0f} s"
        return RegistryFailed(what, "see whether it runs, and check [registry]")

    def cancel(self) -> None:
        """End after the current request."""
        self.stop.set()

    def insist(self, request: Callable[[], _T]) -> _T | None:
        """Return the answer to a request, for `work`. After a failure it is sent again. None if cancelled."""
        pause_s = MIN_PAUSE_S
        while not self.stop.is_set():
            try:
                answer = request()
            except RegistryFailed as failure:
                self._failure = failure
                self.metrics.registry_requests.labels("failed").inc()
                self.stop.wait(pause_s)
                pause_s = min(MAX_PAUSE_S, 2 * pause_s)
                continue
            self._failure, self.progress_at = None, time.monotonic()
            return answer
        return None
