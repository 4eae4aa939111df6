"""What a page costs that is like thousands of others."""

from __future__ import annotations

import pytest

from tests.bench.crowd import costs
from tests.bench.made_pages import BATCH, alike_by_one, template

SMALL, LARGE = 4_000, 16_000


@pytest.mark.long
def test_a_page_costs_hardly_more_in_a_cluster_four_times_as_large() -> None:
    costs(template(4 * BATCH), [])  # compiled
    rounds = [costs(template(LARGE), [SMALL, LARGE]) for _ in range(3)]
    small, large = (min(times) for times in zip(*rounds, strict=True))
    assert large < 2.5 * small  # 1.7 to 2.1 were measured; 4 if the cluster were all of the cost


@pytest.mark.long
@pytest.mark.parametrize("draw", [0, 1])
def test_a_page_costs_hardly_more_in_a_cluster_that_is_alike_by_one_of_two_fingerprints(draw: int) -> None:
    costs(alike_by_one(2 * BATCH, draw), [], fingerprints=2)  # compiled
    rounds = [costs(alike_by_one(LARGE, draw), [SMALL, LARGE], fingerprints=2) for _ in range(2)]
    small, large = (min(times) for times in zip(*rounds, strict=True))
    assert large < 2.5 * small
