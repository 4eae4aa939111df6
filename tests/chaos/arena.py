"""One scenario's place: topics, pages, the service's processes, and the reader that sees what came of it."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from confluent_kafka import Consumer, TopicPartition

from deploy.kafka.broker import KafkaBroker
from deploy.kafka.brokers import BrokerCluster
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS, PAGES
from simstream.model import Record
from tests.chaos import oracle
from tests.chaos.feed import SeededFeed
from tests.contract.helpers import cluster_of
from tests.e2e.harness import Program, Service, Watcher, read_topic, watching
from tests.forked_process import working_below
from tests.kafka_fixtures import TopicPlace

PATIENCE_S = 90.0
"""Seconds that any wait may last, after any fault."""
STOP_S = PATIENCE_S - 10.0
"""Seconds that a process may take to end: a group that never rests lets members go late."""


@dataclass(frozen=True, slots=True)
class ChaosScale:
    """How much of it: `faults` times, over about `pages` pages (the oracle is quadratic)."""

    faults: int
    pages: int

    @property
    def burst(self) -> int:
        """Pages between two faults."""
        return max(1, self.pages // max(1, self.faults))


class ChaosArena:
    """A context manager; nothing that it started outlives it."""

    def __init__(self, broker: KafkaBroker | BrokerCluster, folder: Path, cache: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.place = TopicPlace(broker.address, f"chaos{self.rng.getrandbits(32):08x}{secrets.token_hex(4)}")
        self.broker = broker
        self.folder = folder
        self.cache = cache
        self.program = Program(folder, cache, self.place)
        self.running: list[Service] = []
        self.taken_over: dict[Service, Callable[[], Service]] = {}
        """How to start a judge again that another judge may take over."""
        self.cut_at = 0
        """The log's first frame."""
        self._removed: list[Record] = []
        self._stack = ExitStack()
        self._client: dict[str, Any] = {}
        self._admin: Any = None

    def open(self, partitions: int, transactions: bool = True) -> None:
        """Make the topics, and begin to watch the verdicts."""
        self.log: Log = self._stack.enter_context(self.place.open(patience=PATIENCE_S))
        self.log.create_topics(partitions)
        self.feed = self._stack.enter_context(SeededFeed(self.place, self.rng, transactions))
        self.watcher: Watcher = self._stack.enter_context(watching(self.log))

    def admin(self) -> Any:
        """An operator's client."""
        if self._admin is None:
            self._admin = self.place.admin()
        return self._admin

    def client(self, **settings: Any) -> None:
        """Settings that all of the service's Kafka clients get from now on; dots are written as `__`."""
        self._client |= {name.replace("__", "."): value for name, value in settings.items()}
        lines = [f'"{name}" = {value}\n' for name, value in self._client.items()]
        (self.folder / "simstream.toml").write_text("[kafka]\n" + "".join(lines), encoding="utf-8")

    def serve(self, roles: str = "all", *flags: object, via: str = "", **variables: Any) -> Service:
        """Start a process of these roles, `via` another address where one is given."""
        program = Program(self.folder, self.cache, TopicPlace(via or self.place.address, self.place.prefix))
        chosen = {"SIMSTREAM_STOP_TIMEOUT": f"{STOP_S:g}s"}
        chosen |= {f"SIMSTREAM_{name.upper()}": str(value) for name, value in variables.items()}
        service = self._stack.enter_context(program.serve("--roles", roles, *flags, **chosen))
        self.running.append(service)
        return service

    def kill(self, service: Service) -> None:
        """As a crash would."""
        service.kill()
        self.running.remove(service)

    def end(self, service: Service) -> None:
        """Ask a process to end, which it must do well."""
        self.running.remove(service)
        assert service.port  # it listens to signals by then
        assert service.end(timeout=PATIENCE_S) == 0, service.output[-3000:]
        assert "Traceback" not in service.output, service.output[-3000:]

    def failed(self, service: Service) -> str:
        """Wait until a process has ended by itself with 1; the one line with which it did."""
        self.running.remove(service)
        return service.failed()

    def until(self, condition: Callable[[], bool], what: str, timeout: float = PATIENCE_S) -> None:
        """Wait for it; fails where a process that should run has ended."""
        end = time.monotonic() + timeout
        while not condition():
            for service in [one for one in self.running if one.process.poll() is not None]:
                start = self.taken_over.pop(service, None)
                is_taken_over = start is not None and "another judge publishes" in service.output
                assert is_taken_over, (
                    f"a process ended ({service.process.poll()}) before {what}:\n{service.output[-3000:]}"
                )
                self.running.remove(service)
                self.taken_over[start()] = start
            assert time.monotonic() < end, f"it never came that {what}:\n" + "\n".join(
                service.output[-1500:] for service in self.running
            )
            time.sleep(0.02)

    def within(self, seconds: float, condition: Callable[[], bool]) -> bool:
        """Whether it comes within `seconds`."""
        end = time.monotonic() + seconds
        while not (found := condition()) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def pause(self, longest: float) -> None:
        """A random while, so that the next fault hits at a random instant."""
        time.sleep(self.rng.uniform(0, longest))

    def source(self) -> list[Record]:
        """All committed pages."""
        return read_topic(self.log, PAGES)

    def verdicts(self, count: int, what: str = "") -> None:
        """Wait until `count` verdicts were seen."""
        self.until(lambda: self.watcher.look() >= count, what or f"{count} verdicts are there")

    def judged(self) -> list[Record]:
        """Wait until every committed page has its verdict; the pages."""
        source = self.source()
        end = time.monotonic() + PATIENCE_S
        self.until(lambda: self.watcher.look() >= len(source), f"{len(source)} verdicts are there")
        assert time.monotonic() < end
        return source

    def cut(self, frame: int) -> None:
        """Remove the log's frames below this one, as retention would."""
        there = read_topic(self.log, FINGERPRINTS)
        self._removed += [record for record in there if self.cut_at <= record.offset < frame]
        where = TopicPartition(f"{self.place.prefix}.{FINGERPRINTS}", 0, frame)
        for future in self.admin().delete_records([where]).values():
            future.result(PATIENCE_S)
        self.cut_at = frame

    def uncommitted(self, topic: str) -> int:
        """How many records a reader sees that minds no transactions: aborted ones too, but no markers."""
        name = f"{self.place.prefix}.{topic}"
        partitions = self.log.topic(topic).partitions
        consumer: Any = Consumer(
            {
                "bootstrap.servers": self.place.servers,
                "group.id": f"{self.place.prefix}.look",
                "isolation.level": "read_uncommitted",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(name, partition, 0) for partition in range(partitions)])
        ended: set[int] = set()
        count, end = 0, time.monotonic() + PATIENCE_S
        while len(ended) < partitions:
            assert time.monotonic() < end
            for message in consumer.consume(1_000, 0.2):
                if message.error() is None:
                    count += 1
                else:
                    ended.add(message.partition())
        consumer.close()
        return count

    def written(self, *topics: str) -> int:
        """Where topics end for a reader that minds no transactions, summed; only ever grows."""
        return self._ends("open end", topics)

    def hidden(self, *topics: str) -> int:
        """How many offsets of topics an open transaction holds back."""
        return self._ends("open end", topics) - self._ends("end", topics)

    def _ends(self, which: Literal["open end", "end"], topics: Sequence[str]) -> int:
        return sum(sum(cluster_of(self.place).offsets(topic, which).values()) for topic in topics)

    def settle(self, **policy: Any) -> int:
        """Wait for all verdicts, end all processes, and ask the oracle; the number of pages."""
        source = self.judged()
        while self.running:
            self.end(self.running[-1])
        oracle.check(self.log, self.cache, source, self.watcher.rest(), removed=self._removed, **policy)
        return len(source)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        left = children_left(self.folder)
        if kind is None:
            assert not left, f"processes outlived the service: {left}"


def children_left(folder: Path, patience: float = 10.0) -> list[int]:
    """The processes that still work in a folder or below it, once they had a moment to end."""
    end = time.monotonic() + patience
    while found := working_below(folder):
        if time.monotonic() > end:
            return found
        time.sleep(0.05)
    return []
