"""Bench: milliseconds from a page's append to its verdict's commit while the service has little to do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import cycle, islice

import msgspec
from confluent_kafka import Consumer, Producer

from deploy.kafka.broker import Broker
from tests.bench.measure import line, share, title
from tests.bench.service import Space, client, serving, space
from tests.bench.service import append as append_page

WARM_PAGES = 40
PATIENCE_S = 30.0
PARTS = (("median", 0.5), ("90th", 0.9), ("99th", 0.99), ("worst", 1.0))


def run(pages: Sequence[Mapping[str, str]], rate: int, seconds: int) -> None:
    """Send pages one by one; a reader of committed records notes when it has each verdict."""
    title("latency", f"{rate} pages/s for {seconds} s, from append to commit")
    chosen = list(islice(cycle(pages), WARM_PAGES + rate * seconds))
    with Broker() as broker:
        floor = Exchange(space(broker.address, 1), "pages").run(chosen[: WARM_PAGES + 5 * rate], 1 / rate)
        where = space(broker.address, 1)
        with serving(where) as service:
            service.wait_ready()
            taken = Exchange(where, "verdicts").run(chosen, 1 / rate)
    line(f"checked: {len(taken)} pages have one verdict each")
    line("from the page's record timestamp until a reader of committed records has the verdict:")
    line(f"service {_shown(taken)}")
    line(f"floor   {_shown(floor)} (the page itself read back, no service)")
    print(f" > median {share(taken, 0.5):.0f} ms (aim: under 100)", flush=True)


def _shown(values: Sequence[float]) -> str:
    return ", ".join(f"{what} {share(values, part):.1f}" for what, part in PARTS) + " ms"


class Exchange:
    """Appends pages at a steady pace and reads what answers them, on one thread."""

    def __init__(self, where: Space, topic: str) -> None:
        self._where = where
        self._topic = topic
        self._producer = Producer(client(where.servers, {"linger.ms": 0}))
        self._sent: dict[str, int] = {}
        self._seen: dict[str, float] = {}

    def run(self, pages: Sequence[Mapping[str, str]], pause: float) -> list[float]:
        """Milliseconds per page between its record's timestamp and its answer, but for the first few."""
        reader = self._where.consumer(self._topic, **{"fetch.wait.max.ms": 10})
        reader.poll(1.0)
        encode, due = msgspec.json.Encoder().encode, time.monotonic()
        for number, page in enumerate(pages):
            name = f"{number}-{page['id']}"
            append_page(self._producer, self._where.topic("pages"), name, encode(page), self._delivered)
            due += pause
            while (left := due - time.monotonic()) > 0:
                self._note(reader, left)
        end = time.monotonic() + PATIENCE_S
        while len(self._seen) < len(pages) and time.monotonic() < end:
            self._note(reader, 0.5)
        self._note(reader, 0.5)
        reader.close()
        if self._seen.keys() != self._sent.keys():
            raise AssertionError(f"{len(self._sent)} pages were sent, {len(self._seen)} were answered")
        return [self._seen[name] - sent for name, sent in list(self._sent.items())[WARM_PAGES:]]

    def _note(self, reader: Consumer, seconds: float) -> None:
        """Take the next answer, and the delivery reports that have come."""
        message = reader.poll(seconds)
        self._producer.poll(0)
        if message is not None:
            name = message.key().decode()
            if name in self._seen:
                raise AssertionError(f"{name} was answered twice")
            self._seen[name] = time.time() * 1000

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            raise RuntimeError(f"a page was not appended: {error}")
        self._sent[message.key().decode()] = message.timestamp()[1]  # type: ignore[attr-defined]
