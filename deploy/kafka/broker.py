"""A real one-node Kafka broker for tests and for trying the service: download, start, kill, restart, stop.

    with KafkaBroker() as broker:
        ...                      # kafka://127.0.0.1:PORT is broker.address

`python -m deploy.kafka.broker [--port 9092] [--data DIR]` runs one in the foreground until Ctrl-C.
Needs Java 17 or newer and Maven, and nothing else; `missing_packages()` names what is absent.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from deploy.kafka.jars import HERE, BrokerError, Say, download, missing_packages, say_on_stderr

__all__ = [
    "HERE",
    "BrokerError",
    "BrokerNode",
    "KafkaBroker",
    "answers_on",
    "free_port",
    "is_taken",
    "missing_packages",
    "say_on_stderr",
]
HEAP = "512m"
QUICK = ["-XX:TieredStopAtLevel=1"]
"""Java options: the broker starts in half the time, and is slower later."""
PORTS = range(15_000, 32_000)
"""The ports are below those for outgoing connections: such a connection could take the port of a
broker that is down, even the connection of a client that tries to reach it."""

# Ends the broker's process group when the process that started it is gone, however it went: standard input
# is a pipe that only that process holds open. The broker can't be a plain child with a parent-death signal,
# because that signal follows the thread that forked, not the process.
WATCH = """
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


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A node's place in a cluster. By default the node is a cluster of its own."""

    id: int = 1
    roles: str = "broker,controller"
    controller_port: int = 0
    """0: any free port."""
    voters: str = ""
    """All controllers, as `ID@HOST:PORT,...`; empty: this node."""
    identity: bytes = b""
    """The cluster's id, 16 bytes; empty: a random id."""
    brokers: int = 1


