"""Ends what hangs: an error in Python code, the whole process where a foreign library does not come back."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HANGS_S = 30
"""What any single input may take, on however busy a machine."""
DEAD_S = 120


class HangError(AssertionError):
    """An input took too long."""


@contextmanager
def watched() -> Iterator[None]:
    """Raise HangError after HANGS_S seconds of CPU time; end the process, its stacks on stderr, after DEAD_S."""
    before = signal.signal(signal.SIGVTALRM, _on_alarm)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS_S)
    faulthandler.dump_traceback_later(DEAD_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _on_alarm(number: int, where: FrameType | None) -> None:
    raise HangError(f"an input took more than {HANGS_S} s of CPU time")
