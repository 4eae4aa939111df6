"""Opens the API's port: uvicorn in a thread of this process."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import MutableMapping
from typing import Any

import uvicorn

from simstream.closing import Closing
from simstream.errors import SettingsError
from simstream.queries.connection import QueryConnection
from simstream.queries.guard import CallerGuard
from simstream.queries.limits import App, BodyLimiter, QueryLimits, Receive, Send, SlowReaderError
from simstream.telemetry.callers import CallerRules, bound

MAX_CONNECTIONS = 256
IDLE_S = 5
END_S = 5
"""Seconds that running answers have when the service ends."""


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Whether a line of the server's log is about more than a client that does not read its answer."""
    return not (record.exc_info and isinstance(record.exc_info[1], SlowReaderError))


logging.getLogger("uvicorn.error").addFilter(_is_our_fault)


class QueryServer(Closing):
    """Serves an application on one address. Port 0 takes any free port; `port` tells which.

    Raises SettingsError if the address cannot be bound.
    """

    def __init__(self, host: str, port: int, app: App, callers: CallerRules | None = None) -> None:
        self._socket = _bound(host, port)
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            CallerGuard(BodyLimiter(_answering_head(app), QueryLimits()), callers or CallerRules()),
            http=QueryConnection,
            log_config=None,
            log_level=logging.WARNING,  # the role itself logs its start and its end
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=END_S,
            lifespan="on",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="query-http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer the open requests, and end."""
        self._server.should_exit = True
        self._thread.join(END_S + 5)
        self._socket.close()


def _answering_head(app: App) -> App:
    """Return the application with answers to HEAD, which are those to GET: uvicorn leaves out their bodies."""

    async def answer(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        await app({**scope, "method": "GET"} if is_head else scope, receive, send)

    return answer


def _bound(host: str, port: int) -> socket.socket:
    try:
        return bound(host, port, listens=True)  # a client that asks before the loop runs waits for it
    except OSError as error:
        raise SettingsError(
            f"port {port} on {host} cannot be opened ({error.strerror})",
            "choose another port with --query-port, or another address with --query-host",
        ) from error
