"""Closing a client ends in time, even if its threads do not."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from simstream.client import AsyncClient, Client, aio, sync, traffic
from simstream.client.connecting import connect
from simstream.client.room import PageRoom, RoomPlace
from simstream.client.traffic import Traffic
from simstream.errors import (
    BrokerUnreachable,
    ClientClosed,
    LogError,
    LogLocked,
    SettingsError,
    TopicMissing,
    TopicRecreated,
    UsageError,
)
from simstream.log import Log, open_log
from tests.kafka_fixtures import TopicPlace
from tests.unit.test_deduper_folder import forked
from tests.waiting import until


class StuckLog:
    """A log whose reader and appender answer no call until `go_on` is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.may_open = threading.Event()
        self.may_open.set()
        self.is_closed = False
        self.opened = 0
        self.discarded = 0
        self.closed_readers = 0
        self.polls = 0
        self.poll_error: LogError | None = None

    def topic(self, name: str) -> Any:
        return SimpleNamespace(name=name)

    def open_reader(self, *_: object) -> Any:
        return SimpleNamespace(poll=lambda *_: self.poll(), close=self._close_reader)

    def open_appender(self, _: str) -> Any:
        self.opened += 1
        self.may_open.wait()
        return SimpleNamespace(append=lambda *_, **__: self._wait(1), flush=lambda _: 1, discard=self._discard)

    def poll(self) -> object:
        self.polls += 1
        if self.poll_error is not None:
            raise self.poll_error
        return self._wait([])

    def _close_reader(self) -> None:
        self.closed_readers += 1

    def _discard(self) -> None:
        self.discarded += 1

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
    stuck.may_open.set()


def test_closing_does_not_wait_for_threads_that_wait_for_the_broker(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "MAX_CLOSE_S", 1.2)
    client = Traffic(log, connect(log, 60.0), in_flight=1, timeout=60.0)  # type: ignore[arg-type]
    verdict = client.send(client.room.enter(RoomPlace()), {"id": "a", "text": "…"}, None)
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
    client = Client(timeout=60.0)
    began = time.monotonic()
    assert forked(lambda: client.submit(PAGE).result()) == 3
    assert forked(client.close) == 0
    assert time.monotonic() - began < 60.0
    log.go_on.set()
    client.close()
    assert (log.discarded, log.closed_readers) == (1, 1)


