"""Serves /metrics, /health, /health/live, /health/ready and /health/started over HTTP.

It shows no page. A connection gets one answer. Clients may be slow, many or hostile: each connection has a
deadline, and each request a limited size. If there are too many connections, the oldest ends. So a quick probe is
always answered.
"""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import msgspec

from simstream.closing import Closing
from simstream.errors import SettingsError
from simstream.telemetry.health import ServiceHealth
from simstream.telemetry.metrics import CONTENT_TYPE, Metrics

PLAIN = "text/plain; charset=utf-8"
LOOK_EVERY_S = 0.25
"""Seconds between two looks for connections past their deadline."""
_logger = logging.getLogger("simstream.http")


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits for clients."""

    connections: int = 64
    """Connections; each costs a thread. One more ends the oldest."""
    seconds: float = 10.0
    """Seconds from a connection's beginning to its end, however busy it is."""
    request_bytes: int = 16 << 10
    """Bytes of the request line and the headers together."""


DEFAULT = HttpLimits()


class HttpServer(Closing):
    """Serves metrics and health on one address. Port 0 takes a free port, and `port` says which.

    Raises SettingsError if the address cannot be bound.
    """

    def __init__(
        self, host: str, port: int, metrics: Metrics, health: ServiceHealth, limits: HttpLimits = DEFAULT
    ) -> None:
        answers = {"metrics": metrics, "health": health, "limits": limits, "timeout": limits.seconds}
        handler = type("Handler", (_RequestHandler,), answers)
        try:
            self._server = _BoundedServer(host, port, handler, limits)
        except OSError as error:
            raise SettingsError(
                f"port {port} on {host} cannot be opened ({error.strerror})", "choose another with --http-port"
            ) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(LOOK_EVERY_S,), name="http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _BoundedServer(ThreadingHTTPServer):
    """Serves each connection in a thread: a bounded number of connections, none beyond its deadline."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, handler: Any, limits: HttpLimits) -> None:
        self._limits = limits
        self._open: dict[socket.socket, float] = {}
        """When each connection began, the oldest first."""
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind without the base class's lookup of the host's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def get_request(self) -> Any:
        """Accept a connection. Without a free file descriptor the caller would ask again at once, for ever."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.05)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a new connection. If there are too many, end the oldest."""
        with self._lock:
            surplus = max(0, len(self._open) + 1 - self._limits.connections)
            for oldest in list(self._open)[:surplus]:
                self._hang_up(oldest)
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection; its thread calls this at the end."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that are past their deadline. Called every LOOK_EVERY_S seconds."""
        edge = time.monotonic() - self._limits.seconds
        with self._lock:
            for late in [one for one, began in self._open.items() if began < edge]:
                self._hang_up(late)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error, unless the client went away or this server ended the connection."""
        _logger.debug("an HTTP connection failed", exc_info=True)

    def _hang_up(self, request: socket.socket) -> None:
        """Wake the connection's thread, which then ends it. The caller holds the lock."""
        self._open.pop(request, None)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _BoundedBody(io.RawIOBase):
    """A client's request, up to a limited number of bytes."""

    def __init__(self, file: io.BufferedIOBase, most: int) -> None:
        self._file = file
        self._left = most

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line. Raises LineTooLong beyond the limit, which the base class answers with 431."""
        if self._left <= 0:
            raise LineTooLong("request")
        line = self._file.readline(self._left)
        self._left -= len(line)
        return line

    def close(self) -> None:
        self._file.close()
        super().close()


class _RequestHandler(BaseHTTPRequestHandler):
    metrics: Metrics
    health: ServiceHealth
    limits: HttpLimits
    raw_requestline: bytes  # of the base class, unknown to type checkers
    default_request_version = "HTTP/1.0"  # the base class answers an older version without a status line
    error_content_type = PLAIN
    error_message_format = "%(code)d %(message)s\n"

    def setup(self) -> None:
        super().setup()
        self.rfile = cast(io.BufferedReader, _BoundedBody(self.rfile, self.limits.request_bytes))

    def parse_request(self) -> bool:
        """Refuse a request line that the limit cuts: newer versions of Python read it as HTTP/0.9."""
        line = self.raw_requestline
        if line.endswith(b"\n") or len(line) < self.limits.request_bytes:
            return super().parse_request()
        self.requestline = self.request_version = self.command = ""
        self.close_connection = True
        self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return False

    def do_GET(self) -> None:  # the base class calls this name
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self.metrics.ready.set(self.health.ready()[0])
            for role, age in self.health.turn_ages().items():
                self.metrics.turn_age.labels(role).set(age)
            self._answer(200, CONTENT_TYPE, self.metrics.text())
        elif path == "/health":
            self._answer(200, "application/json", msgspec.json.encode(self._health()) + b"\n")
        elif path in ("/health/live", "/health/ready", "/health/started"):
            health = self.health
            asked = {"live": health.live, "ready": health.ready, "started": health.started}
            good, text = asked[path.rpartition("/")[2]]()
            self._answer(200 if good else 503, PLAIN, f"{text}\n".encode())
        else:
            self._answer(404, PLAIN, b"/metrics /health /health/live /health/ready /health/started\n")

    def do_HEAD(self) -> None:  # the base class calls this name
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error page without any text from the client."""
        super().send_error(code)

    def version_string(self) -> str:
        """Return the header `Server`, without versions."""
        return "simstream"

    def _health(self) -> dict[str, object]:
        (live, _), (ready, why) = self.health.live(), self.health.ready()
        return {"live": live, "ready": ready, "why": why, "roles": self.health.describe_roles()}

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # the base class's name
        """Log no line for a request: scrapes come all the time."""
