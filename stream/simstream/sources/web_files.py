"""Files on web servers (`https://`), read in ranges. The server is a stranger: its answers are bounded."""

from __future__ import annotations

import http.client
import os
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from simstream.errors import InputMissing, StoreError, UsageError
from simstream.sources.addresses import protocol_of, public_address
from simstream.version import __version__

MAX_REDIRECTS: Final = 5
ATTEMPTS: Final = 4
_SILENCE_S: Final = 30.0
_RANGE_S: Final = 300.0
"""The longest wait for the next bytes, for the head of an answer, and for one range of at most 8 MB."""
_PAUSE_S: Final = 0.5
"""The pause before the second attempt; each later pause is twice as long."""
_PIECE_BYTES: Final = 1 << 16
_RANGE: Final = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18})")
_REFUSALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_GONE: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_RESERVED: Final = "%/:=&?~+!$,;'@()*[]"
_AGAIN: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
Answer = TypeVar("Answer")


class _Deadline:
    """Shuts a connection down after `_RANGE_S`: the timeout of a socket alone is that of each byte."""

    def __init__(self, line: socket.socket) -> None:
        """`line`: a duplicate of the connection, which is closed at the end."""
        self._line = line
        self._is_over = False
        self._timer = threading.Timer(_RANGE_S, self._shut)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> bool:
        """Let the connection be. Return whether it was shut down. May be called twice."""
        self._timer.cancel()
        self._timer.join()
        self._line.close()
        return self._is_over

    def _shut(self) -> None:
        self._is_over = True
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)


class _Connection(http.client.HTTPConnection):
    """Has `_RANGE_S` for TLS and the head of the answer."""

    _deadline: _Deadline | None = None

    def connect(self) -> None:
        """Connect, and let the time begin."""
        super().connect()
        self._deadline = _Deadline(self.sock.dup())  # TLS takes over the other one

    def getresponse(self) -> http.client.HTTPResponse:
        """Return the answer once its head is here."""
        answer = None
        try:
            answer = super().getresponse()
        finally:
            if self._deadline is not None and self._deadline.end():  # a head that was cut off looks whole
                if answer is not None:
                    answer.close()
                raise _late()
        return answer

    def close(self) -> None:
        """Close the connection. An answer that was returned stays open."""
        if self._deadline is not None:
            self._deadline.end()
        super().close()


