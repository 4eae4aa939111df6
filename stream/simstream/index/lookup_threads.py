"""Divides a batch of queries among threads. Kernels hold no GIL, so each core looks up its own queries."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Final, TypeVar

from simstream.processors import takes_no_more

MIN_PART_QUERIES: Final = 64
"""A part with fewer queries costs more than it saves: another thread takes about .1 ms to begin and report."""
MIN_ENTRIES: Final = 1 << 20
"""With fewer entries a usual batch takes about a millisecond, and need not be divided."""
MAX_THREADS: Final = 16
"""More threads would divide a usual batch into parts that are too small."""

T = TypeVar("T")


class LookupThreads:
    """Threads that look up parts of a batch; they start with the first batch that is divided in a process."""

    def __init__(self, threads: int = 1) -> None:
        self.count = max(1, min(threads, MAX_THREADS))
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0
        """The process with the threads: a forked one has none of them."""

    def divide(self, queries: int, entries: int) -> list[slice]:
        """Return the parts of a batch of `queries`: one, or one for each thread. The largest part of the index has
        so many `entries`."""
        parts = 1 if entries < MIN_ENTRIES else max(1, min(self.count, queries // MIN_PART_QUERIES))
        ends = [queries * part // parts for part in range(parts + 1)]
        return [slice(start, end) for start, end in pairwise(ends)]

    def run(self, look_up: Callable[[slice], T], spans: list[slice]) -> list[T]:
        """Call `look_up` for each span, the first in this thread. Raises the error of the first that failed, once
        all have ended."""
        first, *others = spans
        if not others:
            return [look_up(first)]
        if self._pool is None or self._process != os.getpid():
            self._pool = ThreadPoolExecutor(self.count - 1, thread_name_prefix="lookup")
            self._process = os.getpid()
        try:
            rest = [self._pool.submit(look_up, span) for span in others]
            found = [look_up(first)]
            wait(rest)  # no part may read the index after this call
        except BaseException as error:
            self.close()  # waits, too, and drops a part that is queued although its thread did not start
            if not takes_no_more(error):
                raise
            return [look_up(span) for span in spans]  # the main thread has ended
        return found + [future.result() for future in rest]

    def close(self) -> None:
        """End the threads. A later batch starts them again."""
        pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.shutdown(cancel_futures=True)