class KafkaBroker:
    """One node with its own process group and data; also a context manager.

    `quick`: Java compiles for a few seconds instead of a minute or two, and produces slower code. Without `data`
    the records live in a temporary folder that is removed with the node. The node ends with the process that
    started it, also if that process is killed.

    It listens twice. `detour_port` sends its clients to the port `detour` from then on. The node does not listen
    there: a test may put a proxy there, which sees all that its clients say.
    """

    def __init__(
        self,
        port: int | None = None,
        data: Path | None = None,
        say: Say = say_on_stderr,
        node: BrokerNode | None = None,
        quick: bool = False,
    ) -> None:
        self.node = node or BrokerNode()
        self.port = port or free_port()
        self.detour_port = free_port()
        self.detour = free_port()
        self._controller_port = self.node.controller_port or free_port()
        self._say = say
        self._quick = quick
        self._temporary = data is None
        self.data = data or Path(tempfile.mkdtemp(prefix="simstream-kafka-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """`HOST:PORT`, as Kafka's clients take it."""
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """`kafka://HOST:PORT`, as `--log` takes it."""
        return f"kafka://{self.servers}"

    @property
    def pid(self) -> int | None:
        """The broker's process; None if it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, patience: float = 60.0) -> Self:
        """Start it, and wait until it answers. Raises BrokerError with the end of its log."""
        self.launch()
        self.wait(patience)
        return self

    def launch(self) -> None:
        """Start it, and do not wait."""
        jars = download(self._say)
        config = self._write_config()
        if not (self.data / "log" / "meta.properties").is_file():
            self._format(jars, config)
        java = ["java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
        # Several at once run only to be killed, so they need not be fast.
        java += QUICK if self._quick or self.node.brokers > 1 else []
        java += [f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", "kafka.Kafka", str(config)]
        with (self.data / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                java, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        watch = [sys.executable, "-c", WATCH, str(self._process.pid)]
        watch += [str(self.data)] if self._temporary else []
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)

    def kill(self) -> None:
        """End it at once, like a crash. `restart` starts it again on the same data."""
        self._end(signal.SIGKILL)

    def restart(self, patience: float = 60.0) -> Self:
        """Start it again on the same port and data. It may run or not."""
        self._end(signal.SIGKILL)
        return self.start(patience)

    def pause(self) -> None:
        """Freeze it until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen broker go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, and remove temporary data."""
        self._end(signal.SIGKILL if self._temporary else signal.SIGTERM)
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def keep_data(self) -> None:
        """Keep the data, even if it is temporary."""
        self._temporary = False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write_config(self) -> Path:
        self.data.mkdir(parents=True, exist_ok=True)
        text = (HERE / "server.properties").read_text()
        for name, value in self._fields().items():
            text = text.replace("{" + name + "}", str(value))
        text += self._more_config()
        config = self.data / "server.properties"
        config.write_text(text)
        return config

    def _more_config(self) -> str:
        """Return the settings after the common ones. Of two lines with one name the later counts."""
        return ""

    def _format_options(self) -> list[str]:
        """Return further arguments for the tool that formats the data."""
        return []

    def _answers(self) -> bool:
        """Return whether it answers a request; its port opens earlier."""
        try:
            port = self.port if "broker" in self.node.roles else self._controller_port
            with socket.create_connection(("127.0.0.1", port), timeout=1) as wire:
                return answers_on(wire)
        except OSError:
            return False

    def _fields(self) -> dict[str, object]:
        """Return the settings that `server.properties` does not have."""
        node, host = self.node, "127.0.0.1"
        listeners = []
        if "broker" in node.roles:
            listeners += [f"PLAINTEXT://{host}:{self.port}", f"DETOUR://{host}:{self.detour_port}"]
        if "controller" in node.roles:
            listeners.append(f"CONTROLLER://{host}:{self._controller_port}")
        told = f"advertised.listeners=PLAINTEXT://{host}:{self.port},DETOUR://{host}:{self.detour}"
        return {
            "node": node.id,
            "roles": node.roles,
            "voters": node.voters or f"{node.id}@{host}:{self._controller_port}",
            "listeners": ",".join(listeners),
            "advertised": told + "\ninter.broker.listener.name=PLAINTEXT" if "broker" in node.roles else "",
            "replicas": min(3, node.brokers),
            "least_replicas": 2 if node.brokers >= 3 else 1,
            "data": self.data.resolve(),
        }

    def _format(self, jars: Path, config: Path) -> None:
        identity = self.node.identity or uuid.uuid4().bytes
        java = ["java", *QUICK, f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", "-cp", f"{jars}/*"]
        java += ["kafka.tools.StorageTool", "format", f"--cluster-id={_base64(identity)}", "-c", str(config)]
        java += self._format_options()
        done = subprocess.run(java, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerError(f"Kafka could not format {self.data}: {(done.stdout + done.stderr)[-2000:]}")

    def wait(self, patience: float = 60.0) -> None:
        """Wait until it answers. Raises BrokerError like `start`."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.pid is None:
                break
            if self._answers():
                return
            time.sleep(0.1)
        tail = (self.data / "broker.log").read_text(errors="replace")[-2000:]
        self.kill()
        raise BrokerError(f"the broker on port {self.port} did not start: {tail}")

    def _signal(self, what: signal.Signals) -> None:
        if self.pid is not None:
            os.killpg(self.pid, what)

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


def _base64(identity: bytes) -> str:
    return base64.urlsafe_b64encode(identity).rstrip(b"=").decode()


def answers_on(wire: socket.socket) -> bool:
    """Return whether this connection answers an ApiVersions request (key 18, version 0). Raises OSError."""
    request = b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
    wire.settimeout(2)
    wire.sendall(len(request).to_bytes(4, "big") + request)
    return len(wire.recv(4)) == 4


def main() -> int:
    """Run a broker in the foreground, to try the service."""
    parser = argparse.ArgumentParser(description="Run a one-node Kafka broker on this machine, until Ctrl-C.")
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--data", type=Path, help="keep the records here (default: a temporary folder)")
    parser.add_argument("--prepare", action="store_true", help="only fetch the jars, for `make test`")
    options = parser.parse_args()
    missing = missing_packages()
    if missing:
        say_on_stderr(f"NO BROKER: what needs one is left out. Install: apt-get install {' '.join(missing)}")
        return 0 if options.prepare and os.environ.get("CI") != "true" else 1
    if options.prepare:
        try:
            download()
        except BrokerError as error:
            say_on_stderr(str(error))
            return 1
        return 0
    return _run(options.port, options.data)


def _run(port: int, data: Path | None) -> int:
    """Run a broker until Ctrl-C, SIGTERM or its own end. Returns the exit code."""
    if is_taken(port):
        say_on_stderr(f"port {port} is taken: stop its process, or choose another: make broker PORT={port + 1}")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with KafkaBroker(port, data) as broker:
            say_on_stderr(_ready_line(broker, data is None))
            while broker.pid is not None:
                time.sleep(0.5)
            broker.keep_data()  # its log says why
            say_on_stderr(f"the broker ended by itself; its log: {broker.data / 'broker.log'}")
            return 1
    except BrokerError as error:
        say_on_stderr(str(error))
        return 1
    except KeyboardInterrupt:
        return 0


def _ready_line(broker: KafkaBroker, temporary: bool) -> str:
    kept = "a temporary folder, gone with the broker; make broker DATA=DIR keeps them" if temporary else "they stay"
    create = f"simstream topics create --log {broker.address}"
    return f"ready: {create}\nbroker: records are in {broker.data} ({kept}); Ctrl-C stops the broker"


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
