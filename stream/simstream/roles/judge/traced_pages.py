"""Finds the pages of a judged frame that get a span."""

from __future__ import annotations

from itertools import chain, repeat

from simstream.roles.judge.log_judge import JudgedFrame
from simstream.telemetry.tracing import TracedPage, is_sampled


def traced_pages(frame: JudgedFrame) -> list[TracedPage]:
    """Return the pages with a sampled `traceparent`. A frame of an earlier version does not say when they came."""
    sampled = {offset: headers for offset, headers in frame.headers.items() if is_sampled(headers)}
    if not sampled:
        return []
    appended = frame.record.timestamp
    arrivals = list(chain.from_iterable(repeat(ms, pages) for ms, pages in frame.came)) or [appended]
    skipped = len(arrivals) - len(frame.verdicts)  # pages below the position have no verdict
    return [
        TracedPage(
            sampled[one.source.offset],
            one.verdict,
            one.ordinal,
            one.source,
            arrivals[skipped + number] if frame.came else appended,
            appended,
        )
        for number, one in enumerate(frame.verdicts)
        if one.source.offset in sampled
    ]
