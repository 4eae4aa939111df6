"""Work in forked processes, which have one thread and all memory of this one, and the processes of a folder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from simstream.errors import UsageError

PATIENCE_S: Final = 120.0


def forked(work: Callable[[], object]) -> int:
    """Do this in a forked process, and return its exit code: 0, 3 after a UsageError, negative if it hung."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        except UsageError:
            code = 3
        finally:
            os._exit(code)
    end = time.monotonic() + PATIENCE_S
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(pid, signal.SIGKILL)
        ended = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(ended[1])


@contextmanager
def lingering() -> Iterator[None]:
    """A forked process that does nothing lives within this context."""
    pid = os.fork()
    if not pid:
        while True:
            signal.pause()
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def working_below(folder: Path) -> list[int]:
    """Return the processes that work in a folder or in one of its folders."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if Path(os.readlink(entry / "cwd")).is_relative_to(folder.resolve()):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
