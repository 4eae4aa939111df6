"""The service as its user runs it: commands as processes, and what a `read_committed` reader sees of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import KafkaException

from simstream.judge.acceptor import Acceptor
from simstream.judge.policy import make_policy
from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import FINGERPRINTS, VERDICTS
from simstream.model import Record
from simstream.text.recipe import PRESETS
from simstream.text.recipe_file import load_recipe
from simstream.wire import verdict as wire
from tests.e2e import nursery, pages
from tests.kafka_fixtures import TopicPlace
from tests.naive import judge_log

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join((str(ROOT / "stream"), str(ROOT)))
"""This checkout's own sources come first, also if another checkout is installed."""
Done = subprocess.CompletedProcess[bytes]
PATIENCE_S = 120.0
"""Seconds that anything is waited for; far more than it should need, as the machine may be busy."""
COMMAND_S = 120.0


def environment(cache: Path, **more: str) -> dict[str, str]:
    """An environment without settings of its own, but for those given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SIMSTREAM_")}
    return clean | {"SIMSTREAM_CACHE": str(cache), "PYTHONPATH": PYTHONPATH, "PYTHONUNBUFFERED": "1"} | more


def command_line(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "simstream", *map(str, arguments)]


QUICK_SESSION = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 300}
"""Settings of a client whose place another takes soon after a kill; the broker for tests admits them."""
QUICK_GROUPS = {
    f"SIMSTREAM_KAFKA_{name.replace('.', '_').upper()}": str(value) for name, value in QUICK_SESSION.items()
}
"""The same as variables of a service."""


class Program:
    """The command `simstream` in a folder, over one place."""

    def __init__(self, folder: Path, cache: Path, place: TopicPlace | None = None) -> None:
        self.folder = folder
        self.place: TopicPlace = place  # type: ignore[assignment]  # None only where no command needs a log
        self._cache = cache

    def run(self, *arguments: object, stdin: bytes = b"", **variables: str) -> Done:
        """One command to its end."""
        environ = environment(self._cache, **variables)
        if (shared := nursery.nursery_of(environ)) is not None:
            return nursery.run(shared, [*map(str, arguments)], stdin, self.folder, environ, COMMAND_S)
        return subprocess.run(
            command_line(*arguments),
            input=stdin,
            capture_output=True,
            cwd=self.folder,
            env=environ,
            timeout=COMMAND_S,
            check=False,
        )

    def on_log(self, *arguments: object, stdin: bytes = b"", **variables: str) -> Done:
        """One command over this place's log."""
        return self.run(*arguments, *self.where, stdin=stdin, **variables)

    def good(self, *arguments: object, stdin: bytes = b"", **variables: str) -> str:
        """The same, which must end with 0; what it printed."""
        done = self.on_log(*arguments, stdin=stdin, **variables)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def feed(self, count: int, seed: int = 1) -> None:
        """Send `count` pages, made from a seed."""
        self.good("feed", pages.write(self.folder / f"{seed}.jsonl", count, seed))

    def judge(self, count: int, *flags: object, **variables: str) -> list[bytes]:
        """Serve until `count` verdicts are there, and end well; return all verdicts by ordinal."""
        with self.place.open() as log, watching(log) as watcher, self.serve(*flags, **variables) as service:
            watcher.wait(count, service)
            assert service.end() == 0, service.output
            return by_ordinal(watcher.rest())

    def dedup(self, *arguments: object, stdin: bytes = b"") -> list[dict[str, Any]]:
        """The verdicts that `dedup` prints with a service's distance."""
        distance = str(PRESETS["default"].distance)
        done = self.run("dedup", "--max-unreadable", 1, *arguments, stdin=stdin, SIMSTREAM_DISTANCE=distance)
        assert done.returncode == 0, done.stderr.decode()
        return [json.loads(line) for line in done.stdout.splitlines()]

    @contextmanager
    def serve(self, *arguments: object, **variables: str) -> Iterator[Service]:
        """`serve` over this place, killed at the end where it still runs."""
        service = Service(self, [*map(str, arguments), *self.where], environment(self._cache, **variables))
        try:
            yield service
        finally:
            service.kill()

    def refused(self, *arguments: object, code: int = 1, **variables: str) -> str:
        """Serve, which must end by itself with this exit code; the line that says why."""
        with self.serve(*arguments, **variables) as service:
            return service.failed(code)

    @contextmanager
    def news(self, *arguments: object, **variables: str) -> Iterator[Service]:
        """`news` over this place, likewise."""
        given = [*map(str, arguments), *self.where]
        service = Service(self, given, environment(self._cache, **variables), "news")
        try:
            yield service
        finally:
            service.kill()

    @property
    def where(self) -> tuple[str, ...]:
        """The options that name its place to a command."""
        return self.place.where if self.place else ()


