"""Holds back Ctrl-C while something must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Raise a KeyboardInterrupt that comes within only at the end. Keep the work within short.

    Does nothing outside of the main thread, or if the program handles SIGINT by itself. Cost: some 2 us.
    """
    if threading.current_thread() is not threading.main_thread() or not _is_default():
        yield
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if held:
            raise KeyboardInterrupt


def _is_default() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler
