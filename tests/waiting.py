"""How the tests wait for what must come."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from typing import Any


def until(
    condition: Callable[[], object],
    what: str | Callable[[], str],
    seconds: float = 120,
    every: float = 0.01,
    process: subprocess.Popen[Any] | None = None,
) -> None:
    """Ask `every` few seconds until `condition()` is true.

    Fails after `seconds`, or once `process` has ended, naming `what` never came; a function is called for its words
    only then.
    """
    end = time.monotonic() + seconds
    while not condition():
        is_over = time.monotonic() >= end or (process is not None and process.poll() is not None)
        assert not is_over, f"it never came that {what if isinstance(what, str) else what()}"
        time.sleep(every)


async def soon(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    """Wait in an event loop, as `until` does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it never came that {what}"
        await asyncio.sleep(0.01)
