"""A real schema registry for tests and for trying the service: download, start, stop.

    with SchemaRegistry() as registry:
        ...                      # registry.url is what `registry.url` in the settings takes

`python -m deploy.registry.registry [--port 8081]` runs one in the foreground until Ctrl-C. It keeps its schemas in
memory. It needs Java 17 or newer and Maven, as the broker does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from deploy.kafka.broker import QUICK, WATCH, free_port
from deploy.kafka.jars import BrokerError, Say, download_once, missing_packages

HERE = Path(__file__).resolve().parent
POM = HERE / "pom.xml"
NAME = "registry"
HEAP = "256m"


def say_on_stderr(text: str) -> None:
    """Print a line of progress on stderr."""
    print(f"registry: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a command's progress


def missing() -> list[str]:
    """Return the apt packages to install before a registry can run."""
    return missing_packages(POM, NAME)


def _unpack(folder: Path) -> None:
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()


class SchemaRegistry:
    """One registry with its own process group; also a context manager. It ends with the process that started it."""

    def __init__(self, port: int | None = None, say: Say = say_on_stderr) -> None:
        self.port = port or free_port()
        self._say = say
        self._folder = Path(tempfile.mkdtemp(prefix="simstream-registry-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of its API that is compatible with Confluent's registry."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, patience: float = 60.0) -> Self:
        """Start it, without any schema, and wait until it answers. Raises BrokerError with the end of its log."""
        jars = download_once(POM, NAME, "a schema registry (142 MB, once; a minute or so)", self._say, _unpack)
        [jar] = jars.glob("*-runner.jar")
        java = ["java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", *QUICK, f"-Djava.io.tmpdir={self._folder}"]
        java += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}", "-jar", str(jar)]
        with (self._folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                java, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self._folder
            )
        watch = [sys.executable, "-c", WATCH, str(self._process.pid), str(self._folder)]
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)
        end = time.monotonic() + patience
        while time.monotonic() < end and self.is_running:
            if self._answers():
                return self
            time.sleep(0.1)
        tail = (self._folder / "registry.log").read_text(errors="replace")[-2000:]
        self.stop()
        raise BrokerError(f"the registry on port {self.port} did not start: {tail}")

    def pause(self) -> None:
        """Freeze it until `resume`: it accepts connections, and does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen registry go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it. Its schemas are gone."""
        self._signal(signal.SIGKILL)
        for process in (self._process, self._watch):
            if process is not None:
                process.kill()
                process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _signal(self, what: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, what)


def main() -> int:
    """Run a registry in the foreground, to try the service."""
    parser = argparse.ArgumentParser(description="Run a schema registry on this machine, until Ctrl-C.")
    parser.add_argument("--port", type=int, default=8081)
    options = parser.parse_args()
    if packages := missing():
        say_on_stderr(f"NO REGISTRY. Install: apt-get install {' '.join(packages)}")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with SchemaRegistry(options.port) as registry:
            say_on_stderr(f"ready: {registry.url} (Ctrl-C stops it, and its schemas are gone)")
            while registry.is_running:
                time.sleep(0.5)
            return 1
    except BrokerError as error:
        say_on_stderr(str(error))
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
