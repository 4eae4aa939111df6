"""All scenarios: what they need, and how much of each is done in the short and in the long form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.arena import Arena, Scale
from tests.chaos.faults import (
    brokers,
    clocks,
    connections,
    frames,
    groups,
    kills,
    memory,
    slowness,
    state,
    topics,
    zombies,
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`brokers` is 1 or 3; without `short` it is part of the long form alone."""

    run: Callable[[Arena, Scale], str]
    short: Scale | None
    long: Scale
    brokers: int = 1

    @property
    def name(self) -> str:
        return self.run.__name__


SCENARIOS = (
    Scenario(kills.kills, Scale(5, 500), Scale(60, 4_000)),
    Scenario(state.states, Scale(5, 400), Scale(60, 4_000)),
    Scenario(zombies.zombies, Scale(1, 400), Scale(4, 2_000)),
    Scenario(zombies.outlived, Scale(1, 200), Scale(3, 1_000)),
    Scenario(zombies.stalled, None, Scale(3, 1_000)),
    Scenario(groups.storm, Scale(4, 400), Scale(30, 3_000)),
    Scenario(frames.one_of_five, Scale(1, 0), Scale(10, 0)),
    Scenario(frames.doubles, Scale(2, 400), Scale(12, 3_000)),
    Scenario(connections.cuts, Scale(16, 800), Scale(100, 4_000)),
    Scenario(topics.partitions_added, Scale(2, 200), Scale(10, 2_000)),
    Scenario(topics.log_cut, Scale(1, 100), Scale(1, 1_000)),
    Scenario(topics.another_log, Scale(1, 100), Scale(1, 1_000)),
    Scenario(clocks.clocks, Scale(10, 600), Scale(40, 4_000)),
    Scenario(memory.backlog, Scale(6, 50_000), Scale(60, 1_000_000)),
    Scenario(slowness.narrow, Scale(1, 6_000), Scale(1, 32_000)),
    Scenario(slowness.slow_pages, Scale(1, 24), Scale(1, 200)),
    Scenario(slowness.window_moves, Scale(2, 20_000), Scale(4, 300_000)),
    Scenario(brokers.leaders_killed, Scale(1, 200), Scale(9, 3_000), brokers=3),
    Scenario(brokers.below_min_insync, Scale(1, 200), Scale(4, 2_000), brokers=3),
    Scenario(brokers.frozen, None, Scale(6, 2_000), brokers=3),
)
