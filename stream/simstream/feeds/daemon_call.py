"""Calls a function in a thread that does not hold up the end of the process.

For questions to brokers: one to brokers that are away may take minutes, and no thread can be cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def call_in_daemon(work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. If this is cancelled, its thread goes on alone."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(tell: Callable[[Any], None], told: object) -> None:
        if not answer.done():
            tell(told)

    def run() -> None:
        try:
            told = partial(settle, answer.set_result, work())
        except Exception as error:  # noqa: BLE001  # whoever asked gets it
            told = partial(settle, answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(told)

    threading.Thread(target=run, name="question", daemon=True).start()
    return await answer
