"""Gives all shards of one copy of the index on a local log to one matcher, by a lock that ends with its process."""

from __future__ import annotations

from pathlib import Path

from simstream.log.base import ShardMembership
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.lock import AwaitedLock
from simstream.log.options import MATCHES


def matchers_lock_path(catalog: TopicCatalog, copy: int) -> Path:
    """Return the file whose lock makes a matcher the owner of all shards. It holds the pid of the last owner."""
    return catalog.folder / f"{catalog.options.matchers_group(copy)}.lock"


class LocalShardMembership(ShardMembership):
    """See ShardMembership. The first member owns all shards, and keeps them until it closes or its process ends."""

    def __init__(self, catalog: TopicCatalog, copy: int) -> None:
        """Wait for the lock from now on. Raises TopicMissing."""
        self._shards = frozenset(range(catalog.info(MATCHES).partitions))
        what = f"owns all shards of {catalog.name(MATCHES)}"
        self._lock = AwaitedLock(matchers_lock_path(catalog, copy), what)

    @property
    def owned(self) -> frozenset[int]:
        """See ShardMembership. Raises LogError if the file cannot be made."""
        return self._shards if self._lock.held else frozenset()

    def close(self) -> None:
        self._lock.close()
