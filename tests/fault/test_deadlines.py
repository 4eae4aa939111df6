"""Every question, close and connection ends in its time while the broker is frozen, killed or cannot be reached."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from deploy.kafka.broker import KafkaBroker
from simstream.client import Client
from simstream.client.traffic import MAX_CLOSE_S
from simstream.closing import Closing
from simstream.errors import BrokerUnreachable, LogError, SimstreamError
from simstream.log.base import Log
from simstream.log.kafka.cluster import GRACE_S
from simstream.log.kafka.polled_member import MAX_LEAVE_S
from simstream.log.options import FINGERPRINTS, PAGES, VERDICTS
from tests.chaos.proxy import KafkaProxy, ProxiedRequest, RequestFate
from tests.e2e.harness import ROOT
from tests.kafka_fixtures import TopicPlace
from tests.waiting import until

pytestmark = pytest.mark.kafka
SLOW = 6.0
"""Seconds that a busy machine may add. A request that nothing bounds takes 10 s or more."""
PATIENCE_S = 2.0
WAYS = ("frozen", "killed", "unreachable")


class SilentLine(NamedTuple):
    """A way to a broker, and what makes it silent."""

    place: TopicPlace
    silence: Callable[[], None]


@pytest.fixture(params=WAYS)
def line(request: pytest.FixtureRequest, module_broker: KafkaBroker) -> Iterator[SilentLine]:
    """A broker that answers until it is silenced, in each way that there is."""
    again = threading.Event()

    def hold(_: ProxiedRequest) -> RequestFate:
        again.wait()
        return RequestFate.CUT

    with contextlib.ExitStack() as stack:
        address = module_broker.address
        if request.param == "frozen":
            silence = module_broker.pause
            stack.callback(module_broker.resume)
        elif request.param == "killed":
            silence = module_broker.kill
            stack.callback(module_broker.restart)
        else:
            proxy = stack.enter_context(KafkaProxy(module_broker))
            address = proxy.address
            stack.callback(again.set)

            def silence() -> None:
                proxy.rule = hold

        place = TopicPlace(address, f"d{time.monotonic_ns()}")
        create_topics(place)
        yield SilentLine(place, silence)


def create_topics(place: TopicPlace) -> None:
    """Make the topics; a broker that has just woken takes a moment until it counts itself in."""
    end = time.monotonic() + 90
    with place.open() as log:
        while True:
            try:
                log.create_topics(1)
                return
            except LogError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds + SLOW


def page(name: int) -> dict[str, str]:
    return {"id": str(name), "text": "…"}


def client_with_pages(place: TopicPlace) -> Iterator[None]:
    client = Client(place.address, place.prefix)
    client.submit(page(0))
    yield
    futures = [client.submit(page(1))]
    time.sleep(0.5)  # it now waits for an acknowledgement, and the pages that follow wait behind it
    futures += [client.submit(page(number)) for number in range(2, 20)]
    with within(MAX_CLOSE_S):
        client.close()
    assert all(isinstance(future.exception(0), SimstreamError) for future in futures)


def new_client(place: TopicPlace) -> Iterator[None]:
    yield
    with within(3.0), pytest.raises(BrokerUnreachable):
        Client(place.address, place.prefix, timeout=3)


FORGETS = """
import sys, time
from simstream.client import Client
client = Client(sys.argv[1], sys.argv[2])
client.submit({"id": "a", "text": "…"})
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    client.submit({"id": str(number), "text": "…"})
    time.sleep(0.05)
print("end", flush=True)
"""


def program_that_forgets_to_close(place: TopicPlace) -> Iterator[None]:
    command = [sys.executable, "-c", FORGETS, place.address, place.prefix]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield
        running.stdin.write("\n")
        running.stdin.flush()
        assert running.stdout.readline() == "end\n"
        with within(MAX_CLOSE_S):
            assert running.wait(60) == 0


# `running` is left out: where the broker goes away, the client's questions about groups can end the process.
QUESTIONS: dict[str, Callable[[Log], object]] = {
    "topic": lambda log: log.topic(PAGES),
    "end_offsets": lambda log: log.end_offsets(VERDICTS),
    "retention_ms": lambda log: log.retention_ms(PAGES),
    "source_offsets": lambda log: log.source_offsets(),
    "set_group_offsets": lambda log: log.set_group_offsets({0: 0}),
    "create_topics": lambda log: log.create_topics(1),
    "appender": lambda log: log.open_appender(PAGES),
    "reader": lambda log: log.open_reader(VERDICTS, "end"),
    "source": lambda log: log.open_consumer(),
    "election": lambda log: log.join_election(),
    "committed": lambda log: log.open_publisher().committed(),
    "start": lambda log: log.open_publisher().start(),
}


def questions_within_the_patience(place: TopicPlace) -> Iterator[None]:
    with place.open(patience=PATIENCE_S) as log:
        log.topic(PAGES)
        yield
        with ThreadPoolExecutor(len(QUESTIONS)) as threads, within(PATIENCE_S + GRACE_S):
            asked = {name: threads.submit(ask, log) for name, ask in QUESTIONS.items()}
    assert {name: type(future.exception()) for name, future in asked.items()} == dict.fromkeys(
        QUESTIONS, BrokerUnreachable
    )


def whatever_is_open(place: TopicPlace) -> Iterator[None]:
    with place.open(patience=PATIENCE_S) as log:
        appender = log.open_appender(FINGERPRINTS)
        publisher = log.open_publisher()
        publisher.start()
        source, election = log.open_consumer(), log.join_election()
        opened: list[Closing] = [log.open_reader(VERDICTS, "end"), election, source, publisher, appender]

        def has_joined() -> bool:
            source.poll(10, 0.1)
            return bool(source.positions()) and election.elected

        until(has_joined, "the consumer has its partition, and the judge is elected")
        yield
        appender.append(b"frame")
        for one in opened:
            with within(MAX_LEAVE_S), contextlib.suppress(BrokerUnreachable):
                one.close()


ENDING = (client_with_pages, new_client, questions_within_the_patience, whatever_is_open)
"""Each prepares something, and asserts after its `yield`, while the broker is silent, that it ends in its time."""


def test_clients_questions_and_all_that_is_open_end_in_their_time(
    line: SilentLine, request: pytest.FixtureRequest
) -> None:
    is_frozen = request.node.callspec.params["line"] == "frozen"
    ending = [one(line.place) for one in (*ENDING, *[program_that_forgets_to_close] * is_frozen)]
    with ThreadPoolExecutor(len(ending)) as threads:
        list(threads.map(next, ending))
        line.silence()
        ended = {one.__name__: threads.submit(list, one) for one in ending}
    assert {name: future.exception() for name, future in ended.items()} == dict.fromkeys(ended)
