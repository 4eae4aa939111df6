"""Updates the fingerprinter's metrics for the pages that it reads."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from simstream.log.base import PageConsumer, PartitionStart
from simstream.model import Record
from simstream.telemetry.metrics import Metrics

_logger = logging.getLogger("simstream.fingerprint")
EVERY_S = 0.5
"""Seconds between two reads of the lag, which cost about 10 us a partition."""


class IntakeMetrics:
    """Sets the metrics of one fingerprinter's reading. For the role's thread only."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before_ms: dict[int, int] = {}
        """Per partition a time before which no waiting page came: the time of the last page read, or of the last
        look without waiting pages."""
        self._next = 0.0

    def count_read(self, records: Sequence[Record]) -> None:
        """Count records that were read."""
        self._metrics.pages.inc(len(records))
        self._metrics.page_bytes.inc(sum(len(record.value or b"") for record in records))
        self._before_ms.update((record.partition, record.timestamp) for record in records)

    def count_acknowledged(self, arrival_counts: Mapping[int, int]) -> None:
        """Count pages whose frames are safely in the log; `arrival_counts` counts them by arrival in ms."""
        self._metrics.page_latency.observe_since(arrival_counts)

    def note_start(self, start: PartitionStart) -> None:
        """Note that this process reads this partition from now on."""
        where = {"partition": start.partition, "offset": start.offset}
        _logger.info("reads partition %d from offset %d on", *where.values(), extra=where)

    def note_stop(self, partition: int) -> None:
        """Note that this process no longer reads this partition."""
        _logger.info("no longer reads partition %d", partition, extra={"partition": partition})
        self._before_ms.pop(partition, None)
        self._metrics.forget(partition)

    def set_lag(self, consumer: PageConsumer) -> None:
        """Set how many pages wait and for how long, at most once in EVERY_S."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_S
        for partition, pages in consumer.lag().items():
            now_ms = time.time_ns() // 1_000_000
            if not pages or partition not in self._before_ms:
                self._before_ms[partition] = now_ms
            self._metrics.source_lag.labels(partition).set(pages)
            waited_ms = max(0, now_ms - self._before_ms[partition])
            self._metrics.source_lag_seconds.labels(partition).set(waited_ms / 1000)
