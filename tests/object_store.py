"""A real S3 server on loopback, as a process of its own, and a web server that misbehaves when told to."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

from deploy.server_process import free_port
from tests.waiting import until

SECRET = "a-secret-that-nobody-prints"


def variables(port: int) -> dict[str, str]:
    """The environment of a program that uses the store at this port."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "a-key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@contextmanager
def object_store(folder: Path) -> Iterator[int]:
    """Run moto's S3 server, and yield its port. Its output is in `folder`."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder / "moto.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            said = (folder / "moto.log").read_text
            until(lambda: answers(port), lambda: f"the store answers: {said()}", every=0.1, process=server)
            yield port
        finally:
            server.kill()


def answers(port: int) -> bool:
    """Whether something listens on this loopback port."""
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


class WebServer:
    """A web server of one file, with faults by the path: `/plain/x` has no ranges, `/short/x` breaks off, …"""

    def __init__(self) -> None:
        self.body = b""
        self.asked: list[str] = []
        self.stalled = Event()
        """Set once an answer under `/stalling/` comes byte by byte."""
        self.failures = 0
        """How many further requests get `failure`."""
        self.failure = 503
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def do_HEAD(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(request.path)
        fault = request.path.split("/")[1]
        codes = {"missing": 404, "refused": 403, "teapot": 418}
        if self.failures or fault in codes:
            self.failures -= bool(self.failures)
            request.send_error(codes.get(fault, self.failure))
        elif fault == "round":
            self._redirect(request, request.path)
        elif fault == "away":
            self._redirect(request, "/ranged/" + request.path.rpartition("/")[2])
        elif fault in ("dripping", "longaway"):
            if fault == "dripping":
                request.send_response(206)
                request.flush_headers()
            else:
                self._redirect(request, "/ranged/" + request.path.rpartition("/")[2])
            with suppress(ConnectionError):
                while True:
                    request.wfile.write(b"X")
                    time.sleep(0.02)
        elif fault == "webhdfs":
            self._send_status(request)
        elif fault == "tofile":
            self._redirect(request, "file:///etc/passwd")
        else:
            self._send(request, fault)

    def _send_status(self, request: BaseHTTPRequestHandler) -> None:
        """Answer as WebHDFS does: all that ends in .jsonl is a file, all else a folder."""
        kind = "FILE" if ".jsonl?" in request.path else "DIRECTORY"
        status = b'{"FileStatus":{"type":"%s","length":7}}' % kind.encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(status)))
        request.end_headers()
        request.wfile.write(status)

    def _redirect(self, request: BaseHTTPRequestHandler, where: str) -> None:
        request.send_response(302)
        request.send_header("Location", where)
        request.end_headers()

    def _send(self, request: BaseHTTPRequestHandler, fault: str) -> None:
        begin, end, size = 0, len(self.body), len(self.body)
        ranged = re.match(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        if ranged and fault not in ("plain", "endless"):
            begin, end = int(ranged[1]), min(size, int(ranged[2]) + 1)
            if fault == "shifted":
                begin, end = 0, end - begin
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        else:
            request.send_response(200)
        if fault in ("chunked", "trickling"):
            request.send_header("Transfer-Encoding", "chunked")
        elif fault != "endless":
            request.send_header("Content-Length", str(end - begin))
        if fault == "packed":
            request.send_header("Content-Encoding", "gzip")
        if fault != "untagged":
            request.send_header("ETag", f'"{len(self.asked) if fault == "changing" else 1}"')
        request.end_headers()
        data = self.body[begin:end]
        if fault == "stalling" and begin:
            with suppress(ConnectionError):
                self.stalled.set()
                while True:
                    request.wfile.write(data[:1])
                    time.sleep(0.02)
        if fault == "short" and begin + len(data) > size // 2:
            data = data[: max(0, size // 2 - begin)]
            request.close_connection = True
        if request.command == "GET":
            with suppress(ConnectionError):  # a reader may have heard enough
                if fault in ("chunked", "trickling"):
                    self._write_chunks(request, data, fault == "trickling")
                else:
                    request.wfile.write(data)

    def _write_chunks(self, request: BaseHTTPRequestHandler, data: bytes, is_trickling: bool) -> None:
        if is_trickling:
            request.wfile.write(b"0\r\n")
        while is_trickling:  # an end of chunks that never ends
            request.wfile.write(b"x: y\r\n")
            time.sleep(0.02)
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            request.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b"")
        request.wfile.write(b"0\r\n\r\n")
