"""Shares a state between the thread that changes it and threads that read it, in turns."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

MAX_BEFORE = 8
"""The thread that comes ahead waits for at most so many waiting threads, and for the one whose turn it is."""


class TurnLock:
    """A fair lock: a call returns a context, and one thread at a time enters such a context, in turn.

    A judge's loop takes a turn for each batch of frames. A plain lock would let no other thread in between two
    turns, since the thread that releases it mostly gets it again. Many threads may wait. So that the loop does not
    wait for all of them, it comes `ahead` of all but the first `MAX_BEFORE`. For threads that get no signals: an
    exception while a thread waits would lock it for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()
        """One held lock for each waiting thread, released when its turn begins."""

    @contextmanager
    def __call__(self, *, ahead: bool = False) -> Iterator[None]:
        """Return the context of one turn. Only one thread may come `ahead`."""
        self._take(ahead)
        try:
            yield
        finally:
            self._pass_on()

    def _take(self, ahead: bool) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.insert(MAX_BEFORE if ahead else len(self._waiting), mine)
        mine.acquire()

    def _pass_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
