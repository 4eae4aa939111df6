"""What the news page's port does for clients that connect and say nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from simstream.feeds import connections
from simstream.feeds.connections import BoundedRunner
from simstream.model import MAX_ID_BYTES
from tests.waiting import soon

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ASK = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@asynccontextmanager
async def running(slow: asyncio.Event) -> AsyncIterator[BoundedRunner]:
    """A server of pages: `/quick`, `/half`, `/large`, `/failing`, and `/slow`, which answers after an event."""

    async def quick(request: web.Request) -> web.Response:
        return web.Response(text="quick")

    async def wait(request: web.Request) -> web.Response:
        await slow.wait()
        return web.Response(text="slow")

    async def large(request: web.Request) -> web.Response:
        return web.Response(body=bytes(64 << 20))

    async def half(request: web.Request) -> web.Response:
        return web.Response(body=bytes(48 << 10))

    async def fail(request: web.Request) -> web.Response:
        raise ValueError("a mistake of ours")

    app = web.Application()
    app.router.add_get("/quick", quick)
    app.router.add_get("/failing", fail)
    app.router.add_get("/slow", wait)
    app.router.add_get("/half", half)
    app.router.add_get("/large", large)
    runner = BoundedRunner(app)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the system keeps little of an answer
    await web.SockSite(runner, listening).start()
    try:
        yield runner
    finally:
        slow.set()
        await runner.cleanup()


@asynccontextmanager
async def served(slow: asyncio.Event) -> AsyncIterator[int]:
    """The port of these pages."""
    async with running(slow) as runner:
        yield runner.addresses[0][1]


async def deaf_client(port: int, page: bytes) -> socket.socket:
    """A client that asks for a page, and never reads the answer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    await asyncio.get_running_loop().sock_sendall(client, ASK % page)
    return client


async def asked(streams: Streams, page: bytes) -> bytes:
    streams[1].write(ASK % page)
    return await asyncio.wait_for(streams[0].readuntil(page), 30)


def test_a_new_client_takes_the_place_of_the_oldest_that_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)

    async def run() -> None:
        async with served(asyncio.Event()) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            known = await asyncio.open_connection("127.0.0.1", port)
            assert b"quick" in await asked(known, b"quick")
            others = []
            for gone in silent:
                others.append(await asyncio.open_connection("127.0.0.1", port))
                assert b"quick" in await asked(others[-1], b"quick")
                assert await asyncio.wait_for(gone[0].read(), 30) == b""

    asyncio.run(run())


def test_a_client_with_a_request_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)

    async def run() -> None:
        slow = asyncio.Event()
        async with served(slow) as port:
            busy = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            answers = [asyncio.ensure_future(asked(one, b"slow")) for one in busy]
            await asyncio.sleep(0.2)
            refused = await asyncio.open_connection("127.0.0.1", port)
            assert await asyncio.wait_for(refused[0].read(), 30) == b""
            slow.set()
            assert all(b"slow" in answer for answer in await asyncio.gather(*answers))

    asyncio.run(run())


def test_clients_that_never_read_their_answers_hold_no_more_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(connections, "REQUEST_S", 3600.0)

    async def run() -> None:
        async with running(asyncio.Event()) as runner:
            assert runner.server is not None
            there, deaf = runner.server._connections, list[socket.socket]()
            for number in range(1, 21):
                deaf.append(await deaf_client(runner.addresses[0][1], b"half"))
                await soon(
                    lambda number=number: (
                        runner.server.requests_count == number
                        and len(there) <= 3
                        and all(one._waiter is not None for one in there)
                    ),
                    "all is answered, and few connections are left",
                )
            assert len(runner._looks) == len(there) == 3
            for client in deaf:
                client.close()
            await soon(lambda: not there, "all connections end")
            assert not runner._looks

    asyncio.run(run())


@pytest.mark.parametrize("sent", [b"", b"GET /quick HTTP/1.1\r\nHost: "])
def test_a_client_that_never_ends_its_head_loses_its_connection(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.3)

    async def run() -> None:
        async with served(asyncio.Event()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            await asyncio.wait_for(reader.read(), 30)

    asyncio.run(run())


def test_a_client_that_never_reads_its_answer_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)

    async def run() -> None:
        async with served(asyncio.Event()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.write(ASK % b"large")
            await asyncio.sleep(2)
            size, whole = 0, 64 << 20
            while part := await asyncio.wait_for(reader.read(1 << 20), 30):
                size += len(part)
            assert size < whole

    asyncio.run(run())


def test_a_client_that_never_reads_its_answer_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STOP_S", 0.1)

    async def run() -> None:
        async with running(asyncio.Event()) as runner:
            assert runner.server is not None
            with await deaf_client(runner.addresses[0][1], b"large"):
                await soon(lambda: runner.server.requests_count, "the request is in work")
                async with asyncio.timeout(30):  # aiohttp alone would wait for two minutes
                    await runner.cleanup()

    asyncio.run(run())


def test_a_connection_ends_only_if_two_looks_find_it_in_the_same_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 3600.0)

    async def run() -> None:
        slow = asyncio.Event()
        async with running(slow) as runner:
            server = runner.server
            assert server is not None
            client = await asyncio.open_connection(*runner.addresses[0][:2])

            def look() -> None:
                [due] = runner._looks.values()
                due._run()
                due.cancel()

            for number in (1, 3):
                answer = asyncio.ensure_future(asked(client, b"slow"))
                await soon(lambda number=number: server.requests_count == number, "a request is in work")
                look()
                slow.set()
                assert b"slow" in await answer
                slow.clear()
                assert b"quick" in await asked(client, b"quick")
            client[1].write(ASK % b"slow")
            await soon(lambda: server.requests_count == 5, "the last request is in work")
            [transport] = server._connections.values()
            look()
            assert not transport.is_closing()
            look()
            assert transport.is_closing()

    asyncio.run(run())


@pytest.mark.parametrize(
    "sent", [b"GET /quick HTTP/1.1\r\nno colon\r\n\r\n", b"GET /quick HTTP/9\r\n\r\n", b"G T / HTTP/1.1\r\n\r\n"]
)
def test_a_malformed_request_gets_its_answer_and_fills_no_log(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with served(asyncio.Event()) as port:
            malformed = await asyncio.open_connection("127.0.0.1", port)
            malformed[1].write(sent)
            assert b" 400 " in await asyncio.wait_for(malformed[0].readline(), 30)

    asyncio.run(run())
    assert not [line for line in caplog.records if line.name == "simstream.news.http"]


def test_a_request_may_name_two_pages_with_the_longest_ids() -> None:
    long = b"%E4%BD%A0" * (MAX_ID_BYTES // 3)

    async def run() -> None:
        async with served(asyncio.Event()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASK % (b"quick?a=%b&b=%b" % (long, long)))
            assert b" 200 " in await asyncio.wait_for(reader.readline(), 30)

    asyncio.run(run())


def test_a_mistake_of_the_page_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with served(asyncio.Event()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASK % b"failing")
            assert b" 500 " in await asyncio.wait_for(reader.readline(), 30)

    asyncio.run(run())
    assert "a mistake of ours" in caplog.text
