"""Limits what the API takes: bytes and seconds of a request, memory of all requests, questions at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from simstream.queries.request_bodies import JSON, MAX_STRINGS, NDJSON, has_few_values, media_type_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
MAX_BYTES = 16 << 20
"""The greatest size of a request's body."""
MAX_TOKEN_BYTES = 1 << 20
"""The greatest size of all texts of one question for tokens, in UTF-8."""
ESCAPED = 6
"""JSON may write each byte of a text as six: `\\u0061`."""
PIECE_BYTES = 64 << 10
"""A longer answer is sent in pieces of so many bytes."""
MIN_BYTES_A_SECOND = 100_000
"""A client that reads a long answer more slowly is cut off, after `send_s` besides."""
RETRY_AFTER_S = 1


def _bodies() -> dict[str, int]:
    return {"/match": MAX_BYTES, "/judge": MAX_BYTES, "/tokens": ESCAPED * MAX_TOKEN_BYTES + (64 << 10)}


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The limits of all clients."""

    bodies: Mapping[str, int] = field(default_factory=_bodies)
    """Greatest size of a body, by the request's path."""
    other_body: int = 256 << 10
    """Greatest size of a body, for every other path."""
    read_bytes: int = 2 * MAX_BYTES
    """At most so many bytes of a refused body are read."""
    held_bytes: int = 4 * MAX_BYTES
    """Bodies being read or answered, and answers being sent, of all clients together."""
    body_s: float = 10.0
    """Seconds in which a body must be complete."""
    send_s: float = 30.0
    """Seconds in which a client must take up a part of an answer."""
    costly: tuple[frozenset[str], ...] = (frozenset({"match", "tokens"}), frozenset({"cluster"}))
    """First parts of the paths whose answers take much CPU time, in groups: a question waits for its own group
    alone."""
    at_once: int = 2
    """The number of costly answers of one group that are made at once."""
    wait_s: float = 2.0
    """Seconds that a costly question waits for its turn."""


