"""CPU time of work on a busy machine, in a process where threads of earlier tests may still run."""

import gc
from collections.abc import Callable
from time import thread_time


def least_seconds(work: Callable[[], object], times: int = 3) -> float:
    """CPU seconds that this thread needs for the work, the least of some times: what else there is only adds to it.

    No garbage is collected meanwhile: a collection costs in proportion to all that earlier tests left.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return min(_seconds(work) for _ in range(times))
    finally:
        if collects:
            gc.enable()


def _seconds(work: Callable[[], object]) -> float:
    began = thread_time()
    work()
    return thread_time() - began
