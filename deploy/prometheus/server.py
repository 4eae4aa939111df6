"""A real Prometheus on loopback, for tests and for drawing the dashboard: start, ask, stop.

    with Prometheus(folder, targets={"simstream": ["127.0.0.1:9464"]}) as prometheus:
        prometheus.ask("up")

Needs Debian's package `prometheus` (with promtool), and nothing else.
"""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.server_process import ServerProcess

HERE = Path(__file__).parent
PROGRAMS = ("prometheus", "promtool")
PACKAGE = "prometheus"
Series = dict[str, Any]


def missing_packages() -> list[str]:
    """Return the packages to install; empty if nothing is missing."""
    return [] if all(shutil.which(name) for name in PROGRAMS) else [PACKAGE]


class Prometheus(ServerProcess):
    """One process with its data in `folder`, which scrapes `targets`, by job, every `every` (such as 15s)."""

    name = "prometheus"

    def __init__(
        self, folder: Path, targets: Mapping[str, Sequence[str]], rules: str = "", every: str = "1s"
    ) -> None:
        super().__init__(None, folder)
        (folder / "rules.yml").write_text(rules or (HERE / "alerts.yml").read_text(encoding="utf-8"))
        (folder / "prometheus.yml").write_text(_configuration(targets, every))

    @property
    def address(self) -> str:
        """`HOST:PORT` of its HTTP API."""
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Start it, and do not wait."""
        self._launch(
            [
                "prometheus",
                f"--config.file={self.data / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.data / 'data'}",
                f"--web.listen-address={self.address}",
                "--query.lookback-delta=1m",
            ]
        )

    def ask(self, expression: str) -> list[Series]:
        """Return the present value of an expression. Raises ValueError if Prometheus does not understand it."""
        found: list[Series] = self.get("query", query=expression)["result"]
        return found

    def over(self, expression: str, begin: float, end: float, step: float) -> list[Series]:
        """Return its values from one time to another, in seconds since 1970."""
        found: list[Series] = self.get("query_range", query=expression, start=begin, end=end, step=step)["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Return all recording and alerting rules, with the state of each."""
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        return {rule["name"] for rule in self.rules() if rule.get("state") == "firing"}

    def metrics(self) -> set[str]:
        """Return the names of all series."""
        return set(self.get("label/__name__/values"))

    def get(self, path: str, **parameters: object) -> Any:
        """Ask the HTTP API."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{parameters}: {error.read().decode(errors='replace')}") from error

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _configuration(targets: Mapping[str, Sequence[str]], every: str) -> str:
    """JSON is YAML, too."""
    jobs = [
        {"job_name": job, "static_configs": [{"targets": list(addresses)}]} for job, addresses in targets.items()
    ]
    return json.dumps(
        {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": ["rules.yml"],
            "scrape_configs": jobs,
        }
    )
