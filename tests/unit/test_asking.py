"""Requests to processes of simstream on this machine go past the proxy of the environment; others ask it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from simstream.cli.main import invoke
from simstream.telemetry.asking import open_url
from simstream.tools.status.processes import ask_processes
from tests.web_server import LoopbackServer, serving


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(b'{"live": true, "ready": true, "why": "", "roles": {}}')

    def do_POST(self) -> None:
        self._answer(b'{"results": [{"matches": []}]}')

    def _answer(self, body: bytes) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serving(LoopbackServer(_Answers)) as server:
        yield server


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving(LoopbackServer(_Answers)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        yield proxy


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_process_of_this_machine_is_asked_without_a_proxy(
    server: LoopbackServer, proxy: LoopbackServer, name: str
) -> None:
    [status] = ask_processes([f"{name}:{server.server_port}"])
    assert status.ready
    assert invoke(["match", "some text", "--api", f"http://{name}:{server.server_port}"]) == 0
    assert (server.asked, proxy.asked) == (["/health", "/match"], [])


def test_a_process_elsewhere_is_asked_by_the_proxy(proxy: LoopbackServer) -> None:
    with open_url(urllib.request.Request("http://query.example:9470/match"), 5.0) as answer:
        assert answer.status == 200
    assert proxy.asked == ["http://query.example:9470/match"]
