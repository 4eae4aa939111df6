"""Limits the pages under way: callers wait in line until there is room."""

from __future__ import annotations

import copy
import threading
from collections import deque
from concurrent.futures import Future

from simstream.errors import SimstreamError


class PageRoom:
    """Places, given out in the order in which they were asked for. Safe between threads.

    A signal's handler may call it in the middle of another call of the same thread.
    """

    def __init__(self, size: int) -> None:
        self._lock = threading.RLock()
        self._free = size
        self._line: deque[Future[None]] = deque()
        self._closed: SimstreamError | None = None

    def enter(self) -> Future[None]:
        """Return a future that is done once there is a place. A caller that stops waiting calls `withdraw`."""
        place: Future[None] = Future()
        with self._lock:  # without calls, as in PendingPages.add
            error, is_free = self._closed, self._free > 0
            if error is None and is_free:
                self._free -= 1
            elif error is None:
                self._line += (place,)
        if error is not None:
            place.set_exception(copy.copy(error))
        elif is_free:
            place.set_result(None)
        return place

    def leave(self) -> None:
        """Give a place back: the first in line gets it."""
        with self._lock:
            while self._line:
                first = self._line.popleft()
                if first.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        first.set_result(None)

    def withdraw(self, place: Future[None]) -> None:
        """Stop waiting for a place. If the place was given in the meantime, give it back."""
        with self._lock:
            if place in self._line:
                self._line.remove(place)
                place.cancel()
                return
        if not place.cancelled() and place.exception() is None:
            self.leave()

    def close(self, error: SimstreamError) -> None:
        """Give out no further place, and complete the waiting futures with this error."""
        with self._lock:
            self._closed, line = error, list(self._line)
            self._line.clear()
        for place in line:
            if place.set_running_or_notify_cancel():
                place.set_exception(copy.copy(error))  # each caller adds to the traceback of its own
