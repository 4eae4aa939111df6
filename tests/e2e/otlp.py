"""A real OTLP receiver over HTTP on loopback, which keeps the spans that it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.web_server import LoopbackServer, serving


class OtlpReceiver(LoopbackServer):
    """Decodes each request with the types of opentelemetry-proto."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self.status = 200
        self.answers = threading.Event()
        self.answers.set()


class _Handler(BaseHTTPRequestHandler):
    server: OtlpReceiver

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
            ExportTraceServiceResponse,
        )

        assert self.path == "/v1/traces"
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        self.server.answers.wait()
        for resource in request.resource_spans:
            self.server.services |= {
                one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
            }
            self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]
        body = ExportTraceServiceResponse().SerializeToString()
        self.send_response(self.server.status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    with serving(OtlpReceiver()) as receiver:
        try:
            yield receiver
        finally:
            receiver.answers.set()
