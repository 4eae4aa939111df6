"""Gives all shards of one copy of the index on a local log to one matcher, by a lock that ends with its process."""

from __future__ import annotations

import time
from pathlib import Path

from simstream.errors import LogLocked
from simstream.log.base import MATCHES, ShardMembership
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.election import TRY_EVERY_S
from simstream.log.local.lock import FileLock


def matchers_lock_path(catalog: TopicCatalog, copy: int) -> Path:
    """Return the file whose lock makes a matcher the owner of all shards. It holds the pid of the last owner."""
    return catalog.folder / f"{catalog.options.matchers_group(copy)}.lock"


class LocalShardMembership(ShardMembership):
    """See ShardMembership. The first member owns all shards, and keeps them until it closes or its process ends."""

    def __init__(self, catalog: TopicCatalog, copy: int) -> None:
        """Wait for the lock from now on. Raises TopicMissing."""
        self._shards = frozenset(range(catalog.info(MATCHES).partitions))
        self._path = matchers_lock_path(catalog, copy)
        self._what = f"owns all shards of {catalog.name(MATCHES)}"
        self._lock: FileLock | None = None
        self._next = 0.0
        self._closed = False

    @property
    def owned(self) -> frozenset[int]:
        """See ShardMembership. Raises LogError if the file cannot be made."""
        now = time.monotonic()
        if self._lock is None and not self._closed and now >= self._next:
            self._next = now + TRY_EVERY_S
            try:
                self._lock = FileLock(self._path, self._what)
            except LogLocked:
                return frozenset()
        return self._shards if self._lock is not None else frozenset()

    def close(self) -> None:
        """See Closing."""
        self._closed = True
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
