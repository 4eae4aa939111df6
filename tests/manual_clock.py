"""A clock that only a test moves."""

from __future__ import annotations


class ManualClock:
    """Stands at `now` seconds. Can be called, and takes the place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def monotonic(self) -> float:
        """See time."""
        return self.now

    def time(self) -> float:
        """See time."""
        return self.now
