"""Cuts long work into slices, so that the app goes on reading and answering."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

from simstream.errors import LogError
from simstream.feeds.reasons import REASONS

MAX_WAITING = 32
"""The number of searches that may wait for their turn."""
T = TypeVar("T")


class SearchRunner:
    """Runs one generator at a time to its end. Other tasks get at least half of the event loop's time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def run(self, work: Generator[None, None, T]) -> T:
        """Run the generator to its end, and return its result. Raises LogError if too many wait."""
        if self._waiting >= MAX_WAITING:
            raise LogError(*REASONS["many_searches"])
        self._waiting += 1
        try:
            async with self._turn:
                return await unhurried(work)
        finally:
            self._waiting -= 1


async def unhurried(work: Generator[None, None, T]) -> T:
    """Return a generator's result. After each of its slices, other tasks have as much time as the slice took."""
    while True:
        began = time.perf_counter()
        try:
            next(work)
        except StopIteration as done:
            found: T = done.value
            return found
        await asyncio.sleep(time.perf_counter() - began)
