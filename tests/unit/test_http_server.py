"""The HTTP port against clients that are slow, many, too large or senseless."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.http import HttpLimits, HttpServer
from simstream.telemetry.metrics import Metrics
from tests.waiting import until

LIMITS = HttpLimits(connections=8, seconds=0.5, request_bytes=4096)
PATIENT = replace(LIMITS, seconds=60.0)
WAIT = 120.0


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer("127.0.0.1", 0, Metrics(), ServiceHealth(), LIMITS) as running:
        yield running


@pytest.fixture
def patient() -> Iterator[HttpServer]:
    with HttpServer("127.0.0.1", 0, Metrics(), ServiceHealth(), PATIENT) as running:
        yield running


def connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=WAIT)


def answer(wire: socket.socket) -> bytes:
    """All that comes until the other side hangs up."""
    found = b""
    try:
        while part := wire.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found


def ask(server: HttpServer, request: bytes) -> bytes:
    with connect(server) as wire:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            wire.sendall(request)
        return answer(wire)


def sent(wire: socket.socket, data: bytes) -> bool:
    """Whether anybody still takes it."""
    try:
        wire.sendall(data)
    except OSError:
        return False
    return True


def status(server: HttpServer, request: bytes = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n") -> int:
    return int(ask(server, request).split()[1])


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET /health/live?x=1 HTTP/1.1\r\n\r\n", 200),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n", 501),
        (b"GET /metrics HTTP/9.9\r\n\r\n", 505),
        (b"GET /metrics HTTP/1.1 extra\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"\xff\xfe<script>alert(1)</script> x\r\n\r\n", 400),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 50_000 + b"\r\n", 431),
    ],
)
def test_a_bad_request_is_answered_by_its_status_and_never_repeated(
    patient: HttpServer, request_bytes: bytes, expected: int, capfd: pytest.CaptureFixture[str]
) -> None:
    found = ask(patient, request_bytes)
    # Where not all of a request is read, the system may take the answer back: then nothing comes.
    assert b" %d " % expected in found.split(b"\r\n")[0] if found else expected == 431
    assert b"script" not in found
    assert b"Python" not in found
    assert status(patient) == 200
    assert capfd.readouterr() == ("", "")


def test_a_client_that_never_finishes_its_request_is_disconnected() -> None:
    limits = replace(LIMITS, request_bytes=1 << 20)  # only the time ends it
    with HttpServer("127.0.0.1", 0, Metrics(), ServiceHealth(), limits) as server:
        with connect(server) as wire:
            wire.sendall(b"GET /metrics HTTP/1.1\r\n")
            until(lambda: not sent(wire, b"X"), "it is hung up on")
        until(lambda: not server._server._open, "its thread ends")


def test_a_process_that_is_not_ready_says_so_by_its_status() -> None:
    health = ServiceHealth()
    health.turn("judge", False, "waits for the log")
    with HttpServer("127.0.0.1", 0, Metrics(), health, LIMITS) as server:
        assert status(server, b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n") == 503


def test_a_client_that_never_reads_its_answer_is_hung_up_on(server: HttpServer) -> None:
    wires = [connect(server) for _ in range(4)]
    for wire in wires:
        wire.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    until(lambda: not server._server._open, "all are ended")
    for wire in wires:
        wire.close()


def test_of_too_many_the_oldest_makes_room_and_a_probe_is_always_answered(patient: HttpServer) -> None:
    before = threading.active_count()
    wires = []
    for _ in range(60):
        wires.append(connect(patient))
        wires[-1].sendall(b"GET /met")
        assert status(patient) == 200
        assert len(patient._server._open) <= PATIENT.connections
    until(lambda: threading.active_count() <= before + PATIENT.connections, "threads are bounded")
    assert answer(wires[0]) == b""
    for wire in wires:
        wire.close()
    until(lambda: not patient._server._open, "clients that went away are noticed")


def test_nobody_but_this_machine_reaches_it_unless_told(server: HttpServer) -> None:
    with pytest.raises(ConnectionRefusedError):  # who listens everywhere listens here, too
        socket.create_connection(("127.0.0.2", server.port), timeout=WAIT)


def test_an_address_of_ip_6_can_be_listened_on() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IP 6")
    with (
        HttpServer("::1", 0, Metrics(), ServiceHealth()) as running,
        socket.create_connection(("::1", running.port)) as wire,
    ):
        wire.sendall(b"GET /health/live HTTP/1.1\r\n\r\n")
        assert b"200 OK" in answer(wire)