class Service:
    """A running `simstream serve`, or another command that serves, with a port of its own."""

    _started = 0

    def __init__(
        self, program: Program, arguments: Sequence[str], environ: dict[str, str], command: str = "serve"
    ) -> None:
        given = [command, "--http-port", "0", *arguments]
        self._start(program.folder, command_line(*given), environ, given)

    @classmethod
    def of(cls, folder: Path, line: Sequence[str], environ: dict[str, str]) -> Service:
        """Any other program that says where its health listens, started in a folder."""
        service = cls.__new__(cls)
        service._start(folder, line, environ)
        return service

    def _start(
        self, folder: Path, line: Sequence[str], environ: dict[str, str], given: Sequence[str] | None = None
    ) -> None:
        """Start a program, or the command `given`, which may be forked."""
        Service._started += 1
        self._log = folder / f"service-{Service._started}.log"
        self.process: subprocess.Popen[bytes] | nursery.ForkedCommand
        with self._log.open("wb") as log:
            shared = nursery.nursery_of(environ) if given is not None else None
            if shared is not None and given is not None:
                with open(os.devnull, "rb") as nothing:
                    streams = (nothing.fileno(), log.fileno(), log.fileno())
                    self.process = shared.start(given, streams, folder, environ)
                return
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environ
            )

    @property
    def output(self) -> str:
        """All that it has said so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def port(self) -> int:
        """Where metrics and health listen."""
        found: list[str] = []

        def said() -> bool:
            found.extend(re.findall(r"health on http://127\.0\.0\.1:(\d+)", self.output))
            return bool(found)

        self.until(said, "it says its port")
        return int(found[0])

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one request."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str) -> float:
        """One sample of /metrics, by its name with labels but the prefix; 0 where it is not there."""
        text = re.sub(r',prefix="[^"]*"|prefix="[^"]*",?', "", self.get("/metrics")[1]).replace("{}", "")
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def query_port(self) -> int:
        """Where the API of the role `query` listens."""
        pattern = r"questions on http://127\.0\.0\.1:(\d+)"
        self.until(lambda: bool(re.search(pattern, self.output)), "it says where it answers")
        found = re.search(pattern, self.output)
        assert found
        return int(found[1])

    def until(self, condition: Callable[[], bool], what: str, timeout: float = PATIENCE_S) -> None:
        """Wait; fail with the service's output where it ends before, or time is over."""
        end = time.monotonic() + timeout
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}:\n{self.output}"
            assert time.monotonic() < end, f"it never came that {what}:\n{self.output[-3000:]}"
            time.sleep(0.03)

    def ready(self) -> None:
        """Wait until it says that it is ready."""
        self.until(lambda: self.get("/health/ready")[0] == 200, "it is ready")

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait()

    def end(self, how: signal.Signals = signal.SIGTERM, timeout: float = PATIENCE_S) -> int:
        """Ask it to end, and wait; the exit code."""
        self.process.send_signal(how)
        return self.process.wait(timeout)

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """Wait until it ends by itself; the exit code."""
        return self.process.wait(timeout)

    def failed(self, code: int = 1) -> str:
        """Wait until it ends by itself with this exit code and no traceback; its last line, which says why."""
        assert self.wait() == code, self.output[-3000:]
        assert "Traceback" not in self.output, self.output[-3000:]
        last = self.output.splitlines()[-1]
        assert last.startswith("simstream: "), self.output[-3000:]
        return last


