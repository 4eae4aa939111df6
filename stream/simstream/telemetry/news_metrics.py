"""Defines the metrics of the news page, which its own port serves."""

from __future__ import annotations

from typing import Final

from prometheus_client import generate_latest

from simstream.telemetry.metrics import PREFIX_LABEL
from simstream.telemetry.registry import LabellingRegistry, MetricLabel, MetricRegistry

WEBHOOK_RESULT: Final = MetricLabel("result", ("delivered", "refused", "expired", "overflow"))


class NewsMetrics:
    """The counters of one news process. `prefix` is the prefix of the verdicts that it shows."""

    def __init__(self, prefix: str = "") -> None:
        make = MetricRegistry()
        self.described = make.described
        """The descriptions of all metrics, in the order of the table."""
        self._exposed = LabellingRegistry(make.collectors, {PREFIX_LABEL: prefix} if prefix else {})
        self.webhooks = make.counter(
            "webhooks",
            "Webhooks of the news page: delivered, refused by the receiver, dropped after their time, or dropped "
            "as too many waited.",
            WEBHOOK_RESULT,
            unit="webhooks",
        )
        self.webhooks_waiting = make.gauge(
            "webhooks_waiting",
            "Webhooks of the news page that are not yet delivered or dropped. An end of the process loses them.",
            unit="webhooks",
        )
        self.webhook_retries = make.counter(
            "webhook_retries",
            "Requests to the receiver of webhooks after the first one of a webhook.",
            unit="requests",
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._exposed)
