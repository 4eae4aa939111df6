"""Elects a judge on a local log, by a lock that ends with its process."""

from __future__ import annotations

import time
from pathlib import Path

from simstream.errors import LogLocked
from simstream.log.base import VERDICTS, Election
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.lock import FileLock

TRY_EVERY_S = 0.05
"""Seconds between two tries to take the lock."""


def lock_path(catalog: TopicCatalog) -> Path:
    """Return the file whose lock makes a judge the elected one. It holds the pid of the last elected judge."""
    return catalog.folder / f"{catalog.options.judged_prefix}.judge.lock"


class LocalElection(Election):
    """See Election. A paused process stays elected, as it holds the lock."""

    def __init__(self, catalog: TopicCatalog) -> None:
        """Stand for election. Raises TopicMissing."""
        catalog.info(VERDICTS)
        self._path = lock_path(catalog)
        self._what = f"judges for {catalog.name(VERDICTS)}"
        self._lock: FileLock | None = None
        self._next = 0.0
        self._closed = False

    @property
    def elected(self) -> bool:
        """See Election. Raises LogError if the file cannot be made."""
        now = time.monotonic()
        if self._lock is None and not self._closed and now >= self._next:
            self._next = now + TRY_EVERY_S
            try:
                self._lock = FileLock(self._path, self._what)
            except LogLocked:
                return False
        return self._lock is not None

    @property
    def lost(self) -> bool:
        """See Election. Always False: no process can take a lock away."""
        return False

    def close(self) -> None:
        """See Closing."""
        self._closed = True
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
