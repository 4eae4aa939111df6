"""Holds back Ctrl-C and SIGTERM while something must not be left half done, and knows it where a library hid it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

PATIENCE: Final = 3
"""The signal of this number takes effect at once: the disk may hang."""
_INTERRUPTS: Final = signal.SIGINT, signal.SIGTERM


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Raise a KeyboardInterrupt that comes within only at the end, unless an error is raised there.

    Does nothing outside of the main thread, or for a signal that the program handles by itself. Cost: some 3 us.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)
        if len(held) == PATIENCE:
            raise KeyboardInterrupt

    ours = [one for one in _INTERRUPTS if signal.getsignal(one) is signal.default_int_handler]
    try:
        for one in ours:
            signal.signal(one, hold)
        yield
    finally:
        for one in ours:
            if signal.getsignal(one) is hold:
                signal.signal(one, signal.default_int_handler)
    if held:
        raise KeyboardInterrupt


def is_interrupt(error: BaseException) -> bool:
    """Whether this is a KeyboardInterrupt, or stands in the place of one.

    A signal's handler may run while a library written in C calls back. If the library then returns a value as if
    nothing had happened, the interpreter raises a SystemError, and the handler's error is its cause.
    """
    return isinstance(error.__cause__ if isinstance(error, SystemError) else error, KeyboardInterrupt)
