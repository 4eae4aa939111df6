"""Refuses foreign host names, foreign web pages and callers without the token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import Any, Final

from simstream.queries.limits import MAX_BYTES, App, ClientGoneError, Message, Receive, Send, drop_body, refuse
from simstream.telemetry.callers import CHALLENGE, CallerRefusal, CallerRules

GUARDED: Final = frozenset({"/judge"})
"""Paths that need the token, if one is set: they change something."""
DROP_S: Final = 2.0
"""The most seconds that the body of a refused request is read."""
HEADERS: Final = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Added to every answer that has no header of the same name."""


class CallerGuard:
    """An ASGI application that passes on only requests of callers who may ask. Others get 401, 403 or 421."""

    def __init__(self, app: App, callers: CallerRules) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            await send(_with_headers(message))

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, sent)
        else:
            with suppress(TimeoutError, ClientGoneError):
                async with asyncio.timeout(DROP_S):
                    await drop_body(receive, MAX_BYTES)
            challenge = [(b"www-authenticate", CHALLENGE.encode())] if refusal.status == 401 else ()
            await refuse(sent, refusal.status, refusal.why, *challenge)

    def _refusal(self, scope: MutableMapping[str, Any]) -> CallerRefusal | None:
        found = self._callers.check_host(_header(scope, b"host"), _header(scope, b"origin"))
        if found is None and scope.get("path", "").rstrip("/") in GUARDED:
            found = self._callers.check_token(_header(scope, b"authorization"))
        return found


def _with_headers(message: Message) -> Message:
    """Return the message, with HEADERS if it begins an answer."""
    if message["type"] != "http.response.start":
        return message
    own = list(message.get("headers", ()))
    names = {name.lower() for name, _ in own}
    return {**message, "headers": own + [pair for pair in HEADERS if pair[0] not in names]}


def _header(scope: MutableMapping[str, Any], wanted: bytes) -> str | None:
    """Return the first header of a name, or None."""
    pairs: Iterable[tuple[bytes, bytes]] = scope.get("headers", ())
    return next((value.decode("latin-1") for name, value in pairs if name == wanted), None)
