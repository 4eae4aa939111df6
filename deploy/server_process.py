"""Programs that serve tests, and people who try the service, on ports of this machine."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from deploy.kafka.jars import BrokerError, Say

PORTS: Final = range(15_000, 32_000)
"""The ports are below those for outgoing connections: such a connection could take the port of a
server that is down, even the connection of a client that tries to reach it."""
QUICK_JAVA: Final = ["-XX:TieredStopAtLevel=1"]
"""Java options: a server starts in half the time, and is slower later."""

_STANDING: Final = frozenset("TtZXx")
"""The states of threads that are stopped, or have ended."""

# Ends the server's process group when the process that started it is gone, however it went: standard input
# is a pipe that only that process holds open. The server can't be a plain child with a parent-death signal,
# because that signal follows the thread that forked, not the process.
_WATCH: Final = """
import os, shutil, signal, sys
sys.stdin.buffer.read()
try:
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
for temporary in sys.argv[2:]:
    shutil.rmtree(temporary, ignore_errors=True)
"""


def free_port() -> int:
    """Return a free loopback port."""
    while is_taken(port := random.choice(PORTS)):
        pass
    return port


def is_taken(port: int) -> bool:
    """Return whether a process listens on this loopback port. Connections that are just ending do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


def freeze(pid: int) -> None:
    """Stop a process by SIGSTOP, and return once none of its threads runs any more, or once it has ended.

    The signal alone does not wait: under load the other threads go on for 2 to 144 ms, and answer meanwhile.
    Raises ProcessLookupError if there is no such process. Linux only.
    """
    os.kill(pid, signal.SIGSTOP)
    while not _states(pid) <= _STANDING:
        time.sleep(0.001)


def _states(pid: int) -> set[str]:
    """Return the state of each thread of a process, a letter each (`man proc_pid_stat`)."""
    found = set[str]()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            found.add(thread.read_text().rpartition(") ")[2][0])
    return found


class ServerProcess(ABC):
    """A server with its own process group and folder; also a context manager.

    Without `data` the folder is a temporary one that is removed with the server. The server ends with the process
    that started it, also if that process is killed.
    """

    name: str

    def __init__(self, port: int | None, data: Path | None) -> None:
        self.port = port or free_port()
        self.data = data or Path(tempfile.mkdtemp(prefix=f"simstream-{self.name}-"))
        self._temporary = data is None
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process; None if it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.data / f"{self.name}.log"

    @abstractmethod
    def launch(self) -> None:
        """Start it, and do not wait."""

    def start(self, patience: float = 60.0) -> Self:
        """Start it, and wait until it answers. Raises BrokerError with the end of its log."""
        self.launch()
        self.wait(patience)
        return self

    def wait(self, patience: float = 60.0) -> None:
        """Wait until it answers. Raises BrokerError like `start`."""
        end = time.monotonic() + patience
        while time.monotonic() < end and self.pid is not None:
            if self._answers():
                return
            time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-2000:]
        self.kill()
        self.stop()
        raise BrokerError(f"the {self.name} on port {self.port} did not start: {tail}")

    def kill(self) -> None:
        """End it at once, like a crash. Its folder stays."""
        self._end(signal.SIGKILL)

    def restart(self, patience: float = 60.0) -> Self:
        """Start it again on the same port and folder. It may run or not."""
        self.kill()
        return self.start(patience)

    def pause(self) -> None:
        """Freeze it until `resume`: it accepts connections, and does not answer."""
        if self.pid is not None:
            freeze(self.pid)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it, and remove a temporary folder."""
        self._end(signal.SIGKILL if self._temporary else signal.SIGTERM)
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def run(self, ready: str, say: Say, another: str) -> int:
        """Run it until Ctrl-C, SIGTERM or its own end; `ready` is said once it answers. Returns the exit code.

        `another`: the command that takes another port.
        """
        if is_taken(self.port):
            say(f"port {self.port} is taken: stop its process, or choose another: {another}")
            self.stop()
            return 1
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            with self:
                say(ready)
                while self.pid is not None:
                    time.sleep(0.5)
                self._temporary = False  # its log says why
                say(f"the {self.name} ended by itself; its log: {self.log}")
                return 1
        except BrokerError as error:
            say(str(error))
            return 1
        except KeyboardInterrupt:
            return 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether it answers a request."""

    def _launch(self, command: list[str], cwd: Path | None = None) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=cwd
            )
        watch = [sys.executable, "-c", _WATCH, str(self._process.pid)]
        watch += [str(self.data)] if self._temporary else []
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            os.killpg(process.pid, how)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.kill()
            watch.communicate()
