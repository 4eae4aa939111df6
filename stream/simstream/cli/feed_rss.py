"""`simstream feed --rss`: send the entries of RSS and Atom feeds to the topic `pages`, once or every so often."""

from __future__ import annotations

import time
from collections.abc import Sequence

from simstream.cli.amounts import say_pages
from simstream.cli.options import open_log
from simstream.cli.progress import say
from simstream.errors import UsageError
from simstream.settings import Settings, duration_ms

MIN_EVERY_MS = 1_000


def send_entries(inputs: Sequence[str], every: str | None, settings: Settings) -> int:
    """Send the entries of all feeds. With `every`, ask again and again until Ctrl-C. Returns the exit code."""
    pause_ms = None if every is None else duration_ms("--every", every)
    if pause_ms is not None and pause_ms < MIN_EVERY_MS:
        raise UsageError(f"--every is {every!r}", "give 1s or more, such as 10m")
    from simstream.tools.feed.feed import feed
    from simstream.tools.feed.rss import RssReader

    reader = RssReader(inputs, say)
    with open_log(settings) as log:
        while True:
            began = time.monotonic()
            report = feed(log, reader.records(), settings.max_record_bytes, refused=say)
            if report.sent or pause_ms is None:
                say(f"{say_pages(report.sent)} sent to {report.topic}")
            if pause_ms is None:
                return 1 if report.refused or reader.failed else 0
            time.sleep(max(0.0, began + pause_ms / 1000 - time.monotonic()))
