"""All scenarios: what they need, and how much of each is done in the short and in the long form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.arena import ChaosArena, ChaosScale
from tests.chaos.faults import (
    answers,
    brokers,
    clocks,
    connections,
    frames,
    groups,
    kills,
    memory,
    shards,
    slowness,
    state,
    topics,
    zombies,
)


@dataclass(frozen=True, slots=True)
class ChaosScenario:
    """`brokers` is 1 or 3; without `short` it is part of the long form alone."""

    run: Callable[[ChaosArena, ChaosScale], str]
    short: ChaosScale | None
    long: ChaosScale
    brokers: int = 1

    @property
    def name(self) -> str:
        return self.run.__name__


SCENARIOS = (
    ChaosScenario(brokers.leaders_killed, ChaosScale(1, 200), ChaosScale(9, 3_000), brokers=3),
    ChaosScenario(kills.kills, ChaosScale(5, 500), ChaosScale(60, 4_000)),
    ChaosScenario(state.states, ChaosScale(5, 400), ChaosScale(60, 4_000)),
    ChaosScenario(zombies.zombies, ChaosScale(1, 400), ChaosScale(4, 2_000)),
    ChaosScenario(zombies.outlived, ChaosScale(1, 200), ChaosScale(3, 1_000)),
    ChaosScenario(zombies.stalled, None, ChaosScale(3, 1_000)),
    ChaosScenario(groups.storm, ChaosScale(4, 400), ChaosScale(30, 3_000)),
    ChaosScenario(groups.fleet, ChaosScale(3, 800), ChaosScale(20, 5_000)),
    ChaosScenario(frames.one_of_five, ChaosScale(1, 0), ChaosScale(10, 0)),
    ChaosScenario(frames.doubles, ChaosScale(2, 400), ChaosScale(12, 3_000)),
    ChaosScenario(brokers.below_min_insync, ChaosScale(1, 200), ChaosScale(4, 2_000), brokers=3),
    ChaosScenario(connections.cuts, ChaosScale(16, 800), ChaosScale(100, 4_000)),
    ChaosScenario(topics.partitions_added, ChaosScale(2, 200), ChaosScale(10, 2_000)),
    ChaosScenario(topics.log_cut, ChaosScale(1, 100), ChaosScale(1, 1_000)),
    ChaosScenario(topics.another_log, ChaosScale(1, 100), ChaosScale(1, 1_000)),
    ChaosScenario(clocks.clocks, ChaosScale(10, 600), ChaosScale(40, 4_000)),
    ChaosScenario(memory.backlog, ChaosScale(6, 50_000), ChaosScale(60, 1_000_000)),
    ChaosScenario(slowness.narrow, ChaosScale(1, 6_000), ChaosScale(1, 32_000)),
    ChaosScenario(slowness.slow_pages, ChaosScale(1, 24), ChaosScale(1, 200)),
    ChaosScenario(slowness.window_moves, ChaosScale(2, 20_000), ChaosScale(4, 300_000)),
    ChaosScenario(shards.matchers_killed, ChaosScale(6, 500), ChaosScale(60, 4_000)),
    ChaosScenario(shards.matchers_asleep, ChaosScale(1, 300), ChaosScale(12, 3_000)),
    ChaosScenario(shards.shards_missing, ChaosScale(2, 200), ChaosScale(10, 2_000)),
    ChaosScenario(shards.matchers_storm, ChaosScale(4, 400), ChaosScale(30, 3_000)),
    ChaosScenario(answers.answers_forged, ChaosScale(2, 300), ChaosScale(12, 3_000)),
    ChaosScenario(answers.answers_cut, ChaosScale(8, 400), ChaosScale(60, 4_000)),
    ChaosScenario(shards.matchers_lose_brokers, ChaosScale(1, 200), ChaosScale(8, 2_000), brokers=3),
    ChaosScenario(brokers.frozen, None, ChaosScale(6, 2_000), brokers=3),
)
"""In the order in which the suite begins them. Those with three brokers are apart: they wait for each other."""
