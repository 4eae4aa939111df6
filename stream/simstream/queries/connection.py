"""Bounds the number of pieces of a request's body, in uvicorn's HTTP connection."""

from __future__ import annotations

from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_FREE_PIECES: Final = 64
"""A body may have so many pieces of any size."""
MIN_PIECE_BYTES: Final = 256
"""More pieces must have so many bytes on average: a piece of any size costs the event loop about 5 us."""
TOO_SMALL: Final = "The body comes in too many small pieces: send it whole, with Content-Length."


class TooSmallPiecesError(h11.RemoteProtocolError):
    """A body that would cost more than its bytes."""


class PieceGuard(h11.Connection):
    """Raises TooSmallPiecesError when a piece is one too many."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._pieces = self._bytes = 0

    def next_event(self) -> Any:
        """See h11. Raises RemoteProtocolError."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
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
        self.conn = PieceGuard(h11.SERVER)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not a request, unless an answer has begun."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        small = self.conn.their_state is h11.SEND_BODY
        super().send_400_response(TOO_SMALL if small else msg)
