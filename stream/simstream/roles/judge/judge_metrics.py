"""Sets the judge's metrics from its state and its verdicts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from simstream.index.packed import SCANNED
from simstream.judge.state import JudgeState
from simstream.model import Verdict, VerdictKind
from simstream.telemetry.metrics import INDEX_PART, Metrics, cluster_sizes

EVERY_S = 1.0
"""Seconds between two measurements of the state, which take about 50 us, or more with many segments."""


class JudgeMetrics:
    """Sets the metrics of one judge. For the judge's thread only."""

    def __init__(self, state: JudgeState, metrics: Metrics) -> None:
        self._state = state
        self._metrics = metrics
        self._next = 0.0
        self._candidates = self._rejected = 0
        self._tables = {SCANNED}
        """The names that segments have had so far."""
        self._shown_positions: dict[int, int] = {}
        """By partition, as the metric has them: there may be 10,000, and to set one takes some 2 us."""

    def set_state(self) -> None:
        """Set the place of the state and, at most once in EVERY_S, its sizes."""
        metrics, acceptor = self._metrics, self._state.acceptor
        metrics.position.set(acceptor.next_frame)
        metrics.ordinal.set(acceptor.ordinal)
        metrics.gaps.set(len(acceptor.gaps))
        metrics.live_pages.set(self._state.resolver.live_pages)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY_S
            self._positions()
            self._index()
            self._clusters()

    def count_judged(self, verdicts: Sequence[Verdict]) -> None:
        """Count the distances and similarities of near duplicates. Cost: about 0.1 us a verdict."""
        near = [verdict for verdict in verdicts if verdict.verdict == VerdictKind.NEAR_DUPLICATE]
        metrics = self._metrics
        metrics.distance.observe_all(Counter(verdict.distance or 0 for verdict in near))
        metrics.similarity.observe_all(Counter(each.similarity for each in near if each.similarity is not None))

    def count_committed(
        self, kinds: Mapping[str, int], appended: Mapping[int, int], arrival_counts: Mapping[int, int]
    ) -> None:
        """Count committed verdicts by kind, and their latencies.

        `appended` counts pages by the ms at which their frame came to the log. `arrival_counts` counts them by the
        ms at which they came to the topic `pages`. Any thread may call it.
        """
        for kind, number in kinds.items():
            self._metrics.verdicts.labels(kind).inc(number)
        self._metrics.latency.observe_since(appended)
        self._metrics.whole_latency.observe_since(arrival_counts)

    def _positions(self) -> None:
        metrics, positions = self._metrics, self._state.acceptor.positions
        latest_topic_id = next(reversed(positions))[0] if positions else ""  # an earlier topic may have had more
        for (topic_id, partition), offset in positions.items():
            if topic_id == latest_topic_id and self._shown_positions.get(partition) != offset:
                self._shown_positions[partition] = offset
                metrics.source_position.labels(partition).set(offset)
        metrics.stream_time.set((self._state.resolver.stream_time or 0) / 1000)

    def _index(self) -> None:
        metrics, index = self._metrics, self._state.index
        metrics.entries.set(len(index))
        metrics.segments.set(index.segments)
        for part, size in self._state.resolver.nbytes().items():
            gauge = metrics.index_bytes if part in INDEX_PART.values else metrics.state_bytes
            gauge.labels(part.replace(" ", "_")).set(size)
        tables = index.by_table()
        self._tables |= tables.keys()
        for table in self._tables:  # a merge may remove the last segment with this label
            entries, size = tables.get(table, (0, 0))
            metrics.table_entries.labels(table).set(entries)
            metrics.table_bytes.labels(table).set(size)
        metrics.candidates.inc(index.candidates - self._candidates)
        metrics.rejected.inc(index.rejected - self._rejected)
        self._candidates, self._rejected = index.candidates, index.rejected
        metrics.numbers_used.set(self._state.resolver.numbers_used)
        metrics.window_span.set(self._state.resolver.window_span_ms / 1000)

    def _clusters(self) -> None:
        metrics, resolver = self._metrics, self._state.resolver
        live, largest = resolver.live_pages, resolver.largest_cluster
        metrics.largest_cluster.set(largest)
        metrics.largest_share.set(largest / live if live else 0)
        for size, number in cluster_sizes(resolver.cluster_sizes).items():
            metrics.clusters.labels(size).set(number)
