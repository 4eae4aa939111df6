"""The API's door: foreign names, foreign web pages and strangers without the token are turned away at once."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any, Final

from stream.queries.limits import App, Receive, Send
from stream.telemetry.callers import CHALLENGE, Callers, Refusal

GUARDED: Final = frozenset({"/judge"})
"""Paths that ask for the token, where one is set: they change something."""


class Guarded:
    """An ASGI application behind which every request may ask. What is refused is told why: 401, 403 or 421."""

    def __init__(self, app: App, callers: Callers) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        if refusal.status == 401:
            headers.append((b"www-authenticate", CHALLENGE.encode()))
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"detail":"%s"}' % refusal.why.encode()})

    def _refusal(self, scope: MutableMapping[str, Any]) -> Refusal | None:
        found = self._callers.refusal(_header(scope, b"host"), _header(scope, b"origin"))
        if found is None and scope.get("path", "").rstrip("/") in GUARDED:
            found = self._callers.stranger(_header(scope, b"authorization"))
        return found


def _header(scope: MutableMapping[str, Any], wanted: bytes) -> str | None:
    """The first header of a name."""
    pairs: Iterable[tuple[bytes, bytes]] = scope.get("headers", ())
    return next((value.decode("latin-1") for name, value in pairs if name == wanted), None)
