"""Limits the pages under way: callers wait in line until there is room."""

from __future__ import annotations

import copy
import threading
from collections import deque
from concurrent.futures import Future

from simstream.errors import SimstreamError


class RoomPlace:
    """A place for one page. Its maker withdraws it after any error: a signal's handler may raise one anywhere."""

    __slots__ = ("given", "is_held")

    def __init__(self) -> None:
        self.is_held = False
        """Whether it counts among the places that are taken."""
        self.given: Future[None] | None = None
        """Done once the place is given to a caller in line. None if there was room at once."""


class PageRoom:
    """Places, given out in the order in which they were asked for. Safe between threads.

    A signal's handler may call it in the middle of another call of the same thread.
    """

    def __init__(self, size: int) -> None:
        self._lock = threading.RLock()
        self._free = size
        self._line: deque[RoomPlace] = deque()
        self._closed: SimstreamError | None = None

    def enter(self, place: RoomPlace) -> RoomPlace:
        """Give this new place, or put it in line. A caller that does not wait until it is given calls `withdraw`.

        After `close`, raises the error that `close` got.
        """
        while True:
            with self._lock:  # without calls, as in PendingPages.add
                error, is_free = self._closed, self._free > 0
                if error is None and is_free:
                    self._free, place.is_held, place.given = self._free - 1, True, None
                elif error is None and place.given is not None:
                    self._line += (place,)
            if error is not None:
                raise copy.copy(error)
            if is_free or place.given is not None:
                return place
            place.given = Future()

    def leave(self, place: RoomPlace) -> None:
        """Give a place back, once: the first in line gets it."""
        with self._lock:
            if not place.is_held:
                return
            while self._line:
                first = self._line.popleft()
                if first.given is not None and first.given.set_running_or_notify_cancel():
                    place.is_held, first.is_held = False, True
                    break
            else:
                self._free, place.is_held = self._free + 1, False
                return
        first.given.set_result(None)

    def withdraw(self, place: RoomPlace) -> None:
        """Stop waiting for a place. If the place was given in the meantime, give it back. May be called twice."""
        if not place.is_held and place.given is None:
            return  # without the lock, which a forked process may have got as it was taken
        with self._lock:
            if place in self._line:
                self._line.remove(place)
                if place.given is not None:
                    place.given.cancel()
                return
        self.leave(place)

    def close(self, error: SimstreamError) -> None:
        """Give out no further place, and complete the waiting futures with this error."""
        with self._lock:
            self._closed, line = error, list(self._line)
            self._line.clear()
        for place in line:
            if place.given is not None and place.given.set_running_or_notify_cancel():
                place.given.set_exception(copy.copy(error))  # each caller adds to the traceback of its own
