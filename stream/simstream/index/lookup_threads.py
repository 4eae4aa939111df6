"""Divides a batch of queries among threads. Kernels hold no GIL, so each core looks up its own queries."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Final, TypeVar

LEAST_QUERIES: Final = 64
"""Fewer queries are not worth the way to another thread and back, some .1 ms."""
LEAST_ENTRIES: Final = 1 << 20
"""An index with fewer entries answers within the processor's caches, in a few us a query."""
MAX_THREADS: Final = 16
"""More threads would divide a usual batch into parts that are too small."""

T = TypeVar("T")


class LookupThreads:
    """Threads that look up parts of a batch; they start with the first batch that is divided.

    A process that is forked afterwards lacks them, and must not look up by them.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = max(1, min(threads, MAX_THREADS))
        self._pool: ThreadPoolExecutor | None = None

    def spans(self, queries: int, entries: int) -> list[slice]:
        """Return the parts of a batch of `queries`: one, or one for each thread. The largest part of the index has
        so many `entries`."""
        parts = 1 if entries < LEAST_ENTRIES else max(1, min(self._threads, queries // LEAST_QUERIES))
        ends = [queries * part // parts for part in range(parts + 1)]
        return [slice(start, end) for start, end in pairwise(ends)]

    def run(self, look_up: Callable[[slice], T], spans: list[slice]) -> list[T]:
        """Call `look_up` for each span, the first in this thread. Raises its first error once all have ended."""
        first, *others = spans
        if not others:
            return [look_up(first)]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads - 1, thread_name_prefix="lookup")
        rest: list[Future[T]] = []
        try:
            for span in others:
                rest.append(self._pool.submit(look_up, span))  # noqa: PERF401  # a failed start ends in the middle
            found = [look_up(first)]
        finally:
            wait(rest)  # no part may read the index after this call
        return found + [future.result() for future in rest]

    def close(self) -> None:
        """End the threads. A later batch starts them again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
