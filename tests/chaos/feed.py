"""Pages for the chaos: appended in bursts, some in transactions of their own, of which some are aborted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from confluent_kafka import Producer

from simstream.closing import Closing
from simstream.log.options import PAGES
from tests.e2e import pages
from tests.kafka_fixtures import TopicPlace

PATIENCE_S = 120.0
IN_TRANSACTION, ABORTED = 0.15, 0.5
"""The share of bursts in a transaction, and the share of these that are aborted: no judge may judge aborted
ones."""


def headers_of(line: bytes) -> list[tuple[str, bytes]]:
    """The headers of a page: every third has none."""
    number = crc32(line)
    return [("traceparent", b"00-%032x-%016x-01" % (number, number))] if number % 3 else []


class SeededFeed(Closing):
    """Endless seeded pages for one place. Everything that a burst brings has arrived when it returns."""

    def __init__(self, place: TopicPlace, rng: random.Random, transactions: bool) -> None:
        self._name = f"{place.prefix}.{PAGES}"
        self._rng = rng
        self._lines = endless(rng.randrange(1 << 30))
        common = {
            "bootstrap.servers": place.servers,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "message.timeout.ms": int(PATIENCE_S * 1000),
            "linger.ms": 5,
            "message.max.bytes": 16 << 20,
            "socket.timeout.ms": 5_000,
            "topic.metadata.refresh.interval.ms": 1_000,
            "log_level": 0,
        }
        self._producer: Any = Producer(common)
        self._transactional: Any = None
        if transactions:
            times = {"transaction.timeout.ms": 60_000, "message.timeout.ms": 60_000}
            self._transactional = Producer(common | times | {"transactional.id": f"{place.prefix}.feed"})
            self._transactional.init_transactions(PATIENCE_S)

    def burst(self, count: int, **fields: Any) -> None:
        """Append `count` pages. Every whole page gets `fields`, too."""
        lines = self.take(count)
        self.append([changed(line, fields) for line in lines] if fields else lines)

    def take(self, count: int) -> list[bytes]:
        """The next pages, not yet appended."""
        return [next(self._lines) for _ in range(count)]

    def append(self, lines: list[bytes], timestamps: list[int] | None = None) -> None:
        """Append these pages, keyed by their ids."""
        in_transaction = self._transactional is not None and self._rng.random() < IN_TRANSACTION
        producer = self._transactional if in_transaction else self._producer
        if in_transaction:
            producer.begin_transaction()
        for number, line in enumerate(lines):
            more = {"timestamp": timestamps[number]} if timestamps else {}
            producer.produce(self._name, line, key_of(line), headers=headers_of(line), **more)
            producer.poll(0)
        left = producer.flush(PATIENCE_S)
        assert left == 0, f"{left} pages could not be appended"
        if in_transaction:
            if self._rng.random() < ABORTED:
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)

    def close(self) -> None:
        """See Closing."""
        self._producer.purge()
        self._producer.flush(0)


def endless(seed: int) -> Iterator[bytes]:
    """The pages of `tests.e2e.pages`, block after block; ids of one block come again in the next."""
    while True:
        yield from pages.lines(500, seed)
        seed += 1


def key_of(line: bytes) -> bytes | None:
    """The id, as producers should key; None for a broken page or one without."""
    try:
        found = json.loads(line).get("id")
    except ValueError:
        return None
    return found.encode() if found else None


def changed(line: bytes, fields: dict[str, Any]) -> bytes:
    """The page with other fields; a broken one stays as it is."""
    try:
        return json.dumps(json.loads(line) | fields, ensure_ascii=False).encode()
    except ValueError:
        return line
