"""The service as a process of its own beside a broker, as the benchmarks start, feed, watch and end it."""

from __future__ import annotations

import re
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

from deploy.server_process import free_port
from simstream.log import open_log
from simstream.log.options import LogOptions
from simstream.model import Verdict
from simstream.wire import verdict as wire

PATIENCE_S = 300.0


class ReadPage(msgspec.Struct):
    """What a consumer that only reads makes of a page."""

    id: str
    text: str


@dataclass(frozen=True)
class TopicSpace:
    """A fresh prefix on a broker, with its topics."""

    servers: str
    prefix: str

    def topic(self, name: str) -> str:
        return f"{self.prefix}.{name}"

    def feed(self, pages: Sequence[Mapping[str, str]], repeat: int = 1) -> int:
        """Append every page `repeat` times, each time under fresh ids; returns their number."""
        producer = Producer(client(self.servers, {"linger.ms": 20, "partitioner": "murmur2_random"}))
        encode = msgspec.json.Encoder().encode
        for turn in range(repeat):
            for page in pages:
                name = f"{page['id']}#{turn}" if repeat > 1 else page["id"]
                append(producer, self.topic("pages"), name, encode({"id": name, "text": page["text"]}))
        producer.flush()
        return len(pages) * repeat

    def consumer(self, topic: str, **more: object) -> Consumer:
        """A consumer of committed records of every partition, from the beginning."""
        config = {"group.id": self.prefix, "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = Consumer(client(self.servers, config | more))
        name = self.topic(topic)
        partitions = consumer.list_topics(name, PATIENCE_S).topics[name].partitions
        consumer.assign([TopicPartition(name, p, 0) for p in partitions])
        return consumer

    def read_only(self, count: int, **more: object) -> float:
        """Seconds in which a consumer with these settings reads and decodes `count` pages, and no more."""
        decode = msgspec.json.Decoder(ReadPage).decode
        consumer = self.consumer("pages", **more)
        found, began = 0, 0.0
        while found < count:
            messages = consumer.consume(min(1000, count - found), 1.0)  # for more it would wait
            began = began or time.perf_counter()  # connecting is no reading
            for message in messages:
                decode(message.value())
            found += len(messages)
        seconds = time.perf_counter() - began
        consumer.close()
        return seconds

    def verdicts(self, count: int) -> list[Verdict]:
        """The first `count` committed verdicts, and a second's wait for more, which there should not be."""
        consumer, found = self.consumer("verdicts"), []
        while True:
            left = count - len(found)  # for more than there are it would wait
            messages = (
                consumer.consume(min(1000, left), PATIENCE_S / 10) if left > 0 else consumer.consume(1000, 1.0)
            )
            if not messages:
                break
            found += [wire.decode(message.value()) for message in messages]
        consumer.close()
        return found


def client(servers: str, more: Mapping[str, object]) -> dict[str, object]:
    return {"bootstrap.servers": servers, "allow.auto.create.topics": False, **more}


def append(producer: Producer, topic: str, name: str, value: bytes, delivered: Any = None) -> None:
    """Hand a record to the client, which may have to send others first."""
    while True:
        try:
            producer.produce(topic, value, name, on_delivery=delivered)
            return
        except BufferError:
            producer.poll(0.1)


def space(
    address: str, partitions: int, shards: int | None = None, verdict_partitions: int | None = None
) -> TopicSpace:
    """Make the topics of a fresh prefix, as `topics create` does."""
    made = TopicSpace(address.removeprefix("kafka://"), f"b{secrets.token_hex(4)}")
    with open_log(address, LogOptions(prefix=made.prefix)) as log:
        log.create_topics(partitions, shards, verdict_partitions)
    return made


class RunningService:
    """A running `simstream serve`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self._port = port

    def count(self, metric: str) -> float:
        """Return the sum of a metric over its labels; 0 while the service does not answer."""
        text = self._get("/metrics")
        return sum(float(value) for value in re.findall(rf"^{metric}(?:{{.*?}})? (\S+)$", text, re.MULTILINE))

    def wait(self, metric: str, least: float) -> float:
        """The moment (`perf_counter`) at which a metric reached a value. Raises where the service ended first."""
        end = time.monotonic() + PATIENCE_S
        while self.count(metric) < least:
            if self._process.poll() is not None:
                raise RuntimeError(f"serve ended with {self._process.returncode}")
            if time.monotonic() > end:
                raise TimeoutError(f"{metric} is still below {least:g} after {PATIENCE_S:g} s")
            time.sleep(0.05)
        return time.perf_counter()

    def wait_ready(self) -> None:
        """Until every role says that it is ready. Raises TimeoutError, and RuntimeError if it has ended."""
        end = time.monotonic() + PATIENCE_S
        while not self._get("/health/ready").startswith("ready"):
            if (code := self._process.poll()) is not None:
                raise RuntimeError(f"serve has ended with {code}: try its flags without the bench")
            if time.monotonic() > end:
                raise TimeoutError("serve is not ready")
            time.sleep(0.05)

    def _get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, ConnectionError):
            return ""


@contextmanager
def serving(where: TopicSpace, *flags: str) -> Iterator[RunningService]:
    """`simstream serve` over a space, from its start until SIGTERM has ended it."""
    port = free_port()
    command = [sys.executable, "-c", "from simstream.cli.main import run; run()", "serve", *flags]
    command += ["--log", f"kafka://{where.servers}", "--prefix", where.prefix, "--http-port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield RunningService(process, port)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
