"""Reads `pages` of a local log for the fingerprinter, and keeps its commits in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from simstream.errors import LogDamaged
from simstream.log.base import PageConsumer, PartitionStart, PollResult
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.following import RecordFollower
from simstream.log.local.lock import FileLock, ends_before
from simstream.log.local.reading import LocalTopicIdentity, wait_for
from simstream.log.local.topic_file import RecordCounts, replace_file
from simstream.log.options import DEAD_LETTERS, FINGERPRINTS, PAGES

MAX_LAG_GROUPS = 100_000
"""Groups that one call of `lag` counts at most, about 0.15 s. Several calls count a longer backlog."""


Ids = tuple[str, str]
"""The ids of `pages` and `fingerprints` that a commit belongs to."""


def topic_ids(catalog: TopicCatalog) -> Ids:
    """Return the ids as they are now."""
    return (catalog.info(PAGES).id, catalog.info(FINGERPRINTS).id)


def commit_path(catalog: TopicCatalog) -> Path:
    """Return the path of the file with the committed offsets."""
    return catalog.folder / f"{catalog.options.log_prefix}.source.json"


def source_lock_path(catalog: TopicCatalog) -> Path:
    """Return the file whose lock makes a process the one fingerprinter."""
    return commit_path(catalog).with_suffix(".lock")


def source_lock(catalog: TopicCatalog) -> FileLock:
    """Take the lock of the one fingerprinter. Raises LogLocked."""
    what = f"reads {catalog.name(PAGES)} as its fingerprinter"
    return FileLock(source_lock_path(catalog), what)


def read_commit(catalog: TopicCatalog, ids: Ids) -> dict[int, int]:
    """Return the committed offset per partition; empty if there is no commit, or if it belongs to other topics."""
    path = commit_path(catalog)
    try:
        data = json.loads(path.read_bytes())
        offsets = {int(partition): int(offset) for partition, offset in data["offsets"].items()}
        found = (data[PAGES], data[FINGERPRINTS])
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LogDamaged(
            f"{path} is damaged", "delete it: pages are then read again, and none is judged twice"
        ) from None
    return offsets if ids == found else {}


def write_commit(catalog: TopicCatalog, ids: Ids, offsets: Mapping[int, int]) -> None:
    """Commit: sync the topics that the commit relies on, then replace its file in one step."""
    catalog.sync(PAGES, FINGERPRINTS, DEAD_LETTERS)
    data = {PAGES: ids[0], FINGERPRINTS: ids[1], "offsets": {str(p): n for p, n in sorted(offsets.items())}}
    replace_file(commit_path(catalog), json.dumps(data).encode(), catalog.files)


def check_end(catalog: TopicCatalog, tally: RecordCounts, offsets: Mapping[int, int]) -> None:
    """Raise LogDamaged unless the file of `pages` reaches these offsets. Counts on from the tally."""
    while short := [p for p, offset in offsets.items() if tally.records[p] < offset]:
        before = tally.at
        tally.advance(MAX_LAG_GROUPS)
        if tally.at == before:
            raise ends_before(
                f"partition {short[0]} of {catalog.name(PAGES)}", tally.records[short[0]], offsets[short[0]]
            )


class LocalPageConsumer(PageConsumer):
    """Reads `pages` for the one fingerprinter, with its commits in a small file.

    Pages are on the disk before `poll` returns them, so no frame has pages that a power cut may lose. A commit
    waits until its records are on the disk, then replaces the file in one step.
    """

    def __init__(self, catalog: TopicCatalog) -> None:
        self._same = LocalTopicIdentity(catalog, PAGES, FINGERPRINTS)
        self._ids = (self._same.id(PAGES), self._same.id(FINGERPRINTS))
        self._catalog = catalog
        self._lock = source_lock(catalog)
        self._started: list[PartitionStart] = []
        self._next: dict[int, int] = {}
        self._follower = self._begin()

    def poll(self, limit: int, timeout: float) -> PollResult:
        started, self._started = self._started, []
        records = wait_for(self._follower.take, self._same, limit, 0 if started else timeout) if limit else []
        if records:
            self._follower.sync()
        for record in records:
            self._next[record.partition] = record.offset + 1
        return PollResult(records, started)

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._same.check()
        committed = read_commit(self._catalog, self._ids) | dict(offsets)
        write_commit(self._catalog, self._ids, committed)

    def restart(self) -> None:
        self._follower.close()
        self._follower = self._begin()

    def positions(self) -> dict[int, int]:
        """See PageConsumer. In a local log every offset is a record."""
        return dict(self._next)

    def lag(self) -> dict[int, int]:
        """See PageConsumer. The number is too low while a long backlog is still being counted, one step a call."""
        self._ahead.advance(MAX_LAG_GROUPS)
        return {p: max(0, self._ahead.records[p] - offset) for p, offset in self._next.items()}

    def close(self) -> None:
        self._follower.close()
        self._lock.close()

    def _begin(self) -> RecordFollower:
        committed = read_commit(self._catalog, self._ids)
        partitions = range(self._catalog.info(PAGES).partitions)
        self._started = [PartitionStart(p, committed.get(p, 0), p not in committed) for p in partitions]
        self._next = {start.partition: start.offset for start in self._started}
        follower = RecordFollower(self._catalog, PAGES, dict(self._next))
        self._ahead: RecordCounts = follower.tally  # count the backlog from where reading begins
        check_end(self._catalog, self._ahead, committed)
        return follower
