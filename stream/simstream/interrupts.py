"""Raises Ctrl-C and SIGTERM where they are not lost, and knows them where a library hid them.

Holds them back while something must not be left half done.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

BEAT_S: Final = 0.25
"""The longest single wait of a main thread for what may never come. A signal just before a wait does not end it:
the interpreter has looked for signals for the last time, and the system does not wait yet."""
PATIENCE: Final = 3
"""The signal of this number takes effect at once: the disk may hang."""
_INTERRUPTS: Final = signal.SIGINT, signal.SIGTERM
_DROPPING: Final = ("__del__", "_raw_object_cache_notify", "_raw_object_cache_getbuffer")
"""What is raised here is printed and dropped: in a destructor, and in what LLVM calls while a kernel is loaded."""
_AGAIN_S: Final = 0.01


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise a KeyboardInterrupt, as Python's own handler does, but not where it would be dropped: a little later.

    For programs that have SIGALRM to themselves.
    """
    while frame is not None:
        if frame.f_code.co_name in _DROPPING:
            signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def raise_interrupts() -> None:
    """Let `interrupt` handle Ctrl-C and SIGTERM, unless they are ignored. Services have their own handlers."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is usual:
            signal.signal(number, interrupt)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Raise a KeyboardInterrupt that comes within only at the end, unless an error is raised there.

    Does nothing outside of the main thread, or for a signal that the program handles by itself. Cost: some 20 us.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)
        if len(held) == PATIENCE:
            raise KeyboardInterrupt

    raising = interrupt, signal.default_int_handler
    ours = {one: handler for one in _INTERRUPTS if (handler := signal.getsignal(one)) in raising}
    try:
        for one in ours:
            signal.signal(one, hold)
        yield
    finally:
        for one, handler in ours.items():
            if signal.getsignal(one) is hold:
                signal.signal(one, handler)
    if held:
        raise KeyboardInterrupt


def is_interrupt(error: BaseException) -> bool:
    """Whether this is a KeyboardInterrupt, or stands in the place of one.

    A signal's handler may run while a library written in C calls back. If the library then returns a value as if
    nothing had happened, the interpreter raises a SystemError, and the handler's error is its cause.
    """
    return isinstance(error.__cause__ if isinstance(error, SystemError) else error, KeyboardInterrupt)
