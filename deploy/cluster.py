"""The processes of a small cluster on this machine, the pages that it gets, and the verdicts that come of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from msgspec import structs

from deploy.kafka.jars import BrokerError
from simstream.closing import Closing
from simstream.judge.acceptor import IgnoreReason
from simstream.judge.policy import make_policy
from simstream.judge.state import JudgeState
from simstream.log.base import Log
from simstream.log.committed_records import committed
from simstream.log.options import FINGERPRINTS, PAGES, VERDICTS
from simstream.model import Record
from simstream.roles.fingerprint.first_frame import first_header
from simstream.text.recipe import preset
from simstream.wire import verdict as wire

PATIENCE_S = 180.0
"""Seconds that anything may take; kernels may have to be compiled first."""
FENCED = "simstream: another judge publishes"
END_S = 20.0
"""Seconds that a process may take to end."""


@dataclass(eq=False)
class ClusterPart:
    """One process of the service: its name, such as `matcher 2`, and how it is started."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it, in a session of its own: Ctrl-C reaches only the program that started it."""
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "simstream", *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                start_new_session=True,
            )
            self._begins_at = output.tell()

    def kill(self) -> None:
        """End it at once, like a crash."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Wait until it has ended after `terminate`; kill it if it does not. Its exit code."""
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.returncode

    def terminate(self) -> None:
        """Ask it to end."""
        self.process.terminate()

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    @property
    def output(self) -> str:
        """What it has said since it was started last."""
        return self._log.read_bytes()[self._begins_at :].decode(errors="replace")

    @property
    def is_fenced(self) -> bool:
        """Whether it is a judge that ended because another judge publishes. What supervises it starts it again."""
        return self._has_ended and FENCED in self.output

    def check(self) -> None:
        """Raise BrokerError with its last words if it has ended by itself."""
        if self._has_ended:
            raise BrokerError(f"{self.name} ended by itself: {self.output[-2000:]}")

    def ready(self) -> tuple[bool, str]:
        """Return whether it is ready, and what it says about itself."""
        found = re.search(r"health on http://127\.0\.0\.1:(\d+)", self.output)
        if not found:
            return False, "starting"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/health/ready", timeout=5) as answer:
                return True, answer.read().decode().strip()
        except urllib.error.HTTPError as error:
            return False, error.read().decode().strip()
        except OSError as error:
            return False, str(error)

    @property
    def _has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def _log(self) -> Path:
        return self.folder / f"{self.name.replace(' ', '-')}.log"


