"""Tests of the processes that serve tests: what is frozen stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from deploy.server_process import freeze

# Its threads keep all cores busy without the lock of Python's interpreter.
_BUSY = """
import hashlib, threading
def work():
    while True:
        hashlib.sha256(bytes(10_000_000))
for _ in range(20):
    threading.Thread(target=work).start()
print(flush=True)
"""


def test_no_thread_of_a_frozen_process_goes_on() -> None:
    busy = subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE)
    assert busy.stdout is not None
    with busy:
        try:
            busy.stdout.readline()
            for _ in range(5):
                freeze(busy.pid)
                threads = Path(f"/proc/{busy.pid}/task").glob("*/status")
                assert {line for one in threads for line in one.read_text().splitlines() if "State:" in line} == {
                    "State:\tT (stopped)"
                }
                os.kill(busy.pid, signal.SIGCONT)
        finally:
            busy.kill()


def test_a_process_that_another_one_started_can_be_frozen() -> None:
    program = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {_BUSY!r}]).pid, flush=True)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
    try:
        freeze(pid)
        assert "State:\tT (stopped)" in Path(f"/proc/{pid}/status").read_text()
    finally:
        os.kill(pid, signal.SIGKILL)


def test_freezing_a_process_that_ended_waits_for_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as ended:
        assert ended.stdout is not None
        ended.stdout.read()
        freeze(ended.pid)
