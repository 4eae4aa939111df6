"""The short form of the chaos: every scenario once, small, with a seed of its own; `make chaos` does more of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.kafka.broker import Broker
from deploy.kafka.brokers import Brokers
from tests.chaos.arena import Arena
from tests.chaos.scenarios import SCENARIOS, Scenario

SEED = 20_261_121


@pytest.fixture(scope="module")
def brokers(broker: Broker) -> Iterator[Brokers]:
    """Three brokers for this module; the other one says whether there can be any."""
    with Brokers() as running:
        yield running


def wanted(count: int) -> list[Scenario]:
    return [scenario for scenario in SCENARIOS if scenario.brokers == count and scenario.short]


@pytest.mark.kafka
@pytest.mark.parametrize("scenario", wanted(1), ids=lambda scenario: scenario.name)
def test_each_page_gets_one_verdict(scenario: Scenario, broker: Broker, tmp_path: Path, cache: Path) -> None:
    with Arena(broker, tmp_path, cache, SEED) as arena:
        assert scenario.short is not None
        print(scenario.run(arena, scenario.short))


@pytest.mark.kafka
@pytest.mark.parametrize("scenario", wanted(3), ids=lambda scenario: scenario.name)
def test_each_page_gets_one_verdict_of_three_brokers(
    scenario: Scenario, brokers: Brokers, tmp_path: Path, cache: Path
) -> None:
    with Arena(brokers, tmp_path, cache, SEED) as arena:
        assert scenario.short is not None
        print(scenario.run(arena, scenario.short))
