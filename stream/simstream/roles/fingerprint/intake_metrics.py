"""Updates the fingerprinter's metrics for the pages that it reads."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from simstream.log.base import PageConsumer, PartitionStart
from simstream.model import Record
from simstream.telemetry.metrics import Metrics

_log = logging.getLogger("simstream.fingerprint")
EVERY_S = 0.5
"""Between two looks at the lag: about 10 us a partition."""


class IntakeMetrics:
    """Sets the metrics of one fingerprinter's reading. For the role's thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before_ms: dict[int, int] = {}
        """Per partition a time that no page which waits can have come before: that of the page that was read last,
        or of the last look that found none."""
        self._next = 0.0

    def read(self, records: Sequence[Record]) -> None:
        """These records were read."""
        self._metrics.pages.inc(len(records))
        self._metrics.page_bytes.inc(sum(len(record.value or b"") for record in records))
        self._before_ms.update((record.partition, record.timestamp) for record in records)

    def acknowledged(self, came: Mapping[int, int]) -> None:
        """The frames of so many pages, which came at which ms, are safely in the log. About 1 us a timestamp."""
        now = time.time()
        for milliseconds, pages in came.items():
            self._metrics.page_latency.observe(max(0.0, now - milliseconds / 1000), pages)

    def started(self, start: PartitionStart) -> None:
        """This process reads this partition from now on."""
        where = {"partition": start.partition, "offset": start.offset}
        _log.info("reading partition %d from offset %d on", *where.values(), extra=where)

    def stopped(self, partition: int) -> None:
        """Another process reads this partition from now on."""
        _log.info("partition %d is no longer read here", partition, extra={"partition": partition})
        self._before_ms.pop(partition, None)
        self._metrics.forget(partition)

    def lag(self, source: PageConsumer) -> None:
        """Say how much waits, and for how long, at most once in EVERY_S."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_S
        for partition, pages in source.lag().items():
            now_ms = time.time_ns() // 1_000_000
            if not pages or partition not in self._before_ms:
                self._before_ms[partition] = now_ms
            self._metrics.source_lag.labels(partition).set(pages)
            waited_ms = max(0, now_ms - self._before_ms[partition])
            self._metrics.source_lag_seconds.labels(partition).set(waited_ms / 1000)
