"""Warming compiles what a judge needs seldom: a crowd, and a step in which very many pages leave."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from simstream.judge.warming import warm_judge
from simstream.kernels.index import packed
from simstream.kernels.judge import crowd, departures, directory
from tests.bench import expiry
from tests.bench.made_pages import policy, template
from tests.bench.state import judge
from simstream.judge.state import JudgeState

KERNELS = [crowd.search, departures.leave_chains, departures.leave_nodes, departures.tidy, directory.clear_others]
link = sys.argv[1]
warm_judge(policy(link, 1000))
warmed = [len(kernel.signatures) for kernel in KERNELS]
state = JudgeState(policy(link, 10_000))
for columns in template(8_000):
    judge(state, columns)
judge(state, expiry.last_page(10**6))
print(*warmed, "then", *(len(kernel.signatures) for kernel in KERNELS))
"""


@pytest.mark.parametrize("link", ["any", "canonical"])
def test_nothing_is_compiled_when_a_crowd_comes_or_all_pages_leave(link: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, link], check=True, capture_output=True, text=True)
    warmed, later = done.stdout.split("then")
    assert warmed.split() == later.split()
    assert link == "canonical" or "0" not in warmed.split()
