"""A command's process ends with its own exit code, and with nothing that C libraries do at an exit."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.on_exit(ctypes.cast(libc.abort, ctypes.c_void_p), None)
from simstream.cli.main import run
sys.argv = ["simstream", *sys.argv[1:]]
run()
"""
"""A program of which the C library's exit makes an abort."""


def start(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["--help"], 0), (["no-such-command"], 2)])
def test_a_command_ends_without_the_end_of_its_libraries(arguments: list[str], code: int) -> None:
    done = start(*arguments)
    assert done.returncode == code
    assert bool(done.stdout) is (code == 0)
    assert len(done.stderr.splitlines()) == (code != 0)


def test_what_cannot_be_written_at_the_end_is_told_by_the_exit_code() -> None:
    with open("/dev/full", "w") as full:
        assert start("--version", stdout=full.fileno()).returncode == 1


HANGING = """
import threading
from concurrent.futures import ThreadPoolExecutor
from simstream.cli import main
main.LEAVING_S = 0.1
main.invoke = lambda arguments: ThreadPoolExecutor().submit(threading.Event().wait) and 3
main.run()
"""


def test_a_thread_that_hangs_at_the_end_does_not_keep_the_process() -> None:
    assert subprocess.run([sys.executable, "-c", HANGING], timeout=60, check=False).returncode == 3
