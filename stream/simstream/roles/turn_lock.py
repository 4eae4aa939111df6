"""A lock for a state that one thread changes and others read, so that no thread waits for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TurnLock:
    """Calling it gives a context in which nobody else is. Whoever waits comes next: a loop that takes turn after
    turn, as a judge does with frames, lets others in between.

    A plain lock does not: the thread that gives it back mostly gets it again.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()
        """Held by the one that waits for the other."""
        self._own = threading.Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """A turn."""
        with self._next:
            self._own.acquire()
        try:
            yield
        finally:
            self._own.release()
