"""What every role gets: settings, metrics, health, the stop event and the pace of the judge beside it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from simstream.settings import Settings
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.metrics import Metrics
from simstream.telemetry.tracing import PageSpans


class PublishPace:
    """The smoothed mean of the seconds that a transaction takes. One thread notes them, and any thread reads."""

    SMOOTHING: Final = 8
    """A transaction changes the mean by an eighth of its difference."""
    MAX_S: Final = 0.05
    """A longer transaction counts as one of so many seconds: one that stood still says nothing about the next."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """0 until the first transaction: another process may have the judge."""

    def note(self, seconds: float) -> None:
        """Note a committed transaction."""
        self.seconds += (min(seconds, self.MAX_S) - self.seconds) / self.SMOOTHING


@dataclass(frozen=True, slots=True)
class RoleContext:
    """Shared by the roles of one process."""

    settings: Settings
    metrics: Metrics = field(default_factory=Metrics)
    health: ServiceHealth = field(default_factory=ServiceHealth)
    stop: threading.Event = field(default_factory=threading.Event)
    publish_pace: PublishPace = field(default_factory=PublishPace)
    """How long the elected judge takes to publish."""
    spans: PageSpans | None = None
    """Where the elected judge sends spans; None: nowhere."""
