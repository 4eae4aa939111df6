"""Bounds the connections of the news page: how many there are, and how long one may wait.

aiohttp has no limit of its own for clients that connect in great number, or that never read their answer.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError

MAX_CONNECTIONS = 256
MAX_LINE_BYTES = 16 << 10
"""The greatest size of a request's first line. A comparison names two pages; an id has up to 2 KB, escaped 6."""
HEAD_S = 10.0
"""Seconds in which the whole head of a request must come, on a new connection or after an answer."""
REQUEST_S = 20.0
"""Seconds in which a request must be answered, and the answer be read; at most twice as long."""
STOP_S = 2.0
"""At the end, requests under way have so many seconds for their answers, and as many to be cancelled."""
_logger = logging.getLogger("simstream.news.http")


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Whether a line of the server's log is about more than a malformed request, which got its answer."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_logger.addFilter(_is_our_fault)


class BoundedRunner(web.AppRunner):
    """Serves an application to at most `MAX_CONNECTIONS` connections at a time.

    One more ends the oldest connection without a request. If all have one, the new connection ends.
    """

    def __init__(self, app: web.Application) -> None:
        super().__init__(
            app,
            access_log=None,
            keepalive_timeout=HEAD_S,
            shutdown_timeout=STOP_S,
            max_line_size=MAX_LINE_BYTES,
            logger=_logger,
        )
        self._answers: dict[Any, int] = {}
        """The number of answers that have begun, by open connection."""
        self._looks: dict[Any, asyncio.TimerHandle] = {}
        """The next look at each connection."""
        app.on_response_prepare.append(self._count)

    async def _count(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if request.transport is not None:  # else the connection has ended, and nobody forgets it again
            self._answers[request.protocol] = self._answers.get(request.protocol, 0) + 1

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        note, forget, transports = server.connection_made, server.connection_lost, server._connections

        def connection_made(handler: Any, transport: asyncio.Transport) -> None:
            note(handler, transport)
            there = [one for one in transports if _is_open(transports[one])]
            if len(there) > MAX_CONNECTIONS:
                ending = (one for one in there if one._waiter is not None or transports[one].is_closing())
                _end(transports[next((one for one in ending if one is not handler), handler)])
            self._look_later(handler, transport, -1)

        def connection_lost(handler: Any, exc: BaseException | None = None) -> None:
            forget(handler, exc)
            self._answers.pop(handler, None)
            if (look := self._looks.pop(handler, None)) is not None:
                look.cancel()

        server.connection_made = connection_made  # type: ignore[method-assign]  # there is no other hook
        server.connection_lost = connection_lost  # type: ignore[method-assign]
        return server

    def _end_stuck(self, handler: Any, transport: asyncio.Transport, before: int) -> None:
        """End a connection that has had the same request since the last look, and look again later."""
        answers = self._answers.get(handler, 0) if handler._waiter is None else -1
        if transport.is_closing() or (before == answers >= 0):
            transport.abort()
        else:
            self._look_later(handler, transport, answers)

    def _look_later(self, handler: Any, transport: asyncio.Transport, answers: int) -> None:
        self._looks[handler] = asyncio.get_running_loop().call_later(
            REQUEST_S, self._end_stuck, handler, transport, answers
        )


def _is_open(transport: asyncio.Transport) -> bool:
    """Return whether the connection has its socket: also one that is closed, until its answer was read."""
    return not transport.is_closing() or transport.get_write_buffer_size() > 0


def _end(transport: asyncio.Transport) -> None:
    """End a connection at once: a client that does not read its answer cannot delay that."""
    if transport.get_write_buffer_size():
        transport.abort()
    else:
        transport.close()
