"""A real one-node Kafka broker for tests and for trying the service: download, start, kill, restart, stop.

    with Broker() as broker:
        ...                      # kafka://127.0.0.1:PORT is broker.address

`python -m deploy.kafka.broker [--port 9092] [--data DIR]` runs one in the foreground until Ctrl-C.
Needs Java 17 or newer and Maven, and nothing else; `missing_packages()` names what is absent.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Self

HERE = Path(__file__).resolve().parent
LEAST_JAVA = 17
HEAP = "512m"

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

Say = Callable[[str], None]


class BrokerError(RuntimeError):
    """The broker cannot be downloaded or started; the message says why."""


def say_on_stderr(text: str) -> None:
    """Print a line of progress where it does not mix with a command's output."""
    print(f"broker: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a command's progress


def missing_packages() -> list[str]:
    """The apt packages to install before a broker can run; empty where all is there."""
    missing = []
    if _java_version() < LEAST_JAVA:
        missing.append("openjdk-17-jre-headless")
    if shutil.which("mvn") is None and not _jars_folder().is_dir():
        missing.append("maven")
    return missing


def _java_version() -> int:
    java = shutil.which("java")
    if java is None:
        return 0
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else 0


def _cache_folder() -> Path:
    named = os.environ.get("SIMSTREAM_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "simstream"


def _jars_folder() -> Path:
    """One folder per content of pom.xml, so that another Kafka version never finds the old jars."""
    version = hashlib.sha256((HERE / "pom.xml").read_bytes()).hexdigest()[:12]
    return _cache_folder() / f"kafka-{version}"


def download(say: Say = say_on_stderr) -> Path:
    """The folder with the broker's jars; the first call downloads them (54 MB) with Maven.

    Several processes may call it at once: one downloads, the others wait for it.
    """
    jars = _jars_folder()
    if jars.is_dir():
        return jars
    jars.parent.mkdir(parents=True, exist_ok=True)
    with (jars.parent / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.is_dir():
            say(f"downloading Kafka's jars with Maven into {jars} (54 MB, once; half a minute or so)")
            _copy_jars(jars)
    return jars


def _copy_jars(jars: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jars.parent) as folder:
        shutil.copy(HERE / "pom.xml", folder)  # Maven may write beside it
        partial = Path(folder) / "libs"
        command = ["mvn", "-q", "-B", "-f", f"{folder}/pom.xml", "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={partial}", "-DincludeScope=runtime"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not partial.is_dir():
            raise BrokerError(f"Maven could not download Kafka: {(done.stdout + done.stderr)[-2000:]}")
        partial.rename(jars)


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def is_taken(port: int) -> bool:
    """Whether somebody listens on this loopback port; connections that are just ending do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


class Broker:
    """One broker with its own process group and data; also a context manager.

    Without `data` the records live in a temporary folder that goes with it. The broker ends with the
    process that started it, also where that one is killed.
    """

    def __init__(self, port: int | None = None, data: Path | None = None, say: Say = say_on_stderr) -> None:
        self.port = port or free_port()
        self._controller_port = free_port()
        self._say = say
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
        """The broker's process, None where it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, patience: float = 60.0) -> Self:
        """Start it and wait until it answers; raises BrokerError with the end of its log otherwise."""
        jars = download(self._say)
        config = self._write_config()
        if not (self.data / "log" / "meta.properties").is_file():
            self._format(jars, config)
        java = ["java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
        java += [f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", "kafka.Kafka", str(config)]
        with (self.data / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                java, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        watch = [sys.executable, "-c", WATCH, str(self._process.pid)]
        watch += [str(self.data)] if self._temporary else []
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)
        self._wait(patience)
        return self

    def kill(self) -> None:
        """End it at once, as a crash would; `restart` brings it back on the same data."""
        self._end(signal.SIGKILL)

    def restart(self, patience: float = 60.0) -> Self:
        """Start it again on the same port and data, whether it runs or not."""
        self._end(signal.SIGKILL)
        return self.start(patience)

    def stop(self) -> None:
        """End it; temporary data is removed, so nothing has to be saved."""
        self._end(signal.SIGKILL if self._temporary else signal.SIGTERM)
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def keep_data(self) -> None:
        """Leave the data where it is, also where it is temporary."""
        self._temporary = False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write_config(self) -> Path:
        self.data.mkdir(parents=True, exist_ok=True)
        text = (HERE / "server.properties").read_text()
        fields = {"port": self.port, "controller_port": self._controller_port, "data": self.data.resolve()}
        for name, value in fields.items():
            text = text.replace("{" + name + "}", str(value))
        config = self.data / "server.properties"
        config.write_text(text)
        return config

    def _format(self, jars: Path, config: Path) -> None:
        identity = uuid.uuid4().bytes
        java = ["java", f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", "-cp", f"{jars}/*"]
        java += ["kafka.tools.StorageTool", "format", f"--cluster-id={_base64(identity)}", "-c", str(config)]
        done = subprocess.run(java, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerError(f"Kafka could not format {self.data}: {(done.stdout + done.stderr)[-2000:]}")

    def _wait(self, patience: float) -> None:
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.pid is None:
                break
            if _answers(self.port):
                return
            time.sleep(0.1)
        tail = (self.data / "broker.log").read_text(errors="replace")[-2000:]
        self.kill()
        raise BrokerError(f"the broker on port {self.port} did not start: {tail}")

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


def _answers(port: int) -> bool:
    """Whether an ApiVersions request (key 18, version 0) gets an answer: the port opens before that."""
    request = b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as wire:
            wire.settimeout(2)
            wire.sendall(len(request).to_bytes(4, "big") + request)
            return len(wire.recv(4)) == 4
    except OSError:
        return False


def main() -> int:
    """Run a broker in the foreground for a person who tries the service."""
    parser = argparse.ArgumentParser(description="A one-node Kafka broker on this machine, until Ctrl-C.")
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
    """A broker until Ctrl-C, SIGTERM or its own end; the exit code."""
    if is_taken(port):
        say_on_stderr(f"port {port} is taken: stop what listens there, or choose another with --port")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with Broker(port, data) as broker:
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


def _ready_line(broker: Broker, temporary: bool) -> str:
    kept = "a temporary folder that goes with the broker; --data DIR keeps them" if temporary else "they stay"
    create = f"simstream topics create --log {broker.address}"
    return f"ready: {create}\nbroker: records are in {broker.data} ({kept}); Ctrl-C stops the broker"


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
