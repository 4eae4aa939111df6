"""Finds the pages of a judged frame that get a span."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, repeat

from simstream.roles.judge.log_judge import JudgedFrame
from simstream.telemetry.tracing import TracedPage, is_sampled
from simstream.wire.page_headers import Headers


def traced_pages(frame: JudgedFrame, headers: Mapping[int, Headers]) -> list[TracedPage]:
    """Return the pages with a sampled `traceparent`; `headers` are those of the frame's pages, by their offset.

    A frame of an earlier version does not say when its pages came.
    """
    sampled = {offset: own for offset, own in headers.items() if is_sampled(own)}
    if not sampled:
        return []
    appended = frame.record.timestamp
    came = frame.header.came if frame.header else ()
    arrivals = list(chain.from_iterable(repeat(ms, pages) for ms, pages in came))
    skipped = len(arrivals) - len(frame.verdicts)  # pages below the position have no verdict
    return [
        TracedPage(
            sampled[one.source.offset],
            one.verdict,
            one.ordinal,
            one.source,
            arrivals[skipped + number] if arrivals else appended,
            appended,
        )
        for number, one in enumerate(frame.verdicts)
        if one.source.offset in sampled
    ]
