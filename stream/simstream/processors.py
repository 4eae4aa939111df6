"""Counts the processors of this machine, and shares work among threads."""

from __future__ import annotations

import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def call_in_daemon(work: Callable[[], Result], name: str) -> Future[Result]:
    """Return the outcome of `work`, called in a thread that does not hold up the end of the process.

    For what may take minutes, as questions to brokers that are away: no thread can be cancelled. Where
    no thread starts any more, as in Python 3.12's `atexit`, it calls `work` itself.
    """
    outcome: Future[Result] = Future()
    outcome.set_running_or_notify_cancel()  # nobody can cancel it then

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  # whoever asked gets it
            outcome.set_exception(error)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        if "interpreter shutdown" not in str(error):
            raise
        run()
    return outcome


def takes_no_more(error: BaseException) -> bool:
    """Whether a pool took no work, as it was closed, or as the main thread has ended. It queued none."""
    return isinstance(error, RuntimeError) and str(error).startswith("cannot schedule new futures after")


def is_of_result(error: TimeoutError) -> bool:
    """Whether `Future.result` raised it as its time is over. A signal's handler may raise a TimeoutError, too."""
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1] is Future.result.__code__


def in_parts(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield `work(item)` of each item, in their order, by so many threads. Holds at most 2 items a thread."""
    with ThreadPoolExecutor(threads, thread_name_prefix="part") as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                if len(waiting) == 2 * threads:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
