"""Closing a client ends in time, even if its threads do not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from simstream.client import AsyncClient, Client, aio, sync, traffic
from simstream.client.traffic import Traffic
from simstream.errors import ClientClosed
from tests.unit.test_deduper_folder import forked


class StuckLog:
    """A log whose reader and appender answer no call until `go_on` is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.is_closed = False

    def topic(self, name: str) -> Any:
        return SimpleNamespace(name=name)

    def open_reader(self, *_: object) -> Any:
        return SimpleNamespace(poll=lambda *_: self._wait([]), close=lambda: None)

    def open_appender(self, _: str) -> Any:
        return SimpleNamespace(append=lambda *_, **__: self._wait(1), flush=lambda _: 1, discard=lambda: None)

    def close(self) -> None:
        self.is_closed = True

    def _wait(self, answer: object) -> object:
        self.go_on.wait()
        return answer


@pytest.fixture
def log() -> Iterator[StuckLog]:
    stuck = StuckLog()
    yield stuck
    stuck.go_on.set()


def test_closing_does_not_wait_for_threads_that_wait_for_the_broker(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "MAX_CLOSE_S", 1.2)
    client = Traffic(log, in_flight=1, timeout=60.0)  # type: ignore[arg-type]
    client.room.enter()
    verdict = client.send({"id": "a", "text": "…"}, None)
    closing = threading.Thread(target=client.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    assert [thread.is_alive() for thread in client._threads] == [True, True]
    assert isinstance(verdict.exception(0), ClientClosed)
    assert log.is_closed


PAGE = {"id": "a", "text": "…"}


def test_a_forked_process_is_refused_at_once_and_closes_nothing(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    client = Client(timeout=5.0)
    began = time.monotonic()
    assert forked(lambda: client.submit(PAGE).result()) == 3
    assert forked(client.close) == 0
    assert time.monotonic() - began < 5.0
    log.go_on.set()
    client.close()


def test_a_forked_process_is_refused_at_once_with_asyncio_too(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "log_of", lambda *_, **__: log)
    client = AsyncClient(timeout=5.0)
    asyncio.run(client.open())
    began = time.monotonic()
    assert forked(lambda: asyncio.run(client.judge(PAGE))) == 3
    assert forked(lambda: asyncio.run(client.close())) == 0
    assert time.monotonic() - began < 5.0
    log.go_on.set()
    asyncio.run(client.close())
