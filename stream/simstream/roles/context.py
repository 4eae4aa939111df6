"""What every role gets: settings, metrics, health and the stop event."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from simstream.roles.publish_pace import PublishPace
from simstream.settings import Settings
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.metrics import Metrics
from simstream.telemetry.tracing import PageSpans


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
