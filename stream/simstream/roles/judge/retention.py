"""Estimates when the log drops the first frame that a restart needs.

It also watches the topics' settings. A thread of its own asks, because the judge would have to wait for an absent
broker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from simstream.closing import Closing
from simstream.errors import SimstreamError, TopicMissing
from simstream.log.base import Log
from simstream.log.options import FINGERPRINTS
from simstream.roles.context import RoleContext
from simstream.roles.judge.snapshots import NoSnapshots
from simstream.roles.topics import JUDGED, TopicWatch

ASK_EVERY_S = 30.0
CLOSE_S = 1.0
_logger = logging.getLogger("simstream.judge")


class RetentionWatch(Closing):
    """Sets the metrics of the log's first frame, and reports the settings of topics."""

    def __init__(
        self,
        log: Log,
        snapshots: NoSnapshots,
        context: RoleContext,
        topics: Sequence[str] = JUDGED,
        logger: logging.Logger = _logger,
    ) -> None:
        """`topics` are those whose settings are watched."""
        self._log = log
        self._snapshots = snapshots
        self._watch = TopicWatch(log, topics, context)
        self._metrics = context.metrics
        self._logger = logger
        self._retention_s: float | None = None
        self._first = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)
        self._thread.start()
        self._metrics.retention.set_function(self._margin_s)
        self._metrics.snapshot_position.set_function(lambda: snapshots.kept)

    def close(self) -> None:
        """See Closing. Waits at most CLOSE_S for a pending answer."""
        self._closed.set()
        self._thread.join(CLOSE_S)

    def _margin_s(self) -> float:
        """Return the seconds until retention takes a needed frame, 0 if one is gone.

        If there is no frame behind the snapshot, none can be lost.
        """
        appended_ms = self._snapshots.needs_since_ms
        if appended_ms is not None and self._first > self._snapshots.kept:
            return 0.0
        if self._retention_s is None or appended_ms is None:
            return float("inf")
        return appended_ms / 1000 + self._retention_s - time.time()

    def _run(self) -> None:
        missing = ""
        while not self._closed.is_set():
            try:
                kept_for = self._log.retention_ms(FINGERPRINTS)
                self._retention_s = None if kept_for is None else kept_for / 1000
                self._first = self._log.low_watermarks(FINGERPRINTS)[0]
                self._metrics.log_begins.set(self._first)
                self._watch.look()
                missing = ""
            except TopicMissing as error:  # a judge without pages would notice it only with the next one
                if error.what != missing:
                    self._logger.warning("%s: %s", error.what, error.todo)
                missing = error.what
            except SimstreamError as error:
                self._logger.debug("cannot read how long the log is kept: %s", error.what)
            except Exception:  # an error of the client must not stop the metrics
                self._logger.exception("cannot read the settings of the topics")
            self._closed.wait(ASK_EVERY_S)
