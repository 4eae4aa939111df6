"""Sends OpenTelemetry spans, one from a page's arrival to its committed verdict, to an OTLP receiver over HTTP.

Only a page whose `traceparent` is sampled gets a span. Spans wait in a bounded queue, and a thread of its own sends
them: a receiver that is slow or away costs spans, never verdicts.
Source of the format: https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simstream.closing import Closing
from simstream.errors import SettingsError, needs
from simstream.kafka_settings import HIDDEN, has_secret
from simstream.model import PageSource
from simstream.sources.addresses import names_web_server
from simstream.telemetry.logging import RepetitionFilter
from simstream.version import __version__
from simstream.wire.page_headers import Headers

if TYPE_CHECKING:
    from simstream.settings import Settings

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MAX_CLOSE_S: Final = 3.0
"""Seconds that the last spans may take when the service ends."""
MAX_WAITING: Final = 2_048
"""Spans that wait to be sent; further ones are lost."""
SEND_EVERY_MS: Final = 1_000
MAX_SEND_S: Final = 5.0
_RARE_EXPORT_LINES: Final = RepetitionFilter(most=1)
"""Passes one line of a kind in a minute: OpenTelemetry has 30 a minute for a receiver that is away."""
_FLAGS = slice(53, 55)
_MS = 1_000_000
"""Nanoseconds."""


class TracedPage(NamedTuple):
    """A page with a sampled `traceparent`, and its verdict."""

    headers: Headers
    verdict: str
    ordinal: int
    source: PageSource
    arrived_ms: int
    """When its record came into the source topic, in ms since 1970."""
    appended_ms: int
    """When its frame came into the log."""


def is_sampled(headers: Headers) -> bool:
    """Whether the page's trace is recorded. Only a cheap look: OpenTelemetry then reads the whole value."""
    for name, value in headers:
        if name.lower() == TRACEPARENT:
            flags = value[_FLAGS]
            return len(flags) == 2 and flags.isalnum() and flags[1:] in b"13579bdf"
    return False


def check_tracing(settings: Settings) -> None:
    """Raise SettingsError or Unavailable if `otlp_endpoint` cannot work."""
    endpoint = settings.otlp_endpoint
    if endpoint is None:
        return
    if not names_web_server(endpoint):
        shown = HIDDEN if has_secret(endpoint) else repr(endpoint)
        raise SettingsError(f"otlp_endpoint is {shown}", "give an address such as http://127.0.0.1:4318")
    if "?" in endpoint or "#" in endpoint:
        raise SettingsError(
            "otlp_endpoint has a `?` or `#`, so the path /v1/traces cannot follow it",
            "end the address before it; OTEL_EXPORTER_OTLP_HEADERS may have a key for the receiver",
        )
    if TRACEPARENT not in map(str.lower, settings.verdict_header_names):
        raise SettingsError(
            "otlp_endpoint is set, and verdict_headers does not name traceparent",
            "add traceparent to verdict_headers",
        )
    with needs("otlp_endpoint", "tracing"):
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace.export  # noqa: F401


class PageSpans(Closing):
    """The spans of one process. For one thread."""

    def __init__(self, endpoint: str, service: str) -> None:
        """`endpoint` is the receiver's address, without the path `/v1/traces`. `service` is its `service.name`."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create({"service.name": service, "service.version": __version__})
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(_RARE_EXPORT_LINES)
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=MAX_SEND_S)
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, MAX_WAITING, SEND_EVERY_MS))
        self._tracer = self._provider.get_tracer("simstream", __version__)
        self._read = TraceContextTextMapPropagator().extract

    def send(self, pages: Sequence[TracedPage], committed_ns: int) -> None:
        """Send a span for each page, up to `committed_ns` (ns since 1970). Does not wait. Cost: 40 us each."""
        from opentelemetry.trace import SpanKind, get_current_span

        for page in pages:
            context = self._read(_carrier(page.headers))
            if not get_current_span(context).get_span_context().trace_flags.sampled:
                continue  # it is no traceparent after all
            appended = min(page.appended_ms * _MS, committed_ns)
            span = self._tracer.start_span(
                f"process {page.source.topic}",
                context,
                SpanKind.CONSUMER,
                _attributes(page),
                start_time=min(page.arrived_ms * _MS, appended),
            )
            span.add_event("fingerprinted", timestamp=appended)
            span.end(committed_ns)

    def close(self) -> None:
        """Send the last spans, for at most MAX_CLOSE_S."""
        thread = threading.Thread(target=self._provider.shutdown, name="spans", daemon=True)
        thread.start()
        thread.join(MAX_CLOSE_S)


def _carrier(headers: Headers) -> dict[str, str]:
    names = (TRACEPARENT, TRACESTATE)
    return {name.lower(): value.decode("latin-1") for name, value in headers if name.lower() in names}


def _attributes(page: TracedPage) -> dict[str, Any]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.destination.name": page.source.topic,
        "messaging.destination.partition.id": str(page.source.partition),
        "messaging.kafka.offset": page.source.offset,
        "simstream.verdict": page.verdict,
        "simstream.ordinal": page.ordinal,
    }
