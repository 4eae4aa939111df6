"""How the tests wait for what must come."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], what: str | Callable[[], str], seconds: float = 60) -> None:
    """Ask again and again until `condition()` is true. Fails after `seconds`, naming `what` never came; where that
    is a function, it is called for its words only then."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it never came that {what if isinstance(what, str) else what()}"
        time.sleep(0.01)
