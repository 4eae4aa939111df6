"""What a page costs that is like thousands of others."""

from __future__ import annotations

import pytest

from tests.bench.crowd import costs
from tests.bench.made_pages import BATCH, template

SMALL, LARGE = 4_000, 16_000


@pytest.mark.long
def test_a_page_costs_hardly_more_in_a_cluster_four_times_as_large() -> None:
    costs(template(4 * BATCH), [])  # compiled
    rounds = [costs(template(LARGE), [SMALL, LARGE]) for _ in range(3)]
    small, large = (min(times) for times in zip(*rounds, strict=True))
    assert large < 2 * small
