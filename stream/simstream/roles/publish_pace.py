"""Tells the fingerprinter how long the judge of the same process takes to publish."""

from __future__ import annotations

SMOOTHING = 8
"""A transaction changes the mean by an eighth of its difference."""
MAX_S = 0.05
"""A longer transaction counts as one of so many seconds: one that stood still says nothing about the next."""


class PublishPace:
    """The smoothed mean of the seconds that a transaction takes. One thread notes them, and any thread reads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """0 until the first transaction: another process may have the judge."""

    def note(self, seconds: float) -> None:
        """Note a committed transaction."""
        self.seconds += (min(seconds, MAX_S) - self.seconds) / SMOOTHING
