"""Which settings of a topic endanger the service: the one rule behind metric, alert, log line and `status`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest

from simstream.log.base import Log, TopicDifference
from simstream.log.kafka import topics
from simstream.log.options import FINGERPRINTS, MATCHES, VERDICTS, LogOptions
from simstream.roles.topics import unfit_settings
from simstream.settings import Settings

WEEK = str(7 * 86_400_000)
KEPT = Settings(state="folder", window="6d")


@pytest.mark.parametrize(
    ("topic", "found", "settings", "fits"),
    [
        (FINGERPRINTS, WEEK, KEPT, True),
        (FINGERPRINTS, WEEK, Settings(state="folder"), True),
        (FINGERPRINTS, WEEK, Settings(window="6d"), False),
        (FINGERPRINTS, WEEK, Settings(state="folder", window="7d"), False),
        (FINGERPRINTS, WEEK, Settings(state="folder", window="6d", snapshot_every="13h"), False),
        (FINGERPRINTS, None, KEPT, False),
        (VERDICTS, WEEK, KEPT, False),
        (MATCHES, WEEK, KEPT, True),
        (MATCHES, WEEK, Settings(window="6d"), False),
        (MATCHES, None, KEPT, False),
    ],
)
def test_a_cut_log_or_cut_answers_fit_with_a_state_and_with_room_for_the_window_and_two_snapshots(
    topic: str, found: str | None, settings: Settings, fits: bool
) -> None:
    log = create_autospec(Log)
    other = TopicDifference("message.timestamp.type", "CreateTime", "not LogAppendTime")
    log.differences.return_value = {topic: [TopicDifference("retention.ms", found, "not -1"), other]}
    unfit = unfit_settings(log, [topic], settings)[topic]
    assert other in unfit
    assert len(unfit) == (1 if fits else 2)


def test_a_log_with_an_index_on_matchers_may_not_be_cut() -> None:
    """A shard that moves to a matcher without its snapshot needs all of it."""
    log, cut = create_autospec(Log), TopicDifference("retention.ms", WEEK, "not -1")
    log.differences.return_value = {FINGERPRINTS: [cut], MATCHES: [cut]}
    assert unfit_settings(log, [FINGERPRINTS, MATCHES], KEPT) == {FINGERPRINTS: [cut], MATCHES: []}


@pytest.mark.parametrize(
    ("replicas", "in_sync", "told"),
    [
        (1, "1", {"replicas: 1, less than 3"}),
        (1, "2", {"replicas: 1, less than 3"}),
        (2, "1", {"replicas: 2, less than 3"}),
        (2, "2", set()),
        (3, "1", {"min.insync.replicas: 1, less than 2"}),
        (3, "2", set()),
    ],
)
def test_one_lost_broker_of_three_may_cost_no_record(replicas: int, in_sync: str, told: set[str]) -> None:
    """Two replicas that must both be in sync are a choice: it stands still while one of them is away."""
    cluster: Any = SimpleNamespace(options=LogOptions(), replicas=lambda _: replicas)
    found = topics.wanted_settings(cluster, FINGERPRINTS, 3) | {"min.insync.replicas": in_sync}
    assert {str(one) for one in topics._unfit(cluster, FINGERPRINTS, found, 3)} == told
