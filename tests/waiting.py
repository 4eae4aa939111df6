"""How the tests wait for what must come."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(
    condition: Callable[[], object], what: str | Callable[[], str], seconds: float = 120, every: float = 0.01
) -> None:
    """Ask `every` few seconds until `condition()` is true. Fails after `seconds`, naming `what` never came; a
    function is called for its words only then."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it never came that {what if isinstance(what, str) else what()}"
        time.sleep(every)
