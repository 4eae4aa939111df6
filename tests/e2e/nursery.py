"""Commands that share one start: a process that has imported the program forks for each of them.

Most of a short command's time goes to imports and to compiled kernels that it loads. Each command is still a
process with its own arguments, environment, folder and standard streams. A command gets a new interpreter outside
of pytest, with `--real-starts`, and where a test changes variables that are not the program's own.

`python -m tests.e2e.nursery DESCRIPTOR` is the process that forks. It has one thread and reads requests from a
socket. For each it forks a keeper, which forks the command, tells its number and waits for its end.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FILE_BYTES = 1 << 20
"""Bytes of a request."""
LEFT_OUT = (
    "simstream.feeds",
    "simstream.crawlers",
    "simstream.spark",
    "simstream.evaluate",
    "simstream.text.unicode_tables",
)
"""What few commands import, and what brings large libraries."""
FOUND_LATE = ("confluent_kafka.admin", "rich.console", "rich.live", "rich.table")
"""What functions of the program import when they are called."""

_shared: dict[str, str] | None = None
_nursery: CommandNursery | None = None
_lock = threading.Lock()


class ForkedCommand:
    """A command that was forked, with the part of `Popen` that tests use."""

    def __init__(self, pid: int, keeper: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._keeper = keeper
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises subprocess.TimeoutExpired."""
        with self._lock:
            if self.returncode is None:
                if not select.select([self._keeper], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired("simstream", timeout or 0)
                self.returncode = int(self._keeper.recv(64))
                self._keeper.close()
            return self.returncode

    def send_signal(self, what: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended, and the keeper has not said so yet
                os.kill(self.pid, what)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class CommandNursery:
    """The process that forks, for one environment but for the program's own variables."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.cache = environ["SIMSTREAM_CACHE"]
        self._control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own = {name: value for name, value in environ.items() if not name.startswith("SIMSTREAM_")}
        line = [sys.executable, "-m", "tests.e2e.nursery", str(there.fileno())]
        self._process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            cwd=ROOT,
            env=own | {"SIMSTREAM_CACHE": self.cache},
            pass_fds=[there.fileno()],
        )
        there.close()
        atexit.register(self._control.close)

    def start(
        self, arguments: Sequence[str], streams: Sequence[int], folder: Path, environ: dict[str, str]
    ) -> ForkedCommand:
        """Start a command with these standard streams."""
        here, keeper = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps({"arguments": list(arguments), "folder": str(folder), "environ": environ})
        with keeper:
            socket.send_fds(self._control, [request.encode()], [*streams, keeper.fileno()])
        pid = here.recv(64)
        assert pid, "the process that forks has ended"
        return ForkedCommand(int(pid), here)


def share() -> None:
    """From now on fork for commands that have the environment of this process."""
    global _shared
    _shared = _common(dict(os.environ))


def nursery_of(environ: dict[str, str]) -> CommandNursery | None:
    """Return what forks for this environment; None where an interpreter has to start anew."""
    global _nursery
    if _shared is None or _common(environ) != _shared:
        return None
    with _lock:
        if _nursery is None:
            _nursery = CommandNursery(environ)
    return _nursery if environ["SIMSTREAM_CACHE"] == _nursery.cache else None


def _common(environ: dict[str, str]) -> dict[str, str]:
    """What commands of one nursery have in common."""
    own = ("SIMSTREAM_", "PYTEST_CURRENT_TEST", "PYTHONPATH", "PYTHONUNBUFFERED")
    return {name: value for name, value in environ.items() if not name.startswith(own)}


def run(
    nursery: CommandNursery,
    arguments: Sequence[str],
    stdin: bytes,
    folder: Path,
    environ: dict[str, str],
    timeout: float,
) -> subprocess.CompletedProcess[bytes]:
    """One command to its end, as `subprocess.run` does it with captured output."""
    (stdin_read, stdin_write), (out_read, out_write), (error_read, error_write) = (os.pipe() for _ in range(3))
    try:
        started = nursery.start(arguments, (stdin_read, out_write, error_write), folder, environ)
    finally:
        for descriptor in (stdin_read, out_write, error_write):
            os.close(descriptor)
    with ThreadPoolExecutor(3) as pool:
        writing = pool.submit(_write, stdin_write, stdin)
        out, error = pool.submit(_read, out_read), pool.submit(_read, error_read)
        try:
            code = started.wait(timeout)
        except subprocess.TimeoutExpired:
            started.kill()
            raise
        writing.result()
        return subprocess.CompletedProcess(["simstream", *arguments], code, out.result(), error.result())


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as pipe:
        pipe.write(data)


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read()


def _prepare() -> None:
    """Import what commands import, and load the kernels that they load; no thread is left."""
    import simstream
    from simstream.deduper import fingerprint
    from simstream.judge.policy import make_policy
    from simstream.judge.warming import warm_judge
    from simstream.settings import resolve
    from simstream.text.recipe_file import load_recipe

    for module in pkgutil.walk_packages(simstream.__path__, "simstream."):
        if not module.name.startswith(LEFT_OUT) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in FOUND_LATE:
        importlib.import_module(name)
    fingerprint(["one two three four five six seven eight nine ten"], cache=resolve({}).settings.cache_folder)
    warm_judge(make_policy(load_recipe("default"), ""))
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()


def _fork_on_request(control: socket.socket) -> None:
    """Serve requests until the other side is gone; returns in each command's process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_FILE_BYTES, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            if (pid := os.fork()) == 0:
                return _become(json.loads(message), descriptors)
            _keep(pid, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(pid: int, descriptors: Sequence[int]) -> None:
    *streams, keeper = descriptors
    for descriptor in (0, 1, 2, *streams):
        os.close(descriptor)
    os.write(keeper, str(pid).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):  # nobody asks any more
        os.write(keeper, str(code).encode())
    os._exit(0)


def _become(request: dict[str, object], descriptors: Sequence[int]) -> None:
    """Take on a command's arguments, environment, folder and streams."""
    for standard, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, standard)
    os.closerange(3, 1 << 10)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environ"])  # type: ignore[call-overload]
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [folder for folder in own if folder and folder not in sys.path]  # an interpreter would do it
    sys.argv = ["simstream", *request["arguments"]]  # type: ignore[misc]


if __name__ == "__main__":
    _prepare()
    _fork_on_request(socket.socket(fileno=int(sys.argv[1])))
    from simstream.cli.main import run as run_command

    run_command()
