"""The fingerprinter's role over a local log: what it holds at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from stream.log import open_log
from stream.log.base import PAGES, LogOptions
from stream.model import Columns, Page
from stream.roles.context import Context
from stream.roles.fingerprint import FingerprintRole
from stream.settings import FrameSettings, Settings, default_cache
from stream.telemetry.metrics import Metrics
from stream.text.fingerprinter import Fingerprinter
from stream.text.recipe import preset

PARTITIONS = 8
AT_ONCE = 20
COUNT = 800


class Slow(Fingerprinter):
    """Takes its time over every batch, and notes how many pages were read but not yet fingerprinted."""

    def watch(self, metrics: Metrics) -> None:
        self.metrics, self.done, self.most = metrics, 0, 0

    def columns(self, pages: Sequence[Page]) -> Columns:
        self.most = max(self.most, int(self.metrics.pages._value.get()) - self.done)
        time.sleep(0.01)
        self.done += len(pages)
        return super().columns(pages)


def test_a_backlog_in_many_partitions_is_not_read_ahead_of_the_work(tmp_path: Path) -> None:
    context = Context(Settings(frame=FrameSettings(max_pages=AT_ONCE)))
    with (
        open_log(str(tmp_path / "log"), LogOptions()) as log,
        Slow(preset("default"), default_cache(), workers=0) as slow,
    ):
        log.create_topics(PARTITIONS)
        with log.appender(PAGES) as appender:
            for number in range(COUNT):
                appender.append(b'{"text":"short"}', b"%d" % number)
        slow.watch(context.metrics)
        thread = threading.Thread(target=FingerprintRole(log, slow, context).run)
        thread.start()
        end = time.monotonic() + 60
        while slow.done < COUNT and time.monotonic() < end:
            time.sleep(0.01)
        context.stop.set()
        thread.join()
    assert slow.done == COUNT
    assert slow.most <= 3 * AT_ONCE  # one share at work and what it waits with, and one poll more
