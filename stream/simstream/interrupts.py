"""Keeps Ctrl-C and SIGTERM: raises again what the interpreter drops, and knows them where a library hid them.

Holds them back while something must not be left half done.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final

BEAT_S: Final = 0.25
"""The longest single wait of a main thread for what may never come. A signal that comes just before a wait does not
end it: its handler runs only once the wait has ended."""
PATIENCE: Final = 3
"""The signal of this number takes effect at once: the disk may hang."""
_INTERRUPTS: Final = signal.SIGINT, signal.SIGTERM, signal.SIGALRM
_AGAIN_S: Final = 0.01


def keep_interrupts() -> None:
    """Let SIGTERM raise a KeyboardInterrupt as Ctrl-C does, unless it is ignored, and let nothing drop either.

    The interpreter prints and drops what is raised in a destructor, in the callback of a weak reference, and where
    C calls back, as LLVM does while a kernel is compiled or loaded. A KeyboardInterrupt that is dropped there is
    raised again a little later. Takes the signal SIGALRM and the timer of real time. Services replace the handlers
    of SIGTERM and Ctrl-C later. For the main thread.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.unraisablehook = partial(_raise_again, sys.unraisablehook)


def _raise_again(tell: Callable[[Any], object], dropped: sys.UnraisableHookArgs) -> None:
    """Raise a dropped KeyboardInterrupt again in a little while; `tell` of another error."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        tell(dropped)


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
    """Whether this is a KeyboardInterrupt, or stands in the place of one, which is its cause.

    A signal's handler may run while a library written in C calls back. If the library then returns a value as if
    nothing had happened, the interpreter raises a SystemError. If the handler runs while a class is made, in a
    `__set_name__`, Python before 3.12 raises a RuntimeError.
    """
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)
