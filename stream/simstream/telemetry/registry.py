"""Creates metrics, and remembers name, kind, unit, labels and sentence of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, disable_created_metrics

from simstream.telemetry.histogram import Histogram

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series a counter, that nobody asked for
PREFIX = "simstream_"


class MetricLabel(NamedTuple):
    """A label and all that it may be; without values a process decides, and `bound` says how many it may have."""

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""


class MetricDescription(NamedTuple):
    """One metric as a person reads of it; `name` is that of its series, but for the suffixes of a histogram's."""

    name: str
    kind: str
    unit: str
    labels: tuple[MetricLabel, ...]
    sentence: str
    series: int
    """How many series it has at most; of those whose label has no known values, how many for each."""


class LabellingRegistry(CollectorRegistry):
    """Collects what another registry collects, with further labels on the series of simstream."""

    def __init__(self, registry: CollectorRegistry, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._registry = registry
        self._more = labels

    def collect(self) -> Iterator[Metric]:
        """See CollectorRegistry."""
        for family in self._registry.collect():
            if self._more and family.name.startswith(PREFIX):
                family.samples = [
                    sample._replace(labels={**sample.labels, **self._more}) for sample in family.samples
                ]
            yield family


class MetricRegistry:
    """Makes the metrics of one process."""

    def __init__(self) -> None:
        self.collectors = CollectorRegistry()
        self.described: list[MetricDescription] = []

    def counter(self, name: str, unit: str, sentence: str, label: MetricLabel | None = None) -> Counter:
        """A counter; `_total` is put behind its name. With every value of its label it begins at 0, so that a rate
        can be taken from the first event on."""
        labels = (label,) if label else ()
        made = Counter(PREFIX + name, sentence, [label.name for label in labels], registry=self.collectors)
        for value in label.values if label else ():
            made.labels(value)
        self._describe(f"{name}_total", "counter", unit, labels, sentence)
        return made

    def gauge(self, name: str, unit: str, sentence: str, *labels: MetricLabel) -> Gauge:
        """A gauge. With a label it has no series before its first value."""
        self._describe(name, "gauge", unit, labels, sentence)
        return Gauge(PREFIX + name, sentence, [label.name for label in labels], registry=self.collectors)

    def histogram(
        self, name: str, unit: str, sentence: str, bounds: Sequence[float], label: MetricLabel | None = None
    ) -> Histogram:
        """A histogram with these upper bounds, and the last one that all keep to."""
        labels = (label,) if label else ()
        made = Histogram(PREFIX + name, sentence, bounds, *(label or ("",))[:2])
        self.collectors.register(made)
        self._describe(name, "histogram", unit, labels, sentence, len(bounds) + 3)
        return made

    def _describe(
        self, name: str, kind: str, unit: str, labels: tuple[MetricLabel, ...], sentence: str, series: int = 1
    ) -> None:
        for label in labels:
            series *= len(label.values) or 1
        self.described.append(MetricDescription(PREFIX + name, kind, unit, labels, sentence, series))
