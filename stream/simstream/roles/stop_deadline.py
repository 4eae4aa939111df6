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
        self._failed: BaseException | None = None
        self._timer = threading.Timer(seconds, self._over)
        self._timer.daemon = True

    def begin(self, failed: BaseException | None = None) -> None:
        """Start the timer: the end has begun, by this error or on request. For once."""
        self._failed = failed
        self._timer.start()

    def close(self) -> None:
        """Stop the timer: all has ended by itself."""
        self._timer.cancel()

    def _over(self) -> None:
        _logger.warning("%s does not end within %g s: the process ends without it", self._what, self._seconds)
        failed = self._failed
        if isinstance(failed, SimstreamError):
            _logger.error("%s: %s", failed.what, failed.todo)
        elif failed is not None:
            _logger.error("%s: %s", type(failed).__name__, failed)
        os._exit(0 if failed is None else getattr(failed, "exit_code", 1))
