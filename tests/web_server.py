"""Web servers of tests, on loopback, each in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class _Quiet:
    """Keeps a handler from logging its requests."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class LoopbackServer(ThreadingHTTPServer):
    """Answers with a handler on a free port."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), type(handler.__name__, (_Quiet, handler), {}))
        self.asked: list[Any] = []
        """What the handler notes of its requests."""

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_port}"


Server = TypeVar("Server", bound=LoopbackServer)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve within the block."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
