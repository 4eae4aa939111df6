"""The panels of the dashboard: rows, titles, units, queries. `dashboard.py` makes simstream.json from them."""

from __future__ import annotations

from typing import NamedTuple

OF_JOB = 'job=~"$job"'
OF = f'{OF_JOB}, prefix=~"$prefix"'
ELECTED = f'and on (job, instance) simstream_role_elected{{{OF}, role="judge"}} == 1'
"""Of the elected judge: the others count what they judge, too, and publish nothing."""


class Query(NamedTuple):
    """An expression of Prometheus, and the names of its lines."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """One graph. `unit` has Grafana's name; `stack`: lines are stacked."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    stack: bool = False


def _rate(metric: str, by: str, only: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{OF}}}[$__rate_interval]){only and f' {only}'})"


def _quantile(share: float, metric: str, by: str = "") -> str:
    names = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', names)})"


def _quantiles(metric: str) -> tuple[Query, ...]:
    return tuple(Query(_quantile(share, metric), name) for share, name in ((0.5, "half"), (0.99, "99 of 100")))


def _most(metric: str, by: str, more: str = "") -> str:
    return f"max by ({by}) ({metric}{{{OF}{more}}})"


def _share_of(verdict: str) -> str:
    one = f'sum(rate(simstream_verdicts_total{{{OF}, verdict="{verdict}"}}[$__rate_interval]))'
    return f"{one} / sum(rate(simstream_verdicts_total{{{OF}}}[$__rate_interval]))"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Flow": (
        Panel(
            "Pages read and verdicts committed",
            "cps",
            (
                Query(_rate("simstream_pages_consumed_total", "job"), "pages"),
                Query(_rate("simstream_verdicts_total", "job"), "verdicts"),
            ),
        ),
        Panel(
            "Verdicts by kind", "cps", (Query(_rate("simstream_verdicts_total", "verdict"), "{{verdict}}"),), True
        ),
        Panel(
            "Pages that wait",
            "short",
            (Query(_most("simstream_source_lag_pages", "partition"), "partition {{partition}}"),),
        ),
        Panel(
            "Lag in seconds",
            "s",
            (
                Query(_most("simstream_source_lag_seconds", "partition"), "pages, partition {{partition}}"),
                Query(_most("simstream_log_lag_seconds", "job"), "log"),
            ),
        ),
        Panel(
            "Frames that wait for their verdicts",
            "short",
            (
                Query(
                    f"{_most('simstream_log_position', 'job')} - {_most('simstream_published_position', 'job')}",
                    "judged, not committed",
                ),
                Query(_most("simstream_replay_remaining_frames", "instance"), "to be replayed, {{instance}}"),
            ),
        ),
        Panel(
            "Who is elected",
            "short",
            (Query(_most("simstream_role_elected", "instance"), "{{instance}}"),),
        ),
    ),
    "Latency": (
        Panel("From page to committed verdict", "s", _quantiles("simstream_end_to_end_latency_seconds")),
        Panel("From page to frame in the log", "s", _quantiles("simstream_frame_latency_seconds")),
        Panel("From frame to committed verdict", "s", _quantiles("simstream_verdict_latency_seconds")),
        Panel(
            "Time of a batch by stage, 99 of 100",
            "s",
            (Query(_quantile(0.99, "simstream_batch_seconds", "stage"), "{{stage}}"),),
        ),
        Panel(
            "Time by stage",
            "percentunit",
            (Query(_rate("simstream_batch_seconds_sum", "stage"), "{{stage}}"),),
            True,
        ),
    ),
    "Index": (
        Panel(
            "Live pages and entries",
            "short",
            (
                Query(_most("simstream_live_pages", "job"), "pages"),
                Query(_most("simstream_index_entries", "job"), "entries"),
            ),
        ),
        Panel(
            "Bytes by part",
            "bytes",
            (
                Query(_most("simstream_index_bytes", "part"), "{{part}}"),
                Query(_most("simstream_state_bytes", "part"), "{{part}}"),
            ),
            True,
        ),
        Panel(
            "Bytes by permuted table",
            "bytes",
            (Query(_most("simstream_index_table_bytes", "table"), "{{table}}"),),
            True,
        ),
        Panel("Segments", "short", (Query(_most("simstream_index_segments", "instance"), "{{instance}}"),)),
        Panel(
            "Window",
            "s",
            (
                Query(_most("simstream_window_span_seconds", "job"), "held"),
                Query(_most("simstream_window_seconds", "job"), "set"),
            ),
        ),
        Panel(
            "Age of the newest snapshot",
            "s",
            (Query(_most("simstream_snapshot_age_seconds", "instance"), "{{instance}}"),),
        ),
        Panel(
            "Until the log loses what a restart needs",
            "s",
            (Query(_most("simstream_retention_margin_seconds", "instance"), "{{instance}}"),),
        ),
    ),
    "Shards": (
        Panel(
            "Frames that wait for a shard",
            "short",
            (Query(_most("simstream_shard_lag_frames", "shard"), "shard {{shard}}"),),
        ),
        Panel(
            "Published frames that a matcher has not read",
            "short",
            (Query(_most("simstream_shard_replay_frames", "instance, shard"), "shard {{shard}}, {{instance}}"),),
        ),
        Panel(
            "Shards of a matcher",
            "short",
            (
                Query(
                    f"count by (copy, matcher) (simstream_shard_info{{{OF}}})",
                    "copy {{copy}}: {{matcher}}",
                ),
            ),
            True,
        ),
        Panel("Entries by shard", "short", (Query(_most("simstream_shard_entries", "shard"), "shard {{shard}}"),)),
        Panel(
            "Bytes of a matcher",
            "bytes",
            (Query(f"sum by (instance) (simstream_shard_bytes{{{OF}}})", "{{instance}}"),),
            True,
        ),
        Panel(
            "Answers taken and ignored",
            "cps",
            (
                Query(_rate("simstream_answers_total", "job"), "taken"),
                Query(_rate("simstream_answers_ignored_total", "reason"), "{{reason}}"),
            ),
        ),
    ),
    "Quality": (
        Panel(
            "Shares of all verdicts",
            "percentunit",
            tuple(
                Query(_share_of(kind), kind) for kind in ("near_duplicate", "unchanged", "too_short", "unreadable")
            ),
        ),
        Panel("Similarity of near duplicates", "short", _quantiles("simstream_similarity_ratio")),
        Panel("Distance of near duplicates", "short", _quantiles("simstream_hamming_distance")),
        Panel("Clusters by pages", "short", (Query(_most("simstream_clusters", "size"), "{{size}}"),)),
        Panel(
            "Candidates a page",
            "short",
            (
                Query(
                    f"{_rate('simstream_candidates_total', 'job', ELECTED)}"
                    f" / {_rate('simstream_verdicts_total', 'job')}",
                    "within the distance",
                ),
                Query(
                    f"{_rate('simstream_candidates_rejected_total', 'job', ELECTED)}"
                    f" / {_rate('simstream_verdicts_total', 'job')}",
                    "rejected",
                ),
            ),
        ),
        Panel(
            "Largest cluster",
            "percentunit",
            (Query(_most("simstream_largest_cluster_ratio", "job"), "of all live pages"),),
        ),
    ),
    "Faults": (
        Panel(
            "Dead letters by reason",
            "cps",
            (Query(_rate("simstream_dead_letters_total", "reason"), "{{reason}}"),),
            True,
        ),
        Panel(
            "Frames ignored by reason",
            "cps",
            (Query(_rate("simstream_frames_ignored_total", "reason"), "{{reason}}"),),
        ),
        Panel(
            "Transactions by result", "cps", (Query(_rate("simstream_transactions_total", "result"), "{{result}}"),)
        ),
        Panel(
            "Rebalances, restarts, elections lost",
            "cps",
            (
                Query(_rate("simstream_rebalances_total", "job"), "rebalances"),
                Query(_rate("simstream_delivery_restarts_total", "job"), "delivery restarts"),
                Query(_rate("simstream_elections_lost_total", "job"), "elections lost"),
            ),
        ),
        Panel(
            "Seconds since a role's last sign",
            "s",
            (Query(_most("simstream_turn_age_seconds", "instance, role"), "{{role}} {{instance}}"),),
        ),
        Panel(
            "Memory",
            "bytes",
            (Query(_most("simstream_memory_bytes", "instance, kind"), "{{kind}} {{instance}}"),),
        ),
    ),
}
