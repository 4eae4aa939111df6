"""Shares a state between the thread that changes it and threads that read it: each waits for one turn at most."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TurnLock:
    """A fair lock: a call returns a context that one thread at a time enters, and a waiting thread comes next.

    A judge's loop takes a turn for each batch of frames, and lets other threads in between two turns. A plain lock
    would not: the thread that releases it mostly gets it again.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()
        """Held by the next thread in line."""
        self._own = threading.Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Return the context of one turn."""
        with self._next:
            self._own.acquire()
        try:
            yield
        finally:
            self._own.release()
