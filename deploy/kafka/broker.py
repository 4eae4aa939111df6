"""A real one-node Kafka broker for tests and for trying the service: download, start, kill, restart, stop.

    with KafkaBroker() as broker:
        ...                      # kafka://127.0.0.1:PORT is broker.address

`python -m deploy.kafka.broker [--port 9092] [--data DIR]` runs one in the foreground until Ctrl-C.
Needs Java 17 or newer and Maven, and nothing else; `jars.missing_packages()` names what is absent.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from deploy.kafka.jars import HERE, BrokerError, Say, download, missing_packages, say_on_stderr
from deploy.server_process import QUICK_JAVA, ServerProcess, free_port

HEAP = "512m"
CLASSES = "classes.jsa"
END_S = 120.0


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


class KafkaBroker(ServerProcess):
    """One node, with its records in `data`.

    `quick`: Java compiles for a few seconds instead of a minute or two, and produces slower code.
    `classes`: the file to which Java writes its classes when it ends. If None, it reads the file of `keep_classes`.

    It listens twice. `detour_port` sends its clients to the port `detour` from then on. The node does not listen
    there: a test may put a proxy there, which sees all that its clients say.
    """

    name = "broker"

    def __init__(
        self,
        port: int | None = None,
        data: Path | None = None,
        say: Say = say_on_stderr,
        node: BrokerNode | None = None,
        quick: bool = False,
        classes: Path | None = None,
    ) -> None:
        super().__init__(port, data)
        self.node = node or BrokerNode()
        self.detour_port = free_port()
        self.detour = free_port()
        self._controller_port = self.node.controller_port or free_port()
        self._say = say
        self._quick = quick
        self._classes = classes

    @property
    def servers(self) -> str:
        """`HOST:PORT`, as Kafka's clients take it."""
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """`kafka://HOST:PORT`, as `--log` takes it."""
        return f"kafka://{self.servers}"

    def launch(self) -> None:
        """Start it, and do not wait."""
        jars = download(self._say)
        config = self._write_config()
        if not (self.data / "log" / "meta.properties").is_file():
            self._format(jars, config)
        java = _java(jars, f"-Xmx{HEAP}", "-XX:+UseSerialGC")
        java += [f"-XX:ArchiveClassesAtExit={self._classes}"] if self._classes else []
        # Several at once run only to be killed, so they need not be fast.
        java += QUICK_JAVA if self._quick or self.node.brokers > 1 else []
        java += [f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", "kafka.Kafka", str(config)]
        self._launch(java)

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
        java = _java(jars, *QUICK_JAVA, f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}")
        java += ["kafka.tools.StorageTool", "format", f"--cluster-id={_base64(identity)}", "-c", str(config)]
        java += self._format_options()
        done = subprocess.run(java, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerError(f"Kafka could not format {self.data}: {(done.stdout + done.stderr)[-2000:]}")


def _java(jars: Path, *options: str) -> list[str]:
    """Return the command that runs a class of these jars, up to the name of the class."""
    kept = jars / CLASSES
    return ["java", *options, *([f"-XX:SharedArchiveFile={kept}"] if kept.is_file() else []), "-cp", f"{jars}/*"]


def keep_classes(say: Say = say_on_stderr) -> None:
    """Keep beside the jars what Java makes of their classes, with which later brokers start in half the time.

    A broker runs and ends for it, once. Another version of Java passes over the file; where none could be
    written, brokers only start more slowly. Raises BrokerError if there are no jars, or the broker does not start.
    """
    jars = download(say)
    if (jars / CLASSES).exists():
        return
    say("keeping Java's classes, so that brokers start in half the time (once; half a minute or so)")
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=jars.parent) as folder:
        made = Path(folder) / CLASSES
        with KafkaBroker(data=Path(folder) / "data", quick=True, classes=made) as broker:
            if (pid := broker.pid) is not None:
                os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + END_S
            while broker.pid is not None:
                if time.monotonic() > end:
                    return
                time.sleep(0.1)
        if made.is_file():
            with made.open("rb") as file:
                os.fsync(file.fileno())  # half of such a file ends Java by SIGBUS
            made.rename(jars / CLASSES)


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
    parser.add_argument(
        "--prepare", action="store_true", help="only fetch the jars and keep Java's classes, for `make test`"
    )
    options = parser.parse_args()
    missing = missing_packages()
    if missing:
        say_on_stderr(f"NO BROKER: what needs one is left out. Install: apt-get install {' '.join(missing)}")
        return 0 if options.prepare and os.environ.get("CI") != "true" else 1
    if options.prepare:
        try:
            keep_classes()
        except BrokerError as error:
            say_on_stderr(str(error))
            return 1
        return 0
    broker = KafkaBroker(options.port, options.data)
    return broker.run(
        _ready_line(broker, options.data is None), say_on_stderr, f"make broker PORT={options.port + 1}"
    )


def _ready_line(broker: KafkaBroker, temporary: bool) -> str:
    kept = "a temporary folder, gone with the broker; make broker DATA=DIR keeps them" if temporary else "they stay"
    create = f"simstream topics create --log {broker.address}"
    return f"ready: {create}\nbroker: records are in {broker.data} ({kept}); Ctrl-C stops the broker"


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
