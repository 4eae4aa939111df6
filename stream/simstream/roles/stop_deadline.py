"""Ends a process that was asked to end, or has failed, and does not end by itself."""

from __future__ import annotations

import logging
import os
import threading

from simstream.closing import Closing
from simstream.errors import SimstreamError

_logger = logging.getLogger("simstream")


class StopDeadline(Closing):
    """Ends the process if a task, a disk or a library hangs at its end.

    Nothing is lost: what was not written is read again.
    """

    def __init__(self, what: str, seconds: float) -> None:
        """`what` shall end within so many seconds from `begin` on."""
        self._what = what
        self._seconds = seconds
        self._failed: SimstreamError | None = None
        self._timer = threading.Timer(seconds, self._over)
        self._timer.daemon = True

    def begin(self, failed: SimstreamError | None) -> None:
        """Start the timer: the end has begun, by this error or on request."""
        self._failed = failed
        self._timer.start()

    def close(self) -> None:
        """Stop the timer: all has ended by itself."""
        self._timer.cancel()

    def _over(self) -> None:
        _logger.warning("%s does not end within %g s: the process ends without it", self._what, self._seconds)
        if self._failed is not None:
            _logger.error("%s: %s", self._failed.what, self._failed.todo)
        os._exit(0 if self._failed is None else self._failed.exit_code)
