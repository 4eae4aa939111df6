"""The broker for tests: it leaves nothing behind, and says what it lacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.kafka.broker import HERE, Broker, missing_packages

START = (
    "import time\nfrom deploy.kafka.broker import Broker\nbroker = Broker().start()\n"
    "print(broker.pid, broker.data, flush=True)\ntime.sleep(600)\n"
)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.kafka
def test_a_broker_ends_with_the_process_that_started_it_and_takes_its_data_along(broker: Broker) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", START], stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]
    )
    assert process.stdout is not None
    pid, data = process.stdout.readline().split()
    assert is_alive(int(pid))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    end = time.monotonic() + 10
    while (is_alive(int(pid)) or Path(data).exists()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_alive(int(pid))
    assert not Path(data).exists()


def test_what_is_missing_is_named_as_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SIMSTREAM_CACHE", str(tmp_path))
    assert missing_packages() == ["openjdk-17-jre-headless", "maven"]


def test_an_old_java_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert "openjdk-17-jre-headless" in missing_packages()
