"""What clients may take: the size of a request's body, and the time in which it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
MOST_BYTES = 16 << 20
"""Of one request's body."""
BODY_S = 10.0


class Bounded:
    """An ASGI application behind which a request's body is whole, at most so many bytes, and came in time."""

    def __init__(self, app: App, most_bytes: int, seconds: float = BODY_S) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._seconds = seconds

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._body(receive), self._seconds)
        except TimeoutError:
            await _refuse(send, 408, b"the request came too slowly")
            return
        if body is None:
            await _refuse(send, 413, b"the request is too large: at most %d bytes" % self._most_bytes)
            return
        read = False

        async def whole() -> Message:
            nonlocal read
            if read:
                return await receive()  # the client going away
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, whole, send)

    async def _body(self, receive: Receive) -> bytes | None:
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return b""
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self._most_bytes:
                return None
        return b"".join(parts)


async def _refuse(send: Send, status: int, why: bytes) -> None:
    body = b'{"detail":"%s"}' % why
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
