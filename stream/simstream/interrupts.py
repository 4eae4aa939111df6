"""Keeps Ctrl-C and SIGTERM: raises again what the interpreter drops, and knows them where a library hid them.

Holds them back while a lock is taken or given back, while a module is imported, and while something must not be
left half done.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
_MOST_POSTPONED: Final = 100
_MOST_POSTPONED_IMPORTING: Final = 1_000
_LOCK_FUNCTIONS: Final = frozenset(
    {"__enter__", "__exit__", "acquire", "release", "_release_save", "_acquire_restore"}
)
"""Functions that take a lock or give it back. If an error ends one of them early, the lock may stay taken."""
_IMPORTING: Final = "<frozen importlib._bootstrap>"
"""The file of the function that imports a module."""
_SET_BEFORE_WAIT: Final = "gotit"
"""The name that `Condition.wait` of every Python from 3.11 to 3.13 sets as it begins to wait."""


def keep_interrupts() -> None:
    """Let Ctrl-C and SIGTERM, unless ignored, raise a KeyboardInterrupt that leaves no lock taken and is kept.

    Python's own handler may raise it just after a lock of `threading` is taken, before the lines that give it back.
    Then other threads wait for that lock for ever, and the program for them at its end. And the import of a module
    that is written in C or Rust may turn it into another error. So a signal that comes there raises it a little
    later.

    The interpreter prints and drops what is raised in a destructor, in the callback of a weak reference, and where
    C calls back, as LLVM does while a kernel is compiled or loaded. A KeyboardInterrupt that is dropped there is
    raised again a little later. Takes the signal SIGALRM and the timer of real time. Services replace the handlers
    of SIGTERM and Ctrl-C later. For the main thread.
    """
    handler = _Interrupter()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGALRM, handler)
    sys.unraisablehook = partial(_raise_again, sys.unraisablehook)


def leave_interrupts() -> None:
    """End what `keep_interrupts` began, as the program ends: Ctrl-C is Python's again, and SIGTERM is ignored."""
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    if isinstance(signal.getsignal(signal.SIGINT), _Interrupter):
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Interrupter:
    """Raises a KeyboardInterrupt; a little later if a lock is taken or given back just now, or a module imported.

    If the main thread is still in such a function after a second, it waits there for another thread, perhaps for
    ever, and is interrupted; so is an import after ten.
    """

    def __init__(self) -> None:
        self._postponed = self._most = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        most = _most_postponed(frame)
        if most != self._most:
            self._postponed, self._most = 0, most
        if self._postponed >= most:
            self._postponed = 0
            raise KeyboardInterrupt
        self._postponed += 1
        _interrupt_soon()


def _most_postponed(frame: FrameType | None) -> int:
    """Return how often an interrupt may be postponed in this function."""
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename == _IMPORTING:
            return _MOST_POSTPONED_IMPORTING
        caller = caller.f_back
    return _MOST_POSTPONED if frame is not None and _is_at_a_lock(frame) else 0


def _is_at_a_lock(frame: FrameType) -> bool:
    """Whether this function takes a lock or gives it back, by its name.

    `Condition.wait` gives its lock back before it waits: an error there would give it back twice.
    """
    code = frame.f_code
    waits = code is threading.Condition.wait.__code__
    return code.co_name in _LOCK_FUNCTIONS or (waits and _SET_BEFORE_WAIT not in frame.f_locals)


def _interrupt_soon() -> None:
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


def _raise_again(tell: Callable[[Any], object], dropped: sys.UnraisableHookArgs) -> None:
    """Raise a dropped KeyboardInterrupt again in a little while; `tell` of another error."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        _interrupt_soon()
    else:
        tell(dropped)


def _raises(handler: object) -> bool:
    """Whether this handler of a signal raises a KeyboardInterrupt."""
    return handler is signal.default_int_handler or isinstance(handler, _Interrupter)


@contextmanager
def interrupts_held(*, every: bool = False) -> Iterator[None]:
    """Raise a KeyboardInterrupt that comes within only at the end, unless an error is raised there.

    Does nothing outside of the main thread, or for a signal that the program handles by itself. With `every`, its
    handlers of Ctrl-C, SIGTERM and SIGALRM, too, are called only at the end, without a frame. Cost: some 20 us.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    handlers: dict[int, Callable[[int, FrameType | None], object]] = {}

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)
        own = handlers.get(number)
        if (held.count(number) if own else sum(one not in handlers for one in held)) == PATIENCE:
            (own or signal.default_int_handler)(number, frame)

    def call_each(numbers: list[int]) -> None:
        if numbers:
            try:
                handlers[numbers[0]](numbers[0], None)
            finally:  # the others, too, if this one raises an error
                call_each(numbers[1:])

    def give_back(one: int, handler: Any) -> None:
        if signal.getsignal(one) is hold:
            signal.signal(one, handler)

    try:
        with ExitStack() as stack:
            for one in _INTERRUPTS:
                raises = _raises(handler := signal.getsignal(one))
                if callable(handler) and every and not raises:
                    handlers[one] = handler
                if raises or one in handlers:
                    stack.callback(give_back, one, handler)
                    signal.signal(one, hold)
            yield
    finally:
        call_each([number for number in dict.fromkeys(held) if number in handlers])
    if set(held) - handlers.keys():
        raise KeyboardInterrupt


def is_interrupt(error: BaseException) -> bool:
    """Whether this is a KeyboardInterrupt, or stands in the place of one, which is its cause.

    A signal's handler may run while a library written in C calls back. If the library then returns a value as if
    nothing had happened, the interpreter raises a SystemError. If the handler runs while a class is made, in a
    `__set_name__`, Python before 3.12 raises a RuntimeError.
    """
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)
