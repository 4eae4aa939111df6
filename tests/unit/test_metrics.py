"""Metrics: what each says of itself, and how many series there can be."""

from __future__ import annotations

import random
import re
import time
from typing import cast

import pytest
from prometheus_client import Counter, Gauge

from simstream.judge.policy import Policy
from simstream.judge.state import JudgeState
from simstream.roles.judge import judge_metrics
from simstream.roles.judge.judge_metrics import JudgeMetrics
from simstream.telemetry.histogram import Histogram
from simstream.telemetry.metrics import PARTITION, SHARD, SIZE, Metrics, RisingCounter, cluster_sizes


def test_every_metric_is_named_as_prometheus_asks_for() -> None:
    for metric in Metrics().described:
        assert re.fullmatch(r"simstream_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.sentence.endswith("."), metric.name
        if metric.unit in ("seconds", "bytes", "ratio"):
            assert f"_{metric.unit}" in metric.name, metric.name
        assert not re.search(r"_(ms|milliseconds|kb|mb|percent|minutes)(_|$)", metric.name)


def test_no_label_can_grow_without_bound() -> None:
    for metric in Metrics().described:
        for label in metric.labels:
            assert label.values or label.bound, f"{metric.name} says not what {label.name} may be"
            assert label.name not in ("url", "host", "id", "page", "cluster")


def test_the_number_of_series_is_what_the_description_says() -> None:
    metrics, partitions, shards = Metrics(), 40, 16
    for number in range(partitions):
        for gauge in (metrics.source_lag, metrics.source_lag_seconds, metrics.source_position):
            gauge.labels(number).set(1)
    for number in range(shards):
        for gauge in (*held_shard(metrics), metrics.shard_lag):
            gauge.labels(number).set(1)
        metrics.shard_info.labels(number, 1, "a matcher").set(1)
    fixed = sum(each.series for each in metrics.described if not {PARTITION, SHARD} & {*each.labels})
    by_partition = sum(each.series for each in metrics.described if PARTITION in each.labels)
    by_shard = sum(each.series for each in metrics.described if SHARD in each.labels)
    lines = [line for line in metrics.text().decode().splitlines() if line.startswith("simstream_")]
    assert len(lines) <= fixed + partitions * by_partition + shards * by_shard
    assert fixed < 420
    assert (by_partition, by_shard) == (3, 6)


def held_shard(metrics: Metrics) -> tuple[Gauge, ...]:
    """What a matcher sets for each shard that it holds, besides its name."""
    return metrics.shard_entries, metrics.shard_bytes, metrics.shard_position, metrics.shard_replay


def test_a_partition_that_went_has_no_series_any_more() -> None:
    metrics = Metrics()
    metrics.source_lag.labels(3).set(5)
    metrics.forget(3)
    metrics.forget(4)
    assert 'partition="3"' not in metrics.text().decode()


def test_a_partition_that_only_an_earlier_topic_of_pages_had_has_no_position() -> None:
    state, metrics = JudgeState(Policy("0badcafe", 0, 3, 0, None, "any")), Metrics()
    state.acceptor.positions = {("earlier", 0): 9, ("earlier", 1): 9, ("latest", 0): 3}
    JudgeMetrics(state, metrics).set_state()
    read = metrics.registry.get_sample_value
    assert [read("simstream_source_position", {"partition": partition}) for partition in "01"] == [3, None]


def test_only_positions_that_have_changed_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    state, metrics = JudgeState(Policy("0badcafe", 0, 3, 0, None, "any")), Metrics()
    monkeypatch.setattr(judge_metrics, "EVERY_S", 0.0)
    measured, read = JudgeMetrics(state, metrics), metrics.registry.get_sample_value
    state.acceptor.positions = {("topic", 0): 5, ("topic", 1): 7}
    measured.set_state()
    metrics.source_position.labels(1).set(-1)
    state.acceptor.positions["topic", 0] = 6
    measured.set_state()
    assert [read("simstream_source_position", {"partition": partition}) for partition in "01"] == [6, -1]


def test_a_shard_that_went_has_no_series_of_its_matcher_any_more_and_keeps_that_of_the_judge() -> None:
    metrics = Metrics()
    for gauge in (*held_shard(metrics), metrics.shard_lag):
        gauge.labels(3).set(5)
    metrics.shard_info.labels(3, 1, "a").set(1)
    metrics.forget_shard(3, 1, "a")
    metrics.forget_shard(4, 1, "a")
    left = [line for line in metrics.text().decode().splitlines() if 'shard="3"' in line]
    assert left == ['simstream_shard_lag_frames{shard="3"} 5.0']


def test_a_histogram_in_bulk_is_the_same_as_one_by_one() -> None:
    chosen = random.Random(3)
    values = [round(chosen.uniform(-1, 12), 1) for _ in range(500)]
    values += [0.0, 1.0, 2.0, 10.0]  # on the bounds
    slow, quick = Histogram("h", "h", (0, 1, 2, 10)), Histogram("h", "h", (0, 1, 2, 10))
    for value in values:
        slow.observe(value)
    quick.observe_all({value: values.count(value) for value in set(values)})
    [one], [other] = slow.collect(), quick.collect()
    assert [(each.labels, each.value) for each in one.samples[:-1]] == [
        (each.labels, each.value) for each in other.samples[:-1]
    ]
    counts = {each.labels.get("le"): each.value for each in one.samples if each.name == "h_bucket"}
    for bound in (0, 1, 2, 10):
        assert counts[str(float(bound))] == sum(value <= bound for value in values)
    assert counts["+Inf"] == len(values)
    assert one.samples[-1].value == pytest.approx(other.samples[-1].value)


def test_a_page_of_a_producer_without_a_clock_has_no_latency() -> None:
    histogram, now_ms = Histogram("h", "h", (3600,)), int(time.time() * 1000)
    histogram.observe_since({-1: 5, 0: 7, now_ms - 60_000: 2, now_ms + 60_000: 1})
    [family] = histogram.collect()
    values = {each.name: each.value for each in family.samples}
    assert values["h_count"] == 3
    assert 120 <= values["h_sum"] < 3600


def test_totals_that_others_count_are_carried_over_once() -> None:
    metrics = Metrics()
    rising = RisingCounter(metrics.transactions)
    for totals in ({"committed": 2}, {"committed": 2, "fenced": 1}, {"committed": 7, "fenced": 1}):
        rising.follow(totals)
    read = metrics.registry.get_sample_value
    assert read("simstream_transactions_total", {"result": "committed"}) == 7
    assert read("simstream_transactions_total", {"result": "fenced"}) == 1
    assert read("simstream_transactions_total", {"result": "aborted"}) == 0


def test_totals_may_gain_a_label_while_they_are_carried_over() -> None:
    metrics = Metrics()
    totals = {"committed": 2}

    class CountingCarrier:
        """Counts another result while the first is carried over, as the publisher's thread may."""

        def labels(self, value: str) -> object:
            totals["fenced"] = 1
            return metrics.transactions.labels(value)

    rising = RisingCounter(cast(Counter, CountingCarrier()))
    rising.follow(totals)
    rising.follow(totals)
    read = metrics.registry.get_sample_value
    assert read("simstream_transactions_total", {"result": "committed"}) == 2
    assert read("simstream_transactions_total", {"result": "fenced"}) == 1


def test_every_cluster_is_in_one_class() -> None:
    sizes = {1: 10, 2: 5, 3: 1, 4: 1, 5: 2, 9: 1, 10: 3, 99: 1, 100: 1, 999: 1, 1000: 1, 70_000: 1}
    counts = cluster_sizes(sizes)
    assert tuple(counts) == SIZE.values
    assert counts == {"1": 10, "2": 5, "3-4": 2, "5-9": 3, "10-99": 4, "100-999": 2, "1000+": 2}


def test_a_folder_that_is_closed_is_measured_no_more_even_if_it_was_the_only_one() -> None:
    metrics = Metrics()
    metrics.watch_snapshots("lost", lambda: 9_999.0, lambda: 1)
    metrics.forget_snapshots("lost")
    none = {"simstream_snapshot_age_seconds 0.0", "simstream_state_damaged_files 0.0"}
    assert none <= set(metrics.text().decode().splitlines())
    metrics.watch_snapshots("taken again", lambda: 1.0, lambda: 0)
    assert "simstream_snapshot_age_seconds 1.0" in metrics.text().decode().splitlines()


def test_a_role_beside_a_judge_counts_none_of_its_frames_and_tells_of_its_own_folder() -> None:
    metrics = Metrics()
    second = metrics.of_second_state()
    for one in (metrics, second):
        one.frames.inc(3)
        one.position.set(3 if one is metrics else 2)
        one.watch_snapshots(one, lambda one=one: 5.0 if one is metrics else 9.0, lambda: 1)  # type: ignore[misc]
    told = metrics.text().decode().splitlines()
    assert {
        "simstream_frames_accepted_total 3.0",
        "simstream_log_position 3.0",
        "simstream_snapshot_age_seconds 9.0",
        "simstream_state_damaged_files 2.0",
    } <= set(told)
