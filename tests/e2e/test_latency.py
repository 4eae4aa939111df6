"""The benchmark of latency, small: the service's own histogram says the same as a reader in another process."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from tests.bench import latency
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


def test_a_slow_floor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    times = latency.AnswerTimes(np.zeros(50), np.full(50, 7.0))
    reading = SimpleNamespace(count=0, end=lambda: times)
    for name, stub in (("space", None), ("TopicReaderProcess", reading), ("run_load", None)):
        monkeypatch.setattr(latency, name, lambda *_, stub=stub: stub)
    load = latency.PacedLoad([b"{}"], 50.0, 50)
    assert len(latency.floor_of("nowhere", 1, load, 8.0).milliseconds) == 50
    with pytest.raises(latency.FloorSlow, match="at 50 a second"):
        latency.floor_of("nowhere", 1, load, 6.0)

    def slow(**_: object) -> None:
        raise latency.FloorSlow("pages alone come back late")

    monkeypatch.setattr(latency, "KafkaBroker", slow)
    done = CliRunner().invoke(latency.main, ["--count", "50"])
    assert done.exit_code == 1
    assert "too busy to measure" in done.output
