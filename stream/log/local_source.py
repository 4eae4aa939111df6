"""The fingerprinter's side of a local log: reads `pages`, keeps its commits in a small file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from stream.errors import LogDamaged
from stream.log.base import DEAD_LETTERS, FINGERPRINTS, PAGES, Polled, Source, Start
from stream.log.local_catalog import Catalog
from stream.log.local_files import Tally, replace_file
from stream.log.local_lock import Lock, ends_before
from stream.log.local_reading import Follower, SameTopics, wait_for

LAG_STEP = 100_000
"""Groups that one call of `lag` counts at most, about 0.15 s; a longer backlog is counted over several calls."""


Ids = tuple[str, str]
"""The ids of `pages` and `fingerprints` that a commit belongs to."""


def topic_ids(catalog: Catalog) -> Ids:
    """The ids as they are now."""
    return (catalog.info(PAGES).id, catalog.info(FINGERPRINTS).id)


def commit_path(catalog: Catalog) -> Path:
    """The file with the committed offsets."""
    return catalog.folder / f"{catalog.options.prefix}.source.json"


def source_lock_path(catalog: Catalog) -> Path:
    """The file whose lock makes a process the one fingerprinter."""
    return commit_path(catalog).with_suffix(".lock")


def source_lock(catalog: Catalog) -> Lock:
    """The lock of the one source. Raises LogLocked."""
    what = f"reads {catalog.name(PAGES)} as its fingerprinter"
    return Lock(source_lock_path(catalog), what)


def read_commit(catalog: Catalog, ids: Ids) -> dict[int, int]:
    """The committed offset per partition; empty where none is, or where it belongs to other topics."""
    path = commit_path(catalog)
    try:
        data = json.loads(path.read_bytes())
        offsets = {int(partition): int(offset) for partition, offset in data["offsets"].items()}
        found = (data[PAGES], data[FINGERPRINTS])
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LogDamaged(
            f"{path} is damaged", "delete it; pages are then read again, none is judged twice"
        ) from None
    return offsets if ids == found else {}


def write_commit(catalog: Catalog, ids: Ids, offsets: Mapping[int, int]) -> None:
    """Commit: sync the topics that the commit relies on, then replace its file in one step."""
    catalog.sync(PAGES, FINGERPRINTS, DEAD_LETTERS)
    data = {PAGES: ids[0], FINGERPRINTS: ids[1], "offsets": {str(p): n for p, n in sorted(offsets.items())}}
    replace_file(commit_path(catalog), json.dumps(data).encode(), catalog.files)


def check_end(catalog: Catalog, tally: Tally, offsets: Mapping[int, int]) -> None:
    """Raise LogDamaged unless the file of `pages`, counted on from the tally, reaches these offsets."""
    while short := [p for p, offset in offsets.items() if tally.records[p] < offset]:
        before = tally.at
        tally.advance(LAG_STEP)
        if tally.at == before:
            raise ends_before(
                f"partition {short[0]} of {catalog.name(PAGES)}", tally.records[short[0]], offsets[short[0]]
            )


class LocalSource(Source):
    """The one reader of `pages` on behalf of the fingerprinter, with its commits in a small file.

    Pages are on the disk before they are handed over, so no frame has pages that a power cut may lose. A commit
    waits until the records that it relies on are on the disk, then replaces the file in one step.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._same = SameTopics(catalog, PAGES, FINGERPRINTS)
        self._ids = (self._same.id(PAGES), self._same.id(FINGERPRINTS))
        self._catalog = catalog
        self._lock = source_lock(catalog)
        self._started: list[Start] = []
        self._next: dict[int, int] = {}
        self._follower = self._begin()

    def poll(self, limit: int, timeout: float) -> Polled:
        """See Source."""
        started, self._started = self._started, []
        records = wait_for(self._follower, self._same, limit, 0 if started else timeout) if limit else []
        if records:
            self._follower.sync()
        for record in records:
            self._next[record.partition] = record.offset + 1
        return Polled(records, started)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """See Source."""
        self._same.check()
        committed = read_commit(self._catalog, self._ids) | dict(offsets)
        write_commit(self._catalog, self._ids, committed)

    def restart(self) -> None:
        """See Source."""
        self._follower.close()
        self._follower = self._begin()

    def positions(self) -> dict[int, int]:
        """See Source. In a local log only records have offsets."""
        return dict(self._next)

    def lag(self) -> dict[int, int]:
        """See Source. Says too little while a long backlog is still being counted, a step a call."""
        self._ahead.advance(LAG_STEP)
        return {p: max(0, self._ahead.records[p] - offset) for p, offset in self._next.items()}

    def close(self) -> None:
        """See Closing."""
        self._follower.close()
        self._lock.release()

    def _begin(self) -> Follower:
        committed = read_commit(self._catalog, self._ids)
        partitions = range(self._catalog.info(PAGES).partitions)
        self._started = [Start(p, committed.get(p, 0), p not in committed) for p in partitions]
        self._next = {start.partition: start.offset for start in self._started}
        follower = Follower(self._catalog, PAGES, dict(self._next))
        self._ahead: Tally = follower.tally  # the backlog is counted from where reading begins
        check_end(self._catalog, self._ahead, committed)
        return follower
