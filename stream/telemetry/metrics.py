"""Every metric of simstream, in one place, each with a sentence. Never a URL, host or id as a label."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series a counter, that nobody asked for
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
VERDICTS = ("new", "near_duplicate", "unchanged", "too_short", "unreadable", "withdrawn")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counters, gauges and histograms of one process, in a registry of their own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.pages = Counter("simstream_pages_consumed", "Records of `pages` that were read.", registry=registry)
        self.verdicts = Counter(
            "simstream_verdicts", "Verdicts committed, by kind.", ["verdict"], registry=registry
        )
        self.dead_letters = Counter(
            "simstream_dead_letters",
            "Unreadable pages sent to `dead-letters`, by reason.",
            ["reason"],
            registry=registry,
        )
        self.key_differs = Counter(
            "simstream_key_differs", "Pages whose record key and `id` differ; the key counts.", registry=registry
        )
        self.texts_cut = Counter(
            "simstream_texts_cut", "Texts longer than the recipe reads; their beginning counts.", registry=registry
        )
        self.frames = Counter("simstream_frames_accepted", "Frames of the log that counted.", registry=registry)
        self.frames_ignored = Counter(
            "simstream_frames_ignored",
            "Frames of the log that did not count, by reason.",
            ["reason"],
            registry=registry,
        )
        self.restarts = Counter(
            "simstream_delivery_restarts",
            "Times a failed delivery made the fingerprinter start again.",
            registry=registry,
        )
        self.batch = Histogram(
            "simstream_batch_seconds",
            "Time a batch spent in a stage.",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.latency = Histogram(
            "simstream_verdict_latency_seconds",
            "From a page's frame in the log to the commit of its verdict, live pages only.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.source_lag = Gauge(
            "simstream_source_lag_pages",
            "Offsets of `pages` not yet read, by partition.",
            ["partition"],
            registry=registry,
        )
        self.position = Gauge(
            "simstream_log_position", "Next frame of the log that the judge reads.", registry=registry
        )
        self.replay_remaining = Gauge(
            "simstream_replay_remaining_frames",
            "Frames below the published position that are not yet judged, at a start or on standby.",
            registry=registry,
        )
        self.snapshot_age = Gauge(
            "simstream_snapshot_age_seconds",
            "Since the newest snapshot of the judge's state; not a number without one, 0 without --state.",
            registry=registry,
        )
        self.elected = Gauge(
            "simstream_role_elected",
            "1 where this process's role is the elected one, 0 on standby.",
            ["role"],
            registry=registry,
        )
        self.gaps = Gauge(
            "simstream_source_gaps",
            "Source partitions with an open gap before the log's frames.",
            registry=registry,
        )
        self.live_pages = Gauge(
            "simstream_live_pages", "Pages that a new page is compared with.", registry=registry
        )
        self.largest_cluster = Gauge(
            "simstream_largest_cluster_pages",
            "Live pages of the largest cluster; the log names clusters out of proportion.",
            registry=registry,
        )
        self.largest_share = Gauge(
            "simstream_largest_cluster_share", "Share of the largest cluster in all live pages.", registry=registry
        )
        self.entries = Gauge("simstream_index_entries", "Distinct entries of the index.", registry=registry)
        self.index_bytes = Gauge("simstream_index_bytes", "Bytes held by the index.", registry=registry)
        self.candidates = Counter(
            "simstream_candidates", "Entries within the distance, before the sketch decided.", registry=registry
        )
        self.last_poll = Gauge(
            "simstream_last_poll_timestamp_seconds", "When a role's loop last turned.", ["role"], registry=registry
        )
        self.ready = Gauge("simstream_ready", "1 where this process is replayed and connected.", registry=registry)
        self.info = Gauge(
            "simstream_info", "Recipe and policy in force.", ["version", "recipe", "policy"], registry=registry
        )

    def known(self, reasons: Iterable[str], ignored: Iterable[str]) -> None:
        """Begin every labelled counter at 0, so that a rate can be taken from the first event on."""
        for verdict in VERDICTS:
            self.verdicts.labels(verdict)
        for reason in reasons:
            self.dead_letters.labels(reason)
        for reason in ignored:
            self.frames_ignored.labels(reason)

    def describe(self, version: str, recipe: str, recipe_id: str, policy_id: str) -> None:
        """Say what is in force."""
        self.info.labels(version, f"{recipe} {recipe_id}", policy_id).set(1)

    def text(self) -> bytes:
        """The exposition that Prometheus scrapes."""
        return generate_latest(self.registry)