class Cluster(Closing):
    """Its parts by name. Closing it ends all of them."""

    def __init__(self, folder: Path, address: str, say: Callable[[str], object] = print) -> None:
        """`say` hears what happens to a part."""
        self._folder, self._address, self.say = folder, address, say
        self.parts: dict[str, ClusterPart] = {}

    def add(self, name: str, *arguments: str, command: str = "serve") -> None:
        """Start a part that runs a command of simstream with these arguments."""
        line = (command, "--http-port", "0", "--log", self._address, *arguments)
        self.parts[name] = ClusterPart(name, line, self._folder)

    def of_process(self, member: str) -> ClusterPart | None:
        """Return the part whose process this member of a group is, by the name that the log gives it."""
        return next((part for part in self.parts.values() if f":{part.pid} " in f"{member} "), None)

    def ready(self) -> bool:
        """Whether all parts are ready."""
        return all(part.ready()[0] for part in self.parts.values())

    def until(self, condition: Callable[[], bool], what: str, turn: Callable[[], object]) -> None:
        """Call `turn` until it is so. Raises BrokerError if it takes too long, or if a part ends by itself."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.supervise()
            turn()
            if time.monotonic() > end:
                raise BrokerError(f"it never came that {what}: gave up after {PATIENCE_S:g} s")

    def supervise(self) -> None:
        """Start a fenced judge again. Raises BrokerError if another part has ended by itself."""
        for part in self.parts.values():
            if part.is_fenced:
                self.say(f"start    {part.name}: while it was cut off, the other one was elected, so it had ended")
                part.start()
            part.check()

    def end(self) -> dict[str, int]:
        """Ask all parts to end, and wait; the exit codes by name."""
        for part in self.parts.values():
            part.terminate()
        return {name: part.end() for name, part in self.parts.items()}

    def close(self) -> None:
        """See Closing."""
        self.end()


def create_topics(address: str, *arguments: str) -> None:
    """Run `simstream topics create`."""
    line = [sys.executable, "-m", "simstream", "topics", "create", "--log", address, *arguments]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)


class PageFeed(threading.Thread):
    """Appends pages at a speed, until it is stopped. `close` waits until all are written."""

    def __init__(self, log: Log, pages: Iterator[Record], speed: float) -> None:
        super().__init__(name="feed", daemon=True)
        self._appender = log.open_appender(PAGES)
        self._pages, self._speed = pages, speed
        self._enough = threading.Event()
        self.error: BaseException | None = None
        self.sent = 0

    def run(self) -> None:
        """Append."""
        began = time.monotonic()
        try:
            for page in self._pages:
                if self._enough.wait(max(0.0, began + self.sent / self._speed - time.monotonic())):
                    return
                self._appender.append(page.value, page.key)
                self.sent += 1
        except BaseException as error:  # noqa: BLE001  # `check` raises it
            self.error = error

    def check(self) -> None:
        """Raise what ended the thread before it was stopped."""
        if self.error is not None:
            raise self.error

    def close(self) -> int:
        """Stop, and wait until all pages are written; their number."""
        self._enough.set()
        self.join()
        self.check()
        written = self._appender.flush(PATIENCE_S)
        self._appender.close()
        return written


class VerdictCount(Closing):
    """Reads the verdicts as they are published, and counts them by kind."""

    def __init__(self, log: Log) -> None:
        self._reader = log.open_reader(VERDICTS, 0)
        self.kinds: Counter[str] = Counter()
        self.values: list[bytes] = []

    def look(self, seconds: float) -> int:
        """Take what comes within so many seconds; how many verdicts there were so far."""
        for record in self._reader.poll(10_000, seconds):
            self.values.append(record.value or b"")
            self.kinds[dict(record.headers).get("verdict", b"").decode()] += 1
        return len(self.values)

    def rest(self) -> list[bytes]:
        """Read to the end; all verdicts."""
        while not self._reader.caught_up():
            self.look(0.2)
        return self.values

    def close(self) -> None:
        """See Closing."""
        self._reader.close()


def endless(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the pages, then again and again with other ids.

    From the second round on a text has its first half from its own page and its second half from another page. So
    each round brings new pages and near-duplicates of earlier ones.
    """
    seen: list[tuple[Record, dict[str, Any]]] = []
    for record in records:
        page = _fields(record)
        if page is not None and isinstance(page.get("text"), str):
            seen.append((record, page))
        yield record
    for turn in count(1) if seen else ():
        for number, (record, page) in enumerate(seen):
            text, other = page["text"], seen[(number + turn * turn) % len(seen)][1]["text"]
            name = f"{page.get('id') or page.get('url') or number}#{turn}"
            changed = page | {"id": name, "text": text[: len(text) // 2] + other[len(other) // 2 :]}
            yield structs.replace(record, key=name.encode(), value=json.dumps(changed).encode())


def _fields(record: Record) -> dict[str, Any] | None:
    """The fields of a page; None if it is no JSON object."""
    try:
        found = json.loads(record.value or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def wrong_sources(log: Log, verdicts: Iterable[bytes]) -> list[str]:
    """Return what is wrong with the pages of these verdicts: each page must have one, and nothing else has one."""
    judged = Counter((found.source.partition, found.source.offset) for found in map(wire.decode, verdicts))
    pages = {(record.partition, record.offset) for record in chain.from_iterable(committed(log, PAGES, 10_000))}
    said = {
        "pages have no verdict": len(pages - judged.keys()),
        "verdicts belong to no page": len(judged.keys() - pages),
        "pages have more than one verdict": sum(number > 1 for number in judged.values()),
    }
    return [f"{number:,} {what}" for what, number in said.items() if number]


def judged_alone(log: Log) -> list[bytes]:
    """Return the verdicts of one judge with an index of its own over the log's frames, by ordinal."""
    header = first_header(log)
    assert header is not None
    values: list[bytes] = []
    with JudgeState(make_policy(preset("default"), header.recipe)) as judge:
        for record in chain.from_iterable(committed(log, FINGERPRINTS, 10_000)):
            found = judge.judge(record)
            if not isinstance(found, IgnoreReason):
                values += map(wire.encode, found)
    return values
