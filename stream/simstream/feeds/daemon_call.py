"""Calls a function in a thread that does not hold up the end of the process.

For questions to brokers: one to brokers that are away may take minutes, and no thread can be cancelled.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def call_in_daemon(work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. If this is cancelled, its thread goes on alone."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(work())
        except Exception as error:  # noqa: BLE001  # whoever asked gets it
            answer.set_exception(error)

    threading.Thread(target=run, name="question", daemon=True).start()
    return await asyncio.wrap_future(answer)
