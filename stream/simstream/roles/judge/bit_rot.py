"""Looks for bit rot: verifies the mapped files of a state again and again.

A start verifies segments once, and chunks of pages record by record when they are read. Both stay mapped while the
judge runs. So a thread of its own reads them slowly, from the first to the last, and then begins again.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from simstream.closing import Closing
from simstream.errors import StateDamaged, StateError
from simstream.files import manifest
from simstream.files.file_system import FileSystem
from simstream.files.manifest import ManifestFile
from simstream.telemetry.metrics import Metrics

MAX_BYTES_A_SECOND: Final = 16 << 20
"""At this rate a pass over 100 GB takes less than two hours, and uses a hundredth of a disk's rate. All watches of
a process share it: a matcher has one for each of its shards."""
REST_S: Final = 60.0
"""Seconds between two passes."""
CLOSE_S: Final = 1.0
_watches: weakref.WeakSet[RotWatch] = weakref.WeakSet()
"""All watches of this process that are not closed."""


class _StoppedError(Exception):
    """The role has ended: stop verifying."""


class RotWatch(Closing):
    """Verifies the immutable files of the newest snapshot again and again."""

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        named: Callable[[], Sequence[ManifestFile]],
        metrics: Metrics,
        logger: logging.Logger,
    ) -> None:
        """Start the thread. It calls `named`, which returns the files that are in use now."""
        self._files, self._folder, self._named, self._metrics = files, folder, named, metrics
        self._logger = logger
        self._closed = threading.Event()
        self._error: StateDamaged | None = None
        self._thread = threading.Thread(target=self._run, name="rot", daemon=True)
        _watches.add(self)
        self._thread.start()

    def check(self) -> None:
        """Raise StateDamaged if a file was found damaged. Free."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """See Closing. Waits at most CLOSE_S for a slow read."""
        self._closed.set()
        _watches.discard(self)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                for file in self._named():
                    self._look_at(file)
                self._metrics.state_verified.set_to_current_time()
                self._closed.wait(REST_S)
        except _StoppedError:
            return
        except StateDamaged as error:
            self._error = error

    def _look_at(self, file: ManifestFile) -> None:
        """Verify one file. Raises StateDamaged, unless the file is no longer in use."""
        try:
            manifest.describe_named(self._files, self._folder, file, verify=True, pace=self._pace)
        except StateError as error:
            if file not in self._named():
                return
            if isinstance(error, StateDamaged):
                raise
            self._logger.warning("%s cannot be verified now: %s", file.file, error.what)

    def _pace(self, size: int) -> None:
        """Count verified bytes, and wait so that MAX_BYTES_A_SECOND holds for all watches together."""
        self._metrics.state_verified_bytes.inc(size)
        if self._closed.wait(size * max(1, len(_watches)) / MAX_BYTES_A_SECOND):
            raise _StoppedError