class _TlsConnection(http.client.HTTPSConnection, _Connection):
    """The same with TLS."""


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Ask for a page, in bounded time."""
        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Ask for a page, in bounded time."""
        return self.do_open(_TlsConnection, req)


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = max_repeats = MAX_REDIRECTS

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Follow to a web address, but never from https to http."""
        if protocol_of(newurl) not in ({"https"} if protocol_of(req.full_url) == "https" else {"http", "https"}):
            raise urllib.error.HTTPError(req.full_url, code, "a redirect to a less safe address", headers, fp)
        fp.close()  # else the base class reads all of the answer's body
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class WebFile:
    """One file on a web server, as a `RemoteFile` reads it. Another `stamp` means another content.

    The server must tell the length of the file; only so a whole answer is known from a broken one. Without ranges
    the file can be read once, from its beginning. Raises InputMissing for an address that is missing or refused,
    UsageError for an address with a password, StoreError if the server does not answer after `ATTEMPTS` attempts.
    """

    def __init__(self, address: str) -> None:
        self._shown = public_address(address)
        if "@" in unquote(address.partition("://")[2].partition("/")[0]):
            raise UsageError(f"{self._shown} is given with a user", "leave user and password out of the address")
        is_pattern = "*" in self._shown
        self._advice = "name each file, because a web server has no patterns" if is_pattern else "check the address"
        self._address = quote(address.partition("#")[0], safe=_RESERVED)
        handlers = (
            urllib.request.ProxyHandler,
            _Http,
            _Https,
            urllib.request.HTTPDefaultErrorHandler,
            urllib.request.HTTPErrorProcessor,
            _Redirects,
        )
        self._opener = urllib.request.OpenerDirector()
        for handler in handlers:
            self._opener.add_handler(handler())
        self._answer: Any = None
        """The open answer of a server without ranges, and how far it was read."""
        self._at = 0
        self.has_ranges = True
        """Whether the server gives parts of the file."""
        self.first_stamp = self._attempts(self._facts, 0)
        self.size: int = self.first_stamp[0]

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` up to `end`. Raises StoreError."""
        return self._attempts(lambda: self._range(begin, end), begin)

    def stamp(self) -> tuple[object, ...]:
        """Return length, ETag and date of the file now. Raises StoreError."""
        return self._attempts(self._facts, 0)

    def close(self) -> None:
        """Close the open answer. May be called twice."""
        if self._answer is not None:
            self._answer.close()
        self._answer = None

    def _facts(self) -> tuple[int, str, str]:
        try:
            with self._request(0, 1) as answer:
                self.has_ranges = answer.status == HTTPStatus.PARTIAL_CONTENT
                return self._facts_of(answer)
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # so a server answers for an empty file
                return self._facts_of(error)
            raise

    def _facts_of(self, answer: Any) -> tuple[int, str, str]:
        headers = answer.headers
        ranged = _RANGE.match(headers.get("Content-Range", ""))
        length = ranged[3] if ranged else headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) <= 18):
            raise InputMissing(
                f"the server of {self._shown} does not say how long the file is (Content-Length)",
                "download the file, and name the copy",
            )
        if headers.get("Content-Encoding", "identity") != "identity":
            raise InputMissing(
                f"the server of {self._shown} compresses the file on its way (Content-Encoding)",
                "download the file, and name the copy",
            )
        return int(length), headers.get("ETag", ""), headers.get("Last-Modified", "")

    def _range(self, begin: int, end: int) -> bytes:
        if self._answer is not None and self._at == begin and not self._answer.isclosed():
            answer = self._answer
        else:
            self.close()
            answer = self._request(begin, end)
            if self._facts_of(answer) != self.first_stamp:
                answer.close()
                raise StoreError(f"{self._shown} changed while it was read", "run it again over a file at rest")
            given = _RANGE.match(answer.headers.get("Content-Range", ""))
            if answer.status != HTTPStatus.PARTIAL_CONTENT and begin == 0:
                self._answer = answer
            elif not given or given[1] != str(begin):
                answer.close()
                raise StoreError(f"{self._shown} cannot be read in parts", "download the file, and name the copy")
        try:
            data = _take(answer, end - begin)
        except BaseException:
            self.close()
            raise
        finally:
            if answer is not self._answer:
                answer.close()
        self._at = end
        return data

    def _request(self, begin: int, end: int) -> Any:
        headers = {
            "Range": f"bytes={begin}-{end - 1}",
            "Accept-Encoding": "identity",
            "User-Agent": f"simstream/{__version__}",
        }
        request = urllib.request.Request(self._address, headers=headers)
        return self._opener.open(request, timeout=_SILENCE_S)

    def _attempts(self, ask: Callable[[], Answer], begin: int) -> Answer:
        """Return what `ask` returns; ask again after a failure that may pass."""
        for attempt in range(ATTEMPTS):
            try:
                return ask()
            except urllib.error.HTTPError as error:
                error.close()
                why = f"{error.code} {error.reason}"
                if error.code in _GONE or error.code in _REFUSALS:
                    what = "is refused" if error.code in _REFUSALS else "does not exist"
                    raise InputMissing(f"{self._shown} {what} ({why})", self._advice) from error
                if error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in _AGAIN:
                    raise StoreError(f"{self._shown} cannot be read ({why})", self._advice) from error
            except (ValueError, http.client.InvalidURL) as error:  # such as a port that is no number
                raise InputMissing(f"{self._shown} is no web address", self._advice) from error
            except (OSError, http.client.HTTPException) as error:
                why = str(getattr(error, "reason", "") or error or type(error).__name__)
            if attempt < ATTEMPTS - 1:
                time.sleep(_PAUSE_S * 2**attempt)
        what = f"{self._shown} broke off at byte {begin:,}" if begin else f"{self._shown} cannot be read"
        raise StoreError(f"{what}: {ATTEMPTS} attempts failed, the last with {why}", "run it again later")


def _late() -> OSError:
    return OSError(f"an answer that took longer than {_RANGE_S:.0f} s")


def _take(answer: Any, count: int) -> bytes:
    """Return exactly `count` bytes of an answer. Raises OSError if they do not come, or not in time."""
    deadline = _Deadline(socket.socket(fileno=os.dup(answer.fileno())))
    data = bytearray()
    try:
        while len(data) < count:
            piece = answer.read1(min(_PIECE_BYTES, count - len(data)))
            if not 0 < len(piece) <= count - len(data):  # more, if the size of a chunk is below zero
                raise OSError(f"an answer of {len(data):,} bytes instead of {count:,}")
            data += piece
    finally:
        if deadline.end():
            raise _late()
    return bytes(data)
