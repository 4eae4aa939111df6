"""A lock for a state that one thread changes and others read, so that no thread waits for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TurnLock:
    """A fair lock: a call returns a context that one thread at a time enters, and a waiting thread comes next.

    So a loop of turns, such as a judge's over frames, lets other threads in between. A plain lock does not: the
    thread that releases it mostly gets it again.
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
