"""Small things that the contract tests share."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewPartitions

from simstream.log.base import Log, OutgoingVerdict, PageConsumer, PollResult, Reader, ReaderStart
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.options import LogOptions
from simstream.model import Record
from tests.kafka_fixtures import TopicPlace
from tests.waiting import until


def read_all(log: Log, topic: str, start: ReaderStart = 0, least: int = 0) -> list[Record]:
    """Everything that is committed now. Kafka lets readers see a transaction a moment after its commit returned:
    `least` says how many records must come, at most 60 seconds later."""
    records = []
    end = time.monotonic() + 60
    with log.open_reader(topic, start) as reader:
        while not reader.caught_up() or len(records) < least:
            assert time.monotonic() < end, f"{len(records)} records came, not all, or fewer than {least}"
            records += reader.poll(1000, 0.1)
    return records


def take(reader: Reader, count: int, limit: int = 100) -> list[Record]:
    """That many records, which must come."""
    records: list[Record] = []
    end = time.monotonic() + 60
    while len(records) < count:
        assert time.monotonic() < end, f"only {len(records)} of {count} records came"
        records += reader.poll(min(limit, count - len(records)), 0.5)
    return records


def poll_for(reader: Reader | PageConsumer, seconds: float) -> None:
    """Read for this time, and throw away."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        reader.poll(10, 0.2)


def read_source(source: PageConsumer, records: int, timeout: float = 60.0) -> PollResult:
    """What a source brings until `records` have come (and its partitions, where it is 0)."""
    all_records: list[Record] = []
    started, stopped = [], []
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        polled = source.poll(100, 0.2)
        all_records += polled.records
        started += polled.started
        stopped += polled.stopped
        if len(all_records) >= records and started:
            break
    return PollResult(all_records, started, stopped)


def add_partitions(place: TopicPlace, topic: str, count: int) -> None:
    """Raise a topic's number of partitions, as an operator would, and wait until the broker has them."""
    admin = place.admin()
    for future in admin.create_partitions([NewPartitions(f"{place.prefix}.{topic}", count)]).values():
        future.result(30)
    cluster = cluster_of(place)
    until(lambda: cluster.describe([topic])[topic].partitions >= count, "the broker has the partitions")


def batch(number: int, count: int = 10) -> list[OutgoingVerdict]:
    """Verdicts that name their batch."""
    return [OutgoingVerdict(b"id%d" % i, b"%d" % number, (("verdict", b"new"),)) for i in range(count)]


@contextmanager
def writer(place: TopicPlace, what: str) -> Iterator[subprocess.Popen[str]]:
    """A process that writes, and is killed at the end."""
    command = [sys.executable, "-m", "tests.contract.writer", place.address, place.prefix, what]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kill_after(process: subprocess.Popen[str], lines: int) -> int:
    """Kill -9 once it has printed `lines` lines; return the last number that it printed."""
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(lines)]
    process.kill()
    rest, _ = process.communicate()
    return [*told, *(int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n"))][-1]


def cluster_of(place: TopicPlace, **options: Any) -> KafkaCluster:
    """The cluster that a place on a broker is on, for what the log's interface does not show."""
    return KafkaCluster(place.servers, LogOptions(prefix=place.prefix, **options))


def toml(folder: Path, name: str, client: Mapping[str, str]) -> Path:
    """A settings file with these settings of the client."""
    path = folder / f"{name}.toml"
    path.write_text(
        "[kafka]\n" + "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in client.items())
    )
    return path


def variables(client: Mapping[str, str]) -> dict[str, str]:
    """The same as variables."""
    return {f"SIMSTREAM_KAFKA_{name.upper().replace('.', '_')}": value for name, value in client.items()}