def test_a_page_that_cannot_be_sent_takes_no_room(log: StuckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    with Client(timeout=60.0, in_flight=1) as client:
        with pytest.raises(UsageError, match="neither id nor URL"):
            client.submit({"text": "…"})
        client.submit(PAGE, wait=0.0)
        log.go_on.set()


def test_a_caller_that_is_interrupted_while_it_waits_for_room_takes_none(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(given: Future[None], seconds: float) -> None:
        client._traffic.room.leave(taken)
        assert given.done()
        raise KeyboardInterrupt

    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    with Client(timeout=60.0, in_flight=1) as client:
        taken = client._traffic.room.enter(RoomPlace())
        with monkeypatch.context() as patch:
            patch.setattr(Future, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.submit(PAGE)
        client.submit(PAGE, wait=0.0)
        log.go_on.set()


class TimeLimitError(Exception):
    """Of a host, raised by a signal's handler."""


def submit_within(client: Client, steps: int) -> TimeLimitError | None:
    """Submit a page, and raise TimeLimitError after so many lines of the client. Return it, or None.

    CPython runs no handler in lines without calls, as those that hold a lock here.
    """
    locks: Any = (client._traffic.room._lock, client._traffic._pending._lock)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        is_client = "/simstream/client/" in frame.f_code.co_filename
        if is_client and event != "exception" and not any(lock._is_owned() for lock in locks):
            steps -= 1
            if steps < 0:
                sys.settrace(None)
                raise TimeLimitError
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        client.submit(PAGE, wait=0.0, timeout=0.001)
    except TimeLimitError as error:
        return error
    finally:
        sys.settrace(former)
    return None


def test_a_time_limit_in_the_middle_of_a_submit_costs_no_room(
    local_log: Log, local_place: TopicPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "LISTEN_S", 0.01)
    monkeypatch.setattr(traffic, "LOOK_EVERY_S", 0.001)
    steps, kept = 0, []
    with Client(local_place.address, in_flight=1) as client:
        while error := submit_within(client, steps):
            kept.append(error)  # a host may keep it, with all that its frames refer to
            until(lambda: client._traffic.room._free == 1, f"the place comes back after {steps} lines", seconds=10)
            steps += 1
    assert steps > 20


def test_later_callers_get_the_error_that_ended_a_client_although_there_is_no_room(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    log.poll_error = TopicRecreated("it was created again", "make a new client")
    client = Client(timeout=60.0, in_flight=1)
    until(lambda: client.ended, "it has ended")
    client._traffic.room._free = 0
    with pytest.raises(TopicRecreated):
        client.submit(PAGE)
    log.go_on.set()
    client.close()


def test_a_client_outlives_a_broker_that_does_not_answer(log: StuckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    monkeypatch.setattr(traffic, "LISTEN_S", 0.01)
    log.poll_error = BrokerUnreachable("no broker answers", "start it")
    with Client(timeout=60.0) as client:
        until(lambda: log.polls > 2, "it asks again")
        assert not client.ended
        log.go_on.set()


def test_a_client_that_may_not_write_leaves_no_reader_open(log: StuckLog) -> None:
    def locked(_: str) -> Any:
        raise LogLocked("another process writes", "stop it")

    log.open_appender = locked  # type: ignore[method-assign]
    with pytest.raises(LogLocked):
        connect(log, 60.0)  # type: ignore[arg-type]
    assert log.closed_readers == 1


def test_a_forked_process_is_refused_at_once_with_asyncio_too(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "log_of", lambda *_, **__: log)
    client = AsyncClient(timeout=60.0)
    asyncio.run(client.open())
    began = time.monotonic()
    assert forked(lambda: asyncio.run(client.judge(PAGE))) == 3
    assert forked(lambda: asyncio.run(client.close())) == 0
    assert time.monotonic() - began < 60.0
    log.go_on.set()
    asyncio.run(client.close())


def leaves_nothing_open(log: StuckLog) -> None:
    until(lambda: log.opened == 1, "it connects")
    assert (log.discarded, log.is_closed) == (0, False)
    log.may_open.set()
    until(lambda: log.is_closed, "all is closed")
    assert log.discarded == 1


def test_a_client_that_was_cancelled_while_it_connected_leaves_no_connection(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "log_of", lambda *_, **__: log)
    log.may_open.clear()

    async def cancelled() -> None:
        async with asyncio.timeout(0.05), AsyncClient(timeout=60.0):
            pass

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
    leaves_nothing_open(log)


def test_a_client_that_was_interrupted_while_it_connected_leaves_no_connection(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    log.may_open.clear()
    main = threading.get_ident()

    def interrupt() -> None:
        try:
            until(lambda: log.opened, "it connects", seconds=50)
        finally:
            signal.pthread_kill(main, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        Client(timeout=60.0)
    interrupting.join()
    leaves_nothing_open(log)


@contextmanager
def own_time_limit(begins: Callable[[], object]) -> Iterator[None]:
    """Raise the host's own TimeoutError in this thread, by a signal's handler, once `begins()` is true."""

    def limit(*_: object) -> None:
        raise TimeoutError("the host's own time limit")

    def interrupt() -> None:
        until(begins, "it waits", seconds=50)
        signal.pthread_kill(main, signal.SIGUSR1)

    main = threading.get_ident()
    former = signal.signal(signal.SIGUSR1, limit)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(TimeoutError, match="the host's own time limit"):
            yield
    finally:
        interrupting.join()
        signal.signal(signal.SIGUSR1, former)


def test_a_hosts_own_time_limit_is_no_answer_of_the_client(log: StuckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    log.may_open.clear()
    with own_time_limit(lambda: log.opened):
        Client(timeout=60.0)
    log.may_open.set()
    with Client(timeout=60.0, in_flight=1) as client:
        client.submit(PAGE)
        with own_time_limit(lambda: client._traffic.room._line):
            client.submit(PAGE, wait=60.0)
        log.go_on.set()


def test_tasks_that_open_a_client_at_once_share_its_connection(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "log_of", lambda *_, **__: log)
    client = AsyncClient(timeout=5.0)

    async def open_thrice() -> None:
        await asyncio.gather(*(client.open() for _ in range(3)))

    asyncio.run(open_thrice())
    assert log.opened == 1
    log.go_on.set()
    asyncio.run(client.close())


def test_a_closed_client_is_not_opened_again(log: StuckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is kept over two calls of asyncio.run."""
    monkeypatch.setattr(aio, "log_of", lambda *_, **__: log)
    log.go_on.set()
    client = AsyncClient(timeout=5.0)

    async def use() -> None:
        async with client:
            pass

    asyncio.run(use())
    with pytest.raises(ClientClosed, match="the client was closed: make another one"):
        asyncio.run(use())


def test_a_time_limit_while_a_client_closes_leaves_no_future_open(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limit(*_: object) -> None:
        raise TimeLimitError

    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    client = Client(timeout=60.0)
    verdicts = [client.submit(PAGE) for _ in range(200)]
    main, former = threading.get_ident(), signal.signal(signal.SIGALRM, limit)
    verdicts[0].add_done_callback(lambda _: signal.pthread_kill(main, signal.SIGALRM))
    log.go_on.set()
    try:
        with pytest.raises(TimeLimitError):
            client.close()
    finally:
        signal.signal(signal.SIGALRM, former)
    until(lambda: all(verdict.done() for verdict in verdicts), "every future is done")


def test_a_signal_as_a_full_client_refuses_a_page_leaves_nobody_in_line(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdraw, calls = PageRoom.withdraw, list[RoomPlace]()

    def interrupted(room: PageRoom, place: RoomPlace) -> None:
        calls.append(place)
        if len(calls) == 1:
            raise TimeLimitError
        withdraw(room, place)

    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    with Client(timeout=60.0, in_flight=1) as client:
        taken = client._traffic.room.enter(RoomPlace())
        with monkeypatch.context() as patch:
            patch.setattr(PageRoom, "withdraw", interrupted)
            with pytest.raises(TimeLimitError):
                client.submit(PAGE, wait=0.0)
        client._traffic.room.leave(taken)
        client.submit(PAGE, wait=0.0)
        log.go_on.set()


def test_a_callback_may_close_a_client_while_the_closing_thread_holds_a_lock(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    client, lock, closed = Client(timeout=60.0), threading.RLock(), list[bool]()

    def close(_: Future[Any]) -> None:
        with lock:
            client.close()
            closed.append(True)

    verdicts = [client.submit(PAGE) for _ in range(4)]
    for verdict in verdicts:
        verdict.add_done_callback(close)
    log.go_on.set()
    with lock:
        client.close()
    assert closed == [True] * 4


def test_a_client_closes_where_no_thread_starts_any_more(log: StuckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    client = Client(timeout=60.0)
    verdict = client.submit(PAGE)
    log.go_on.set()
    monkeypatch.setattr(threading.Thread, "start", refuses)
    client.close()
    assert isinstance(verdict.exception(0), ClientClosed)


def test_a_client_that_was_interrupted_while_it_closed_is_closed(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    client = Client(timeout=60.0)
    verdict = client.submit(PAGE)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.close()
    assert isinstance(verdict.exception(0), ClientClosed)
    assert log.is_closed
    log.go_on.set()
    until(lambda: log.closed_readers, "the listener ends")
    client.close()
    assert log.discarded == 1


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"in_flight": 2.5}, "in_flight is 2.5: give a whole number, 1 or more"),
        ({"in_flight": None}, "in_flight is None: give a whole number, 1 or more"),
        ({"in_flight": 0}, "in_flight is 0: give a whole number, 1 or more"),
        ({"timeout": None}, "timeout is None: give a number of seconds; float('inf') is for ever"),
        ({"timeout": "3"}, "timeout is '3': give a number of seconds; float('inf') is for ever"),
        ({"timeout": 0.0}, "timeout is 0.0: give more than 0 seconds"),
    ],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_limits_that_are_none_are_refused_by_name(kind: Any, limits: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(said)}$"):
        kind("log", **limits)


@pytest.mark.parametrize("given", [{"wait": None}, {"wait": "1"}, {"timeout": "1"}, {"timeout": float("nan")}])
def test_a_page_with_seconds_that_are_no_number_is_refused(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    for module in (sync, aio):
        monkeypatch.setattr(module, "log_of", lambda *_, **__: log)
    log.go_on.set()

    async def submit_async() -> None:
        async with AsyncClient(in_flight=1) as client:
            await client.submit(PAGE, **given)

    with Client(in_flight=1) as client, pytest.raises(UsageError, match="give a number of seconds"):
        client.submit(PAGE, **given)
    with pytest.raises(UsageError, match="give a number of seconds"):
        asyncio.run(submit_async())


def test_closing_needs_no_executor(log: StuckLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the main thread has ended, asyncio's own takes no work."""
    monkeypatch.setattr(aio, "log_of", lambda *_, **__: log)
    log.go_on.set()

    async def use() -> None:
        async with AsyncClient(timeout=60.0):
            executor = ThreadPoolExecutor()
            executor.shutdown()
            asyncio.get_running_loop().set_default_executor(executor)

    asyncio.run(use())
    assert log.is_closed


@pytest.mark.parametrize("seconds", [float("inf"), 1e300])
def test_a_caller_without_room_may_wait_for_ever(
    log: StuckLog, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(sync, "log_of", lambda *_, **__: log)
    client = Client(timeout=seconds, in_flight=1)
    client.submit(PAGE)
    closing = threading.Timer(0.2, client.close)
    closing.start()
    log.go_on.set()
    with pytest.raises(ClientClosed):
        client.submit(PAGE, wait=seconds)
    closing.join()


def test_a_client_may_be_opened_again_after_it_was_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[StuckLog] = []

    def log_of(*_: object, **__: object) -> StuckLog:
        logs.append(StuckLog())
        return logs[-1]

    monkeypatch.setattr(aio, "log_of", log_of)
    client = AsyncClient(timeout=60.0)
    logs[0].may_open.clear()

    async def open_twice() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.open()
        await client.open()
        logs[0].may_open.set()
        until(lambda: logs[0].is_closed, "the first log is closed")
        assert not logs[1].is_closed
        logs[1].go_on.set()
        await client.close()

    asyncio.run(open_twice())
    assert len(logs) == 2


def test_a_later_attempt_to_open_finds_the_log_in_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client = AsyncClient("log", timeout=60.0)

    async def open_twice() -> None:
        with pytest.raises(TopicMissing):
            await client.open()
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        open_log(str(tmp_path / "log")).create_topics(1)
        await client.open()
        await client.close()

    asyncio.run(open_twice())


def test_a_directory_may_be_a_path_and_a_wrong_address_names_no_flag(tmp_path: Path) -> None:
    with pytest.raises(TopicMissing):
        Client(tmp_path, timeout=60)
    with pytest.raises(SettingsError, match=r"^the log 'foo:1' is not a directory: did you mean kafka://foo:1\?$"):
        Client("foo:1")
