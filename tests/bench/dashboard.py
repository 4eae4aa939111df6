"""The run that the docs' picture of the dashboard shows: a real broker, service and Prometheus, real pages.

    SIMSTREAM_CORPORA=FOLDER python -m tests.bench.dashboard --minutes 6 docs/pictures/dashboard.png

Two judges, one of which follows. Pages come at some 30 to 55 a second, with a burst after half of the time; from
two thirds on they are mostly copies. The window is two thirds. One page in a hundred is broken, another too short.
The row "Shards" is left out: it has no data without matchers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from deploy.grafana import picture
from deploy.kafka.broker import KafkaBroker
from deploy.prometheus.server import Prometheus
from deploy.server_process import free_port
from tests import corpora

RECENT = 800
"""A copy is of one of this many earlier pages."""
STEP_S = 0.5
COMMAND = [sys.executable, "-m", "simstream"]


def pages(rng: random.Random, each: int) -> Iterator[dict[str, Any]]:
    """Return `each` pages of each corpus, shuffled."""
    found = []
    for name in corpora.REVISIONS:
        found += [doc for _, doc in zip(range(each), corpora.docs(name), strict=False)]
    rng.shuffle(found)
    return ({"id": doc["id"], "text": doc["text"]} for doc in found)


def values(rng: random.Random, copies: float, fresh: Iterator[dict[str, Any]], recent: list[dict[str, Any]]) -> Any:
    """The next page: its id and its record's value."""
    chance = rng.random()
    if recent and chance < copies:
        page = dict(rng.choice(recent))
        page["id"] += f"/copy {rng.randrange(10**9)}"
        page["text"] = page["text"][rng.randrange(max(1, len(page["text"]) // 30)) :]
    elif recent and chance < copies + 0.05:
        page = rng.choice(recent)
    else:
        page = next(fresh)
        recent.append(page)
        del recent[:-RECENT]
    broken = rng.random()
    if 0.01 <= broken < 0.02:
        page = {"id": f"{page['id']}/short", "text": "短"}
    value = json.dumps(page, ensure_ascii=False).encode()
    return page["id"].encode(), value[:-3] if broken < 0.01 else value


def feed(servers: str, minutes: float, each: int) -> None:
    """Send pages until the time is over."""
    rng = random.Random(4)
    fresh = pages(rng, each)
    recent: list[dict[str, Any]] = []
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    began = time.monotonic()
    while (part := (time.monotonic() - began) / (60 * minutes)) < 1:
        rate = 250 if 0.5 < part < 0.57 else 30 + 25 * abs((part * 3) % 2 - 1)
        for _ in range(int(rate * STEP_S)):
            key, value = values(rng, 0.12 if part < 0.66 else 0.6, fresh, recent)
            producer.produce("simstream.pages", value, key)
        producer.poll(0)
        time.sleep(STEP_S)
    producer.flush(30)


def run(minutes: float, each: int, file: Path) -> None:
    """All of it, in a temporary folder; then the picture."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(KafkaBroker())
        where = ["--log", broker.address, "--window", f"{minutes * 40:.0f}s"]
        environment = {**os.environ, "SIMSTREAM_SNAPSHOT_EVERY": "60s", "PYTHONPATH": str(Path.cwd() / "stream")}
        environment.pop("SIMSTREAM_CORPORA", None)
        subprocess.run([*COMMAND, "topics", "create", "--partitions", "4", *where[:2]], env=environment, check=True)
        ports = [free_port(), free_port()]
        for port, more in zip(ports, (["--state", str(folder / "state")], ["--roles", "judge"]), strict=True):
            command = [*COMMAND, "serve", "--http-port", str(port), *more, *where]
            process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        targets = {"simstream": [f"127.0.0.1:{port}" for port in ports]}
        prometheus = stack.enter_context(Prometheus(folder, targets, every="2s"))
        feed(broker.address.removeprefix("kafka://"), minutes, each)
        picture.draw(prometheus.address, minutes, time.time(), file, "15s", leave_out=["Shards"])
        print(f"{file}; alerts that fired at the end: {', '.join(prometheus.firing()) or 'none'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--pages", type=int, default=6_000, help="of each corpus")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    run(options.minutes, options.pages, options.file)
