"""Elects a judge on a local log, by a lock that ends with its process."""

from __future__ import annotations

from pathlib import Path

from simstream.log.base import Election
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.lock import AwaitedLock
from simstream.log.options import VERDICTS


def lock_path(catalog: TopicCatalog) -> Path:
    """Return the file whose lock makes a judge the elected one. It holds the pid of the last elected judge."""
    return catalog.folder / f"{catalog.options.judged_prefix}.judge.lock"


class LocalElection(Election):
    """See Election. A paused process stays elected, as it holds the lock."""

    def __init__(self, catalog: TopicCatalog) -> None:
        """Stand for election. Raises TopicMissing."""
        catalog.info(VERDICTS)
        self._lock = AwaitedLock(lock_path(catalog), f"judges for {catalog.name(VERDICTS)}")

    @property
    def elected(self) -> bool:
        """See Election. Raises LogError if the file cannot be made."""
        return self._lock.held

    @property
    def lost(self) -> bool:
        """See Election. Always False: no process can take a lock away."""
        return False

    def close(self) -> None:
        self._lock.close()
