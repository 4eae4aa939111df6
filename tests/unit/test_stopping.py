"""A service that is asked to stop by a signal hears of it at any moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

AT_A_BAD_MOMENT = """
import os, signal, threading
from simstream.cli.signals import stop_on_signals
stop = threading.Event()
stop_on_signals(stop)
with stop._cond:  # where stop.wait() is for a moment
    os.kill(os.getpid(), signal.{name})
assert stop.wait(60)
print("stopped")
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_that_comes_while_the_event_is_locked_is_heard(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_A_BAD_MOMENT.format(name=name)], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"stopped\n"), done.stderr
