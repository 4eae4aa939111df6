"""Counts the processors of this machine, and shares work among them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
