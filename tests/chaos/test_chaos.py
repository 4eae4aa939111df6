"""The short form of the chaos: every scenario once, small, with a seed of its own; `make chaos` does more of it.

Scenarios mostly wait: for a session to end, for a broker to come back. So two of them are always under way, and
each test waits for its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.kafka.broker import KafkaBroker
from tests.chaos.grounds import ChaosGrounds
from tests.chaos.scenarios import SCENARIOS, ChaosScenario

SEED = 20_261_121
AT_ONCE = 2
SHORT = [scenario for scenario in SCENARIOS if scenario.short]
OFTEN = {"kills", "storm", "doubles", "cuts", "matchers_killed"}
"""What the short run does too."""


@pytest.fixture(scope="module")
def under_way(
    request: pytest.FixtureRequest, broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> Iterator[dict[str, Future[str]]]:
    """The scenarios that were asked for, by name, begun in their order."""
    here = [item for item in request.session.items if item.module is request.module]
    names = {item.callspec.params["scenario"].name for item in here}
    with ChaosGrounds(cache, broker) as grounds:
        grounds.warm()
        pool = ThreadPoolExecutor(AT_ONCE)
        begun = {}
        for scenario in SHORT:
            if scenario.name in names and scenario.short:
                folder = tmp_path_factory.mktemp(scenario.name)
                begun[scenario.name] = pool.submit(grounds.run, scenario, scenario.short, folder, SEED)
        try:
            yield begun
        finally:
            pool.shutdown(cancel_futures=True)


@pytest.mark.kafka
@pytest.mark.parametrize(
    "scenario",
    [pytest.param(one, id=one.name, marks=() if one.name in OFTEN else pytest.mark.long) for one in SHORT],
)
def test_each_page_gets_one_verdict(scenario: ChaosScenario, under_way: dict[str, Future[str]]) -> None:
    print(under_way[scenario.name].result())
