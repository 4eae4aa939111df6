"""A Kafka client that never ends costs a thread, and holds up nobody."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from simstream.errors import DeliveryFailed
from simstream.log.kafka import appender, client_end, cluster
from simstream.log.kafka.client_end import end_client, free_clients
from simstream.log.kafka.cluster import KafkaCluster
from simstream.log.options import FINGERPRINTS, LogOptions
from tests.waiting import until


class Endless:
    """In the place of a client: it waits as long as the test wants when it is freed, as clients were seen to do."""

    def __init__(self, *_: object) -> None:
        pass

    def __del__(self) -> None:
        freed_by.append(threading.current_thread().name)
        enough.wait(PATIENCE_S)


class NotedProducer(Producer):
    """A client that notes the thread which frees it."""

    def __del__(self) -> None:
        freed_by.append(threading.current_thread().name)


PATIENCE_S = 120.0
enough = threading.Event()
freed_by: list[str] = []


@pytest.fixture(autouse=True)
def unhurried() -> Iterator[None]:
    enough.clear()
    freed_by.clear()
    yield
    enough.set()


def wait_for(count: int) -> list[str]:
    """The threads that freed so many clients."""
    until(lambda: len(freed_by) >= count, f"{count} of them are freed", PATIENCE_S)
    return list(freed_by)


def test_a_client_that_never_ends_is_freed_elsewhere() -> None:
    clients = [Endless()]
    free_clients(clients)
    assert wait_for(1) == ["free"]


def test_another_admin_client_comes_although_an_earlier_one_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "RENEW_S", 0.0)
    monkeypatch.setattr(cluster, "AdminClient", Endless)
    servers = KafkaCluster("127.0.0.1:1", LogOptions())
    servers._is_silent = True
    seen = [id(servers.admin()) for _ in range(4)]
    assert wait_for(2) == ["free", "free"]
    assert len(set(seen)) == 4  # the last and the one before it stay: questions may wait for them
    enough.set()


def test_the_client_of_a_log_that_is_closed_is_never_freed_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "AdminClient", Endless)
    monkeypatch.setattr(cluster, "free_clients", _freed_before_it_returns)
    enough.set()
    closed = KafkaCluster("127.0.0.1:1", LogOptions())
    closed.admin()
    closed.close()
    assert wait_for(1) == ["free"]


def test_the_client_of_a_discarded_appender_is_freed_without_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KafkaCluster, "describe", lambda *_: {})
    monkeypatch.setattr(appender, "admitted_bytes", lambda *_: 1 << 20)
    monkeypatch.setattr(appender, "Producer", NotedProducer)
    gc.disable()
    try:
        discarded = appender.KafkaAppender(KafkaCluster("127.0.0.1:1", LogOptions()), FINGERPRINTS)
        discarded.append(b"a frame")
        discarded.discard()
        assert wait_for(1) == ["free"]
    finally:
        gc.enable()
    for call in (discarded.acknowledged, lambda: discarded.append(b"a frame"), lambda: discarded.flush(1)):
        with pytest.raises(DeliveryFailed, match="was closed"):
            call()
    discarded.discard()
    discarded.close()


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[appender.KafkaAppender]:
    """An appender that has failed, and that the garbage collector does not free."""
    monkeypatch.setattr(KafkaCluster, "describe", lambda *_: {})
    monkeypatch.setattr(appender, "admitted_bytes", lambda *_: 1 << 20)
    monkeypatch.setattr(appender, "Producer", NotedProducer)
    gc.disable()
    failed = appender.KafkaAppender(KafkaCluster("127.0.0.1:1", LogOptions()), FINGERPRINTS)
    failed._fail(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    yield failed
    gc.enable()


def test_the_client_of_a_failed_appender_is_freed_when_it_is_closed(failing: appender.KafkaAppender) -> None:
    failing.close()
    assert wait_for(1) == ["free"]


def test_a_client_stays_where_no_thread_can_be_started(
    failing: appender.KafkaAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    kept: list[list[object]] = []
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        full.setattr(client_end, "_unfreed", kept)
        failing.discard()
        assert freed_by == []
    free_clients(kept.pop())
    assert wait_for(1) == ["free"]


def _freed_before_it_returns(clients: list[object]) -> None:
    free_clients(clients)
    until(lambda: not clients, "the thread has emptied the list")


def test_waits_for_an_end_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    end_client(lambda: done.append(1))
    assert done == [1]
    monkeypatch.setattr(client_end, "MAX_END_S", 0.05)
    end_client(enough.wait)  # returns


def test_raises_what_the_end_raises() -> None:
    def fail() -> None:
        raise OSError("it failed")

    with pytest.raises(OSError, match="it failed"):
        end_client(fail)
