"""A lone broker answers for a while without naming any broker, and every client finds it again.

A broker does this if it was silent for longer than its cluster waits, until it has registered again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.kafka.broker import KafkaBroker
from simstream.log.base import Log
from simstream.log.options import PAGES, VERDICTS
from tests.chaos.proxy import KafkaProxy
from tests.e2e.harness import Program, read_topic
from tests.kafka_fixtures import TopicPlace
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.long]
CLIENTS = 6
"""Clients of each kind: some of them are lost for ever in one silence, others are not."""
HIDDEN_S = 12.0
"""Longer than the time after which every client asks for the brokers again."""


@pytest.fixture
def proxy(module_broker: KafkaBroker) -> Iterator[KafkaProxy]:
    with KafkaProxy(module_broker) as proxy:
        yield proxy


def hide_brokers(proxy: KafkaProxy, seconds: float = HIDDEN_S) -> threading.Timer:
    """Name no broker for some seconds; the timer ends it, also while a client waits for an answer."""

    def end() -> None:
        proxy.is_hiding_brokers = False

    proxy.is_hiding_brokers = True
    timer = threading.Timer(seconds, end)
    timer.start()
    return timer


def append(log: Log, partitions: int) -> None:
    """Append one page to each partition, by a new appender."""
    with log.open_appender(PAGES) as appender:
        for partition in range(partitions):
            appender.append(b'{"id": "a"}', b"a", partition=partition)
        appender.flush(30)


def test_readers_members_of_groups_and_questions_go_on(proxy: KafkaProxy, module_broker: KafkaBroker) -> None:
    direct = TopicPlace(module_broker.address, f"f{time.monotonic_ns()}")
    with direct.open() as log:
        log.create_topics(CLIENTS)
    with ExitStack() as stack:
        straight = stack.enter_context(direct.open())
        logs = [
            stack.enter_context(TopicPlace(proxy.address, direct.prefix).open(patience=60.0))
            for _ in range(CLIENTS)
        ]
        readers = [stack.enter_context(log.open_reader(PAGES)) for log in logs]
        consumers = [stack.enter_context(log.open_consumer()) for log in logs]
        elections = [stack.enter_context(log.join_election()) for log in logs]
        read, owned = [0] * CLIENTS, [0] * CLIENTS
        pages = 0

        def poll() -> None:
            for number, (reader, consumer) in enumerate(zip(readers, consumers, strict=True)):
                read[number] += len(reader.poll(100, 0.05))
                owned[number] += len(consumer.poll(100, 0.05).records)

        def all_read() -> bool:
            poll()
            return read == [pages] * CLIENTS and sum(owned) >= pages

        def have_work() -> bool:
            """Each member has a partition, and one judge is elected."""
            poll()
            members = sum(bool(consumer.positions()) for consumer in consumers)
            return (members, sum(election.elected for election in elections)) == (CLIENTS, 1)

        for _ in range(2):
            append(straight, CLIENTS)
            pages += CLIENTS
            until(all_read, "all readers and consumers have read the pages")
            until(have_work, "every member has its work")
            timer = hide_brokers(proxy)
            while timer.is_alive():
                poll()
        append(straight, CLIENTS)
        pages += CLIENTS
        until(all_read, "all readers and consumers have read the pages")
        until(have_work, "every member has its work again")
        assert [log.end_offsets(PAGES) for log in logs] == [straight.end_offsets(PAGES)] * CLIENTS


def test_a_service_goes_on_by_itself(
    proxy: KafkaProxy, module_broker: KafkaBroker, tmp_path: Path, cache: Path
) -> None:
    place = TopicPlace(proxy.address, f"s{time.monotonic_ns()}")
    program = Program(tmp_path, cache, place)
    with TopicPlace(module_broker.address, place.prefix).open() as straight:
        straight.create_topics(2)
        with program.serve() as service:
            for number, seconds in enumerate((HIDDEN_S, 3 * HIDDEN_S)):
                append(straight, 2)
                service.until(
                    lambda number=number: len(read_topic(straight, VERDICTS)) == 4 * number + 2,
                    f"{number} silences",
                )
                timer = hide_brokers(proxy, seconds)  # the second one is longer than any question lasts
                append(straight, 2)
                timer.join()
            service.until(lambda: len(read_topic(straight, VERDICTS)) == 8, "the last pages have verdicts")
            service.until(lambda: service.get("/health/ready")[0] == 200, "it is ready")
            assert service.end() == 0, service.output
    assert "Traceback" not in service.output
