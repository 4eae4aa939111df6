"""Compiles kernels in another process meanwhile. This process then loads them from numba's cache."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from simstream.closing import Closing
from simstream.processors import cores

MAX_WAIT_S: Final = 600
LOADING_S: Final = 5.0
"""Kernels that are compiled already are loaded in less time, even on a busy machine."""


class CompilingProcess(Closing):
    """A process that calls a function which compiles kernels; it reads `given` from stdin.

    Starts none with fewer than two cores, where it would gain nothing, nor in a frozen program, which would start
    itself. Whatever becomes of the process, nothing is lost but time: a kernel that it has not compiled is compiled
    where it is first called.
    """

    def __init__(self, module: str, function: str, given: bytes = b"") -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if cores() < 2 or getattr(sys, "frozen", False):
            return
        paths = [path or os.getcwd() for path in sys.path]
        line: list[str] = [sys.executable, "-P", "-c", f"from {module} import {function}; {function}()"]
        settings: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        with contextlib.suppress(OSError):  # no interpreter, no memory or no process more
            self._process = subprocess.Popen(line, stdin=subprocess.PIPE, env=variables, **settings)
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError), self._process.stdin as pipe:
                pipe.write(given)

    @property
    def is_running(self) -> bool:
        """Whether it is still compiling."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> None:
        """Wait until all is compiled, or the process has ended for another reason."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(MAX_WAIT_S)

    def close(self) -> None:
        """End the process. May be called twice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def announced(say: Callable[[str], None], what: str) -> Iterator[None]:
    """Say that kernels are compiled, if the work within takes longer than to load them. `what`: whose kernels."""
    sentence = f"compiling the kernels of {what}, once: this takes half a minute, or more on a busy machine"
    timer = threading.Timer(LOADING_S, say, [sentence])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