class BodyLimiter:
    """An ASGI application that passes on a request only if its body is complete, within its limit, and in time.

    Costly questions wait briefly for their turn. A refused request is answered with the reason: 400, 408, 413, 415,
    422, or 503 with Retry-After. For one event loop.
    """

    def __init__(self, app: App, limits: QueryLimits) -> None:
        self._app = app
        self._limits = limits
        self._held = 0
        groups = [(group, asyncio.Semaphore(limits.at_once)) for group in limits.costly]
        self._turns = {first: turns for group, turns in groups for first in group}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        try:
            await self._answer(scope, body, receive, send)
        except _RefusedError as refused:
            retry = [(b"retry-after", b"%d" % RETRY_AFTER_S)] if refused.status == 503 else ()
            await refuse(send, refused.status, str(refused), *retry)
        except ClientGoneError:
            return  # there is no client to answer
        finally:
            self._held -= len(body)

    async def _answer(self, scope: MutableMapping[str, Any], body: bytearray, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        try:
            async with asyncio.timeout(self._limits.body_s):
                await self._read(path, body, receive)
        except TimeoutError:
            raise _RefusedError(
                408, f"the request is not complete after {self._limits.body_s:g} s: send it faster, or send less"
            ) from None
        if body and (foreign := _foreign_form(scope)):
            raise _RefusedError(415, foreign)
        if not _is_lines(scope):
            if b"\0" in body:  # as UTF-16 and UTF-32 have, which hide strings from the count
                raise _RefusedError(400, "the request is no JSON in UTF-8: send it in UTF-8")
            if not has_few_values(body):
                raise _RefusedError(
                    422,
                    f"the request has more than {MAX_STRINGS} strings, or too many bytes outside of strings: "
                    "send fewer values",
                )
        read = False

        async def whole() -> Message:
            nonlocal read
            if read:
                return await receive()  # the client going away
            read = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        turns = self._turns.get(path.removeprefix("/").partition("/")[0])
        if turns is None:
            await self._app(scope, whole, lambda message: self._send(message, send))
            return
        await self._in_turn(turns, scope, whole, send)

    async def _in_turn(
        self, turns: asyncio.Semaphore, scope: MutableMapping[str, Any], whole: Receive, send: Send
    ) -> None:
        """Answer a costly question. Its turn ends with the work: a slow reader does not block others."""
        try:
            async with asyncio.timeout(self._limits.wait_s):
                await turns.acquire()
        except TimeoutError:
            raise _RefusedError(503, "other questions are being answered: ask again in a moment") from None
        working = True

        def done() -> None:
            nonlocal working
            if working:
                working = False
                turns.release()

        async def sent(message: Message) -> None:
            done()
            await self._send(message, send)

        try:
            await self._app(scope, whole, sent)
        finally:
            done()

    async def _read(self, path: str, body: bytearray, receive: Receive) -> None:
        """Fill `body`. Linear in its bytes, for any number of parts. Drops a refused body."""
        most = self._limits.bodies.get(path, self._limits.other_body)
        size, more = 0, True
        while more:
            part, more = await _part(receive)
            size += len(part)
            if refused := self._refusal(size, len(part), most):
                self._held -= len(body)
                body.clear()
                if more:
                    await drop_body(receive, self._limits.read_bytes - size)
                raise refused
            self._held += len(part)
            body += part

    def _refusal(self, size: int, more: int, most: int) -> _RefusedError | None:
        """Return why a body of so many bytes, `more` of them new, is refused, or None."""
        if size > most:
            return _RefusedError(413, f"the request is larger than {most} bytes: send less at once")
        if self._held + more > self._limits.held_bytes:
            return _RefusedError(503, f"other requests fill {self._limits.held_bytes} bytes: ask again in a moment")
        return None

    async def _send(self, message: Message, send: Send) -> None:
        """Send a message; a long body in pieces: the server takes each once the one before is read.

        Raises SlowReaderError.
        """
        body = message.get("body", b"")
        size, last = len(body), max(0, len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        self._held += size
        try:
            async with asyncio.timeout(self._limits.send_s + size / MIN_BYTES_A_SECOND):
                for at in range(0, last, PIECE_BYTES):
                    await send({**message, "body": body[at : at + PIECE_BYTES], "more_body": True})
                await send({**message, "body": body[last:]} if last else message)
        except TimeoutError:
            raise SlowReaderError from None
        finally:
            self._held -= size


async def drop_body(receive: Receive, most: int) -> None:
    """Read a refused body up to about so many bytes: a client that still sends would not see the answer.

    Raises ClientGoneError.
    """
    more = True
    while more and most >= 0:
        part, more = await _part(receive)
        most -= len(part)


async def _part(receive: Receive) -> tuple[bytes, bool]:
    """Return the next part of a body, and whether more follows. Raises ClientGoneError."""
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGoneError
    return message.get("body", b""), message.get("more_body", False)


def _is_lines(scope: Mapping[str, Any]) -> bool:
    """Whether the body is a page a line: `page_lines` looks at each line by itself."""
    return bool(scope.get("path") == "/judge" and media_type_of(scope) == NDJSON)


def _foreign_form(scope: Mapping[str, Any]) -> str:
    """Return why a body is not read: it has a content-encoding, or it is for `/judge` and not declared as JSON.

    Empty if it is read.
    """
    if scope.get("method") != "POST":
        return ""
    codings = [value for name, value in scope.get("headers", ()) if name == b"content-encoding"]
    if b",".join(codings).replace(b"identity", b"").strip(b", \t"):
        return "the body has a content-encoding other than identity: send it as it is, without content-encoding"
    kind = media_type_of(scope)
    is_json = kind in (JSON, NDJSON) or (kind.startswith("application/") and kind.endswith("+json"))
    if is_json or scope.get("path", "").rstrip("/") != "/judge":
        return ""
    return f"the body is not declared as JSON: send the header content-type: {JSON} or {NDJSON}"


class ClientGoneError(Exception):
    """The client went away before its request was complete."""


class SlowReaderError(Exception):
    """The client does not take up its answer in time. The server closes its connection."""


class _RefusedError(Exception):
    """A request is refused. Raised before anything is sent."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def refuse(send: Send, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer a refused request with a sentence, and close the connection."""
    own = [(b"content-type", b"application/json"), (b"connection", b"close"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": b'{"detail":"%s"}' % why.encode()})
