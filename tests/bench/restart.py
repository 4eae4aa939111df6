"""`python -m tests.bench.restart`: how long the service takes until it is ready again, with its state in a folder.

The log holds made-up pages (`made_pages`); `serve --roles judge --state DIR` judges them and is ended, then killed.
Ready is what `/health/ready` says, from the start of the process on: Python, kernels from the cache, the state.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS
from simstream.settings import default_cache
from simstream.text.fingerprinter import Fingerprinter
from simstream.text.recipe_file import load_recipe
from simstream.wire import frame as frames
from tests.bench.made_pages import BATCH, PageMaker
from tests.e2e.harness import Program, Service
from tests.kafka_fixtures import TopicPlace

RARELY = {
    "SIMSTREAM_SNAPSHOT_EVERY": "24h",
    "SIMSTREAM_SNAPSHOT_PAGES": "1000000000",
    "SIMSTREAM_STOP_TIMEOUT": "10m",
}
PATIENCE_S = 3600.0


def write(log: Log, made: PageMaker, pages: int, recipe: str) -> int:
    """Append frames with `pages` more pages, and return the number of frames in the log."""
    info = log.topic("pages")
    with log.open_appender(FINGERPRINTS) as appender:
        end = made.count + pages
        while made.count < end:
            start = made.count
            columns = made.batch(min(BATCH, end - start))
            header = frames.FrameHeader(
                recipe=recipe,
                topic=info.name,
                topic_id=info.id,
                partition=0,
                start=start,
                to=made.count,
                sketch_words=columns.sketch.shape[1],
                first=start == 0,
            )
            appender.append(frames.encode(header, columns), partition=0)
    return log.end_offsets(FINGERPRINTS)[0]


def judged(service: Service, to: int) -> None:
    """Wait until the frames up to `to` are judged and published."""
    service.until(lambda: service.metric("simstream_log_position") == to, f"frame {to} is judged", PATIENCE_S)
    service.until(lambda: "ready" in service.get("/health/ready")[1], "it is ready", PATIENCE_S)


def until_ready(service: Service, began: float) -> str:
    """Wait until it is ready; return the seconds since `began`, and its log lines about the state."""
    service.until(lambda: service.get("/health/ready")[0] == 200, "it is ready", PATIENCE_S)
    took = time.perf_counter() - began
    lines = [
        line.split(": ", 1)[1] for line in service.output.splitlines() if "loaded in" in line or "replaying" in line
    ]
    return f"{took:.1f} s ({'; '.join(lines)})"


def run(pages: int, tail: int, folder: Path) -> None:
    """Fill, end, restart, kill `tail` pages after the snapshot, restart; prints what each took."""
    cache = Path(os.environ.get("SIMSTREAM_CACHE") or default_cache())
    program = Program(folder, cache, TopicPlace(str(folder / "log"), "simstream"))
    program.good("topics", "create", "--partitions", 1)
    arguments = ("--roles", "judge", "--state", folder / "state")
    made = PageMaker(0.1, 0.1)
    with program.place.open() as log:
        with Fingerprinter(load_recipe("default"), cache, workers=0) as fingerprinter:
            recipe = fingerprinter.recipe_id
        end = write(log, made, pages, recipe)
        with program.serve(*arguments, SIMSTREAM_STOP_TIMEOUT="10m") as service:
            began = time.perf_counter()
            judged(service, end)
            took = time.perf_counter() - began
            print(f"{pages:,} pages judged in {took:,.0f} s: {pages / took:,.0f} a second")
            stage = 'simstream_batch_seconds_{}{{stage="snapshot"}}'
            taken, seconds = service.metric(stage.format("count")), service.metric(stage.format("sum"))
            print(f"{taken:.0f} snapshots held it up for {1000 * seconds / max(1, taken):,.0f} ms each")
            began = time.perf_counter()
            assert service.end(timeout=600) == 0, service.output
            print(f"clean stop, with the whole state written: {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        with program.serve(*arguments, **RARELY) as service:
            print(f"ready after a clean stop: {until_ready(service, began)}")
            judged(service, write(log, made, tail, recipe))
            service.until(lambda: log_has(log, made.count), "all is published", PATIENCE_S)
            service.kill()
        began = time.perf_counter()
        with program.serve(*arguments, **RARELY) as service:
            print(f"ready after a kill, {tail:,} pages behind the snapshot: {until_ready(service, began)}")
            began = time.perf_counter()
            assert service.end(timeout=600) == 0
            print(f"clean stop, with what has changed written: {time.perf_counter() - began:.1f} s")


def log_has(log: Log, verdicts: int) -> bool:
    """Whether this many verdicts are committed."""
    return sum(log.end_offsets("verdicts").values()) >= verdicts


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--tail", type=int, default=40_000, help="pages after the last snapshot, at the kill")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="simstream-restart-") as folder:
        run(options.pages, options.tail, Path(folder))


if __name__ == "__main__":
    main()
