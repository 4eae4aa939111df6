"""Bounds what one client's connection may hold: pieces of a body, time without a request, a place.

uvicorn waits for the first request of a connection, and for the end of a request's head, without a limit.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_FREE_PIECES: Final = 64
"""A body may have so many pieces of any size."""
MIN_PIECE_BYTES: Final = 256
"""More pieces must have so many bytes on average: a piece of any size costs the event loop about 5 us."""
HEAD_S: Final = 10.0
"""Seconds in which the whole head of a request must come, on a new connection or after an answer. At most twice as
long on a connection that had a request before."""
TOO_SMALL: Final = "The body comes in too many small pieces: send it whole, with Content-Length."


class TooSmallPiecesError(h11.RemoteProtocolError):
    """A body that would cost more than its bytes."""


class PieceGuard(h11.Connection):
    """Raises TooSmallPiecesError when a piece is one too many."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._pieces = self._bytes = 0
        self.heads = 0
        """Requests whose head was read."""

    def next_event(self) -> Any:
        """See h11. Raises RemoteProtocolError."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
            self.heads += 1
        elif isinstance(event, h11.Data):
            self._pieces += 1
            self._bytes += len(event.data)
            if self._pieces > MAX_FREE_PIECES + self._bytes // MIN_PIECE_BYTES:
                raise TooSmallPiecesError(TOO_SMALL)
        return event


class QueryConnection(H11Protocol):
    """The protocol of one client's connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = self._guard = PieceGuard(h11.SERVER)
        self._heads = 0
        """Requests at the last look."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """See asyncio. At the limit the connection that has waited longest for a request gives up its place."""
        super().connection_made(transport)
        self._opened = self.loop.time()
        self._look = self.loop.call_later(HEAD_S, self._end_silence)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            waiting = [one for one in self.connections if isinstance(one, QueryConnection) and one is not self]
            waiting = [one for one in waiting if one._is_waiting() and not one.transport.is_closing()]
            if waiting:
                min(waiting, key=lambda one: one._opened).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._look.cancel()
        super().connection_lost(exc)

    def _is_waiting(self) -> bool:
        """Whether the client has sent no whole head since the last answer."""
        return self.conn.their_state is h11.IDLE

    def _end_silence(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()  # it closes, and nobody reads the rest of the answer
            return
        if self._is_waiting() and self._heads == self._guard.heads:
            self.transport.close()
        self._heads = self._guard.heads
        self._look = self.loop.call_later(HEAD_S, self._end_silence)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not a request, unless an answer has begun."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        small = self.conn.their_state is h11.SEND_BODY
        super().send_400_response(TOO_SMALL if small else msg)
