"""Hostile bytes, drawn by hypothesis: a verdict or a named error comes of each, in bounded time. See `fuzz`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fault.fuzz_targets import TARGETS
from tests.fault.watchdog import watched

EXAMPLES = 60
SUPPRESSED = list(HealthCheck)


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_bytes_come_a_verdict_or_a_named_error_comes_of_them(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SUPPRESSED)
    @given(target.strategy)
    def run(drawn: object) -> None:
        with watched():
            target.run(drawn)

    run()
