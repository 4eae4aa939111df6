"""Creates metrics, and remembers name, kind, unit, labels and sentence of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, disable_created_metrics

from simstream.telemetry.histogram import Histogram

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which no rule uses
PREFIX = "simstream_"


class MetricLabel(NamedTuple):
    """A label and its values. Without `values` each process decides, and `bound` says how many values there may
    be."""

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""


class MetricDescription(NamedTuple):
    """One metric in words. `name` is the name of its series, without the suffixes of a histogram."""

    name: str
    kind: str
    unit: str
    labels: tuple[MetricLabel, ...]
    sentence: str
    series: int
    """The most series that it has; if its label has no known values, the most series for each value."""


class LabellingRegistry(CollectorRegistry):
    """Collects the series of another registry, and adds labels to the series of simstream."""

    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._registry = registry
        self._more = labels

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            if self._more and family.name.startswith(PREFIX):
                family.samples = [
                    sample._replace(labels={**sample.labels, **self._more}) for sample in family.samples
                ]
            yield family


class MetricRegistry:
    """Makes the metrics of one process. By default a metric's unit is the last word of its name."""

    def __init__(self) -> None:
        self.collectors = CollectorRegistry()
        self.described: list[MetricDescription] = []

    def counter(self, name: str, sentence: str, label: MetricLabel | None = None, *, unit: str = "") -> Counter:
        """Make a counter; its name gets the suffix `_total`. Every value of its label begins at 0, so that a rate
        covers the first event."""
        labels = (label,) if label else ()
        made = Counter(PREFIX + name, sentence, [label.name for label in labels], registry=self.collectors)
        for value in label.values if label else ():
            made.labels(value)
        self._describe(f"{name}_total", "counter", unit or _unit(name), labels, sentence)
        return made

    def gauge(self, name: str, sentence: str, *labels: MetricLabel, unit: str = "") -> Gauge:
        """Make a gauge. With a label it has no series before its first value."""
        self._describe(name, "gauge", unit or _unit(name), labels, sentence)
        return Gauge(PREFIX + name, sentence, [label.name for label in labels], registry=self.collectors)

    def histogram(
        self, name: str, sentence: str, bounds: Sequence[float], label: MetricLabel | None = None, *, unit: str = ""
    ) -> Histogram:
        """Make a histogram with these upper bounds, and +Inf as the last one."""
        labels = (label,) if label else ()
        made = Histogram(PREFIX + name, sentence, bounds, *(label or ("",))[:2])
        self.collectors.register(made)
        self._describe(name, "histogram", unit or _unit(name), labels, sentence, len(bounds) + 3)
        return made

    def _describe(
        self, name: str, kind: str, unit: str, labels: tuple[MetricLabel, ...], sentence: str, series: int = 1
    ) -> None:
        for label in labels:
            series *= len(label.values) or 1
        self.described.append(MetricDescription(PREFIX + name, kind, unit, labels, sentence, series))


def _unit(name: str) -> str:
    return "seconds since 1970" if name.endswith("_timestamp_seconds") else name.rpartition("_")[2]
