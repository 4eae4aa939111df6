"""The benchmark of latency, small: the service's own histogram says the same as a reader in another process."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.e2e.harness import ROOT, environment

NEAR_MS = 20.0
NEAR = 0.1
"""The same as a share, for a machine so busy that pages wait for half a second."""


@pytest.mark.kafka
@pytest.mark.long
def test_a_reader_in_another_process_and_the_histogram_tell_the_same_latency(cache) -> None:
    command = [sys.executable, "-m", "tests.bench.latency", "--count", "300", "--partitions", "2"]
    command += ["--verdict-partitions", "1"]
    command += ["--fingerprinters", "1", "--rate", "150", "--rate", "half", "--backlog", "3000", "--seconds", "3"]
    command += ["--warm", "3", "--warm-rate", "200", "--max-floor", "5000"]
    done = subprocess.run(command, cwd=ROOT, env=environment(cache), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    means = re.findall(r"mean ([\d.]+) ms by the reader, ([\d.]+) ms by simstream_end_to_end", done.stdout)
    assert len(means) == 2
    for reader, histogram in means:
        assert abs(float(reader) - float(histogram)) < max(NEAR_MS, NEAR * float(reader))
    assert re.search(r"150 pages/s, 450 pages: median \d+", done.stdout)
    assert len(re.findall(r"> above the floor: median", done.stdout)) == 2


@pytest.mark.kafka
@pytest.mark.long
def test_a_slow_floor_is_refused(cache) -> None:
    command = [sys.executable, "-m", "tests.bench.latency", "--count", "50", "--partitions", "1", "--rate", "50"]
    command += [
        "--fingerprinters",
        "1",
        "--seconds",
        "1",
        "--warm",
        "1",
        "--warm-rate",
        "50",
        "--max-floor",
        "0.01",
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment(cache), capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "too busy to measure" in done.stderr
