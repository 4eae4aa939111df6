"""A real schema registry for tests and for trying the service: download, start, stop.

    with SchemaRegistry() as registry:
        ...                      # registry.url is what `registry.url` in the settings takes

`python -m deploy.registry.registry [--port 8081]` runs one in the foreground until Ctrl-C. It keeps its schemas in
memory. It needs Java 17 or newer and Maven, as the broker does.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

from deploy.kafka.jars import Say, download_once, missing_packages, say_on_stderr
from deploy.server_process import QUICK_JAVA, ServerProcess

HERE = Path(__file__).resolve().parent
POM = HERE / "pom.xml"
NAME = "registry"
HEAP = "256m"

_say = partial(say_on_stderr, program="registry")


def missing() -> list[str]:
    """Return the apt packages to install before a registry can run."""
    return missing_packages(POM, NAME)


def _unpack(folder: Path) -> None:
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()


class SchemaRegistry(ServerProcess):
    """One registry."""

    name = "registry"

    def __init__(self, port: int | None = None, say: Say = _say) -> None:
        super().__init__(port, None)
        self._say = say

    @property
    def url(self) -> str:
        """The address of its API that is compatible with Confluent's registry."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def launch(self) -> None:
        """Start it without any schema, and do not wait."""
        jars = download_once(POM, NAME, "a schema registry (142 MB, once; a minute or so)", self._say, _unpack)
        [jar] = jars.glob("*-runner.jar")
        java = ["java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", *QUICK_JAVA, f"-Djava.io.tmpdir={self.data}"]
        java += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}", "-jar", str(jar)]
        self._launch(java, self.data)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def main() -> int:
    """Run a registry in the foreground, to try the service."""
    parser = argparse.ArgumentParser(description="Run a schema registry on this machine, until Ctrl-C.")
    parser.add_argument("--port", type=int, default=8081)
    options = parser.parse_args()
    if packages := missing():
        _say(f"NO REGISTRY. Install: apt-get install {' '.join(packages)}")
        return 1
    registry = SchemaRegistry(options.port)
    ready = f"ready: {registry.url} (Ctrl-C stops it, and its schemas are gone)"
    return registry.run(ready, _say, f"make registry PORT={options.port + 1}")


if __name__ == "__main__":
    sys.exit(main())
