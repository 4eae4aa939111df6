"""The most memory that Python's objects take within a block."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


class PeakMemory:
    """The result, known after the block."""

    bytes = 0


@contextmanager
def peak_memory() -> Iterator[PeakMemory]:
    """Count what the block allocates. Nothing is counted any more after it, also if it fails."""
    peak = PeakMemory()
    tracemalloc.start()
    try:
        yield peak
        peak.bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