class Watcher:
    """A `read_committed` reader of `verdicts`, which counts what it has seen."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reader = log.open_reader(VERDICTS, 0)
        self.records: list[Record] = []

    def look(self, timeout: float = 0.05) -> int:
        """Read what is there; how many verdicts were seen so far."""
        self.records += self._reader.poll(10_000, timeout)
        return len(self.records)

    def wait(self, count: int, service: Service) -> None:
        """Until so many verdicts were seen."""
        service.until(lambda: self.look() >= count, f"{count} verdicts are there ({len(self.records)})")

    def rest(self) -> list[Record]:
        """All of them, once the end of the topic is reached."""
        end = time.monotonic() + PATIENCE_S
        while not self._reader.caught_up():
            assert time.monotonic() < end, f"the end of `verdicts` was never reached; {len(self.records)} were read"
            self.look(0.1)
        return self.records

    def close(self) -> None:
        self._reader.close()


@contextmanager
def watching(log: Log) -> Iterator[Watcher]:
    """A watcher that is closed at the end."""
    watcher = Watcher(log)
    try:
        yield watcher
    finally:
        watcher.close()


def all_verdicts(log: Log) -> list[bytes]:
    """The values of all committed verdicts, by ordinal; each ordinal must be there exactly once."""
    with watching(log) as watcher:
        return by_ordinal(watcher.rest())


def by_ordinal(records: Sequence[Record]) -> list[bytes]:
    """The values in the order of their ordinals, of which none may be missing or double."""
    values = {}
    for record in records:
        verdict = wire.decode(record.value or b"")
        assert verdict.ordinal not in values, f"two verdicts with ordinal {verdict.ordinal}"
        assert record.key == verdict.id.encode()
        assert record.headers[:2] == (("verdict", verdict.verdict.encode()), ("simstream-format", b"1"))
        assert {name for name, _ in record.headers[2:]} <= {"traceparent"}
        values[verdict.ordinal] = record.value or b""
    assert sorted(values) == list(range(len(values)))
    return [values[ordinal] for ordinal in range(len(values))]


def bare(verdict: bytes | dict[str, Any]) -> dict[str, Any]:
    """A verdict without what tells a file from a topic: `source` and `time`."""
    found = dict(msgspec.json.decode(verdict) if isinstance(verdict, bytes) else verdict)
    del found["source"], found["time"]
    return found


def naive_verdicts(
    log: Log,
    window_ms: int | None = None,
    link: str = "any",
    recipe: str | Path = "default",
    removed: Sequence[Record] = (),
) -> list[bytes]:
    """What the quadratic judge says about the log's frames, those included that were `removed` from it."""
    there = read_topic(log, FINGERPRINTS)
    records = [record for record in removed if not there or record.offset < there[0].offset] + there
    from simstream.roles.fingerprint.first_frame import first_header

    header = first_header(log)
    assert header is not None
    policy = make_policy(load_recipe(recipe), header.recipe, window_ms=window_ms, link=link)  # type: ignore[arg-type]
    acceptor = Acceptor(header.recipe, header.sketch_words)
    frames = [(record.offset, record.value or b"", record.timestamp) for record in records]
    return [wire.encode(verdict) for verdict in judge_log(frames, acceptor, policy)]


def shares(place: TopicPlace, admin: Any) -> list[int]:
    """How many partitions each member of the fingerprinters' group has; `admin` is Kafka's AdminClient."""
    group = f"{place.prefix}.fingerprint"
    try:
        members = admin.describe_consumer_groups([group])[group].result().members
    except KafkaException:  # its coordinator is still loading
        return []
    return [len(member.assignment.topic_partitions) if member.assignment else 0 for member in members]


def read_topic(log: Log, topic: str) -> list[Record]:
    """All that is committed now."""
    return list(chain.from_iterable(committed(log, topic, 10_000)))
