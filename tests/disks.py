"""Disks that are full for real: a small file system of its own, and processes that may write no long files."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.missing import skip_or_fail


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """A file system of that size in an empty folder, as root on Linux. Elsewhere the test is skipped; in CI it
    fails."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "simstream", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        skip_or_fail("a small disk needs root on Linux")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Callable[[], None]:
    """Take all room of the folder's disk; gives a function that gives it back."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1000))
    return ballast.unlink


def run_limited(code: str, *arguments: str) -> list[str]:
    """The lines that a process printed in which `room(SIZE)` limits the size of its files."""
    limit = "import resource\ndef room(size):\n    resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1))\n"
    command = [sys.executable, "-c", limit + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
