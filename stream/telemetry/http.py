"""The HTTP port: /metrics, /health (what every role says, as JSON), /health/live, /health/ready, /health/started.

Nothing of any page.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from stream.closing import Closing
from stream.errors import SettingsError
from stream.telemetry.health import Health
from stream.telemetry.metrics import CONTENT_TYPE, Metrics


class HttpServer(Closing):
    """Serves metrics and health on one address; port 0 takes a free one, `port` says which.

    Raises SettingsError where the address cannot be bound.
    """

    def __init__(self, host: str, port: int, metrics: Metrics, health: Health) -> None:
        handler = type("Handler", (_Handler,), {"metrics": metrics, "health": health})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise SettingsError(
                f"port {port} on {host} cannot be opened ({error.strerror})", "choose another with --http-port"
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    metrics: Metrics
    health: Health
    timeout = 10  # a client that sends nothing gives its thread back

    def do_GET(self) -> None:  # the base class calls this name
        if self.path == "/metrics":
            self.metrics.ready.set(self.health.ready()[0])
            self._answer(200, CONTENT_TYPE, self.metrics.text())
        elif self.path == "/health":
            self._answer(200, "application/json", msgspec.json.encode(self._health()) + b"\n")
        elif self.path in ("/health/live", "/health/ready", "/health/started"):
            health = self.health
            asked = {"live": health.live, "ready": health.ready, "started": health.started}
            good, text = asked[self.path.rpartition("/")[2]]()
            self._answer(200 if good else 503, "text/plain; charset=utf-8", f"{text}\n".encode())
        else:
            self._answer(
                404, "text/plain; charset=utf-8", b"/metrics /health /health/live /health/ready /health/started\n"
            )

    def _health(self) -> dict[str, object]:
        (live, _), (ready, why) = self.health.live(), self.health.ready()
        return {"live": live, "ready": ready, "why": why, "roles": self.health.told()}

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # the base class's name
        """Scrapes are no events worth a line."""
