"""What silent clients of the API can hold: no place for long, and no answers that they do not read."""

from __future__ import annotations

import asyncio
import http.client
import select
import socket
import threading
import time
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import h11
import pytest

from simstream.queries import connection, limits, server
from simstream.queries.limits import QueryLimits, Receive, Send
from simstream.queries.server import QueryServer
from tests.waiting import until

LARGE = 4 << 20
PATIENCE_S = 120.0
GO = threading.Event()


async def application(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer every request, `/large` with as many bytes as a long list of matches, and `/slow` after `GO`."""
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": f"{(await receive())['type']}.complete"})
        return
    await receive()
    if scope["path"] == "/slow":
        await asyncio.to_thread(GO.wait, PATIENCE_S)
    body = b"x" * (LARGE if scope["path"] == "/large" else 2)
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[QueryServer]:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(connection, "HEAD_S", 4.0)
    with QueryServer("127.0.0.1", 0, application) as opened:
        yield opened


def ask(port: int, path: str = "/") -> tuple[int, int]:
    """Return the status and the number of bytes of an answer."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    client.request("GET", path)
    answer = client.getresponse()
    found = answer.status, len(answer.read())
    client.close()
    return found


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed this connection, or does so soon."""
    client.settimeout(PATIENCE_S)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_silent_clients_neither_take_all_places_nor_keep_theirs(api: QueryServer) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", api.port))) for _ in range(20)]
        silent[-1].sendall(b"GET / HTTP/1.1\r\nHost: half")
        until(lambda: select.select(silent, (), (), 0)[0] == silent[:13], "those that waited longest have ended")
        assert len(api._server.server_state.connections) == 7
        assert [ask(api.port) for _ in range(10)] == [(200, 2)] * 10
        assert all(is_closed(client) for client in silent)


def test_a_client_is_told_to_come_again_only_while_all_places_have_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    GO.clear()
    with QueryServer("127.0.0.1", 0, application) as api, ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(ask, api.port, "/slow") for _ in range(2)]
        tasks = api._server.server_state.tasks
        try:
            until(lambda: len(tasks) == 2, "two requests are in work")
            assert ask(api.port)[0] == 503
        finally:
            GO.set()
        assert [one.result(PATIENCE_S) for one in busy] == [(200, 2)] * 2
        until(lambda: not tasks, "both have ended")
        assert ask(api.port) == (200, 2)


def test_the_pieces_of_each_request_are_counted_anew() -> None:
    guard = connection.PieceGuard(h11.SERVER)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in range(2):
        guard.receive_data(head)
        assert isinstance(guard.next_event(), h11.Request)
        for _ in range(connection.MAX_FREE_PIECES):
            guard.receive_data(b"1\r\nx\r\n")
            assert isinstance(guard.next_event(), h11.Data)
        guard.receive_data(b"0\r\n\r\n")
        assert isinstance(guard.next_event(), h11.EndOfMessage)
        guard.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        guard.send(h11.EndOfMessage())
        guard.start_next_cycle()


def test_a_client_that_goes_on_asking_keeps_its_connection(api: QueryServer) -> None:
    client = http.client.HTTPConnection("127.0.0.1", api.port, timeout=PATIENCE_S)
    for _ in range(4):
        client.request("GET", "/")
        held = client.sock
        assert client.getresponse().read() == b"xx"
        assert client.sock is held
        time.sleep(1.5)
    client.close()


def test_a_client_that_reads_too_slowly_is_cut_off_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "QueryLimits", partial(QueryLimits, send_s=0.2))
    monkeypatch.setattr(limits, "MIN_BYTES_A_SECOND", 1 << 40)
    monkeypatch.setitem(globals(), "LARGE", 64 << 20)  # more than the system keeps of an answer
    with (
        QueryServer("127.0.0.1", 0, application) as api,
        socket.create_connection(("127.0.0.1", api.port)) as client,
    ):
        client.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answering = api._server.server_state.tasks
        until(lambda: bool(answering), "the answer is under way", every=0.01)
        until(lambda: not answering, "the answer is given up", every=0.01)
        client.settimeout(PATIENCE_S)
        size = 0
        with suppress(ConnectionError):
            while part := client.recv(1 << 16):
                size += len(part)
    assert size < LARGE
    assert not [line for line in caplog.records if line.name.startswith("uvicorn")]


def test_an_answer_that_nobody_reads_is_not_held_and_a_read_one_is_whole(api: QueryServer) -> None:
    assert ask(api.port, "/large") == (200, LARGE)
    with ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", api.port)))
            client.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")

        def held() -> list[int]:
            return [one.transport.get_write_buffer_size() for one in list(api._server.server_state.connections)]

        until(lambda: sum(size > 0 for size in held()) == 4, "all four answers are under way")
        assert sum(held()) < LARGE / 4
