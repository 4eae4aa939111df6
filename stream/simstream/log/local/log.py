"""`LocalLog`: the interface of `log/base` over a directory, with one writer a topic and any readers.

A topic is one append-only file with the records of all its partitions in the order of their appends. Every
append is one checksummed group; verdicts and position are one group together, so a crash leaves both or neither.

Acknowledged and published records are in the kernel's page cache, so they survive `kill -9`. A power cut may lose
the last second of records, but no record that other records on the disk depend on. So these wait for the disk:

- a page consumer, before it hands over pages: no frame names an offset that the file may lose;
- `publish`, for the frames before the verdicts, then for the verdicts with their position;
- a commit, for pages, frames and dead letters, then for the commit itself;
- a reader of positions, before it hands one over: no snapshot of a standby is ahead of the published position;
- `flush` and `close`, and every writer once a second.

If the disk loses records all the same, the next writer or page consumer refuses to start. So no offset below a
commit or a position is given twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simstream.errors import LogError
from simstream.files.file_system import FileSystem
from simstream.log.base import (
    MAX_COPIES,
    Appender,
    Election,
    Log,
    PageConsumer,
    Publisher,
    Reader,
    ReaderStart,
    ShardMembership,
    TopicInfo,
    TopicReport,
)
from simstream.log.local.catalog import TopicCatalog
from simstream.log.local.lock import AwaitedLock, cannot_use, holder
from simstream.log.local.page_consumer import (
    LocalPageConsumer,
    read_commit,
    source_lock,
    source_lock_path,
    topic_ids,
    write_commit,
)
from simstream.log.local.reading import LocalReader, end_offsets
from simstream.log.local.writing import LocalAppender, LocalPublisher
from simstream.log.options import MATCHES, PAGES, TOPICS, VERDICTS, LogOptions, largest_record
from simstream.log.participants import GroupMember, LogMembers, ShardMember


class LocalLog(Log):
    """A log in a folder."""

    def __init__(
        self, folder: str | Path, options: LogOptions | None = None, files: FileSystem | None = None
    ) -> None:
        self._options = options or LogOptions()
        self._catalog = TopicCatalog(Path(folder), self._options, files)

    def create_topics(
        self, partitions: int | None = None, shards: int | None = None, verdict_partitions: int | None = None
    ) -> list[TopicReport]:
        """See Log. Raises DiskFull, and LogDamaged if a missing topic's file holds records."""
        reports, topics = [], TOPICS if shards is None else (*TOPICS, MATCHES)
        self._catalog.refuse_records(topics)
        for topic in topics:
            new = expected = 1
            if topic == MATCHES and shards is not None:
                new = expected = shards
            elif topic == PAGES:
                new = expected = partitions or self._catalog.partitions(PAGES) or 1
            elif topic == VERDICTS:
                new = verdict_partitions or self._catalog.info(PAGES).partitions
                expected = verdict_partitions or partitions or new
            foreign = topic == PAGES and self._options.pages_topic is not None
            created = not foreign and self._catalog.create(topic, new)
            found = self._catalog.info(topic)
            fits = created or found.partitions == expected
            differs = () if fits else (f"partitions: {found.partitions}, not {expected}",)
            reports.append(TopicReport(found.name, created, differs))
        return reports

    def topic(self, topic: str) -> TopicInfo:
        return self._catalog.info(topic)

    def low_watermarks(self, topic: str) -> dict[int, int]:
        """See Log. Always 0: a local log keeps everything."""
        return dict.fromkeys(range(self._catalog.info(topic).partitions), 0)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """See Log. Costs a pass over the headers of the file."""
        return end_offsets(self._catalog, topic)

    def open_appender(self, topic: str) -> Appender:
        """See Log. Raises LogLocked."""
        try:
            return LocalAppender(self._catalog, topic, largest_record(topic, self._options))
        except OSError as error:
            raise cannot_use(self._catalog.path(topic), error) from error

    def open_reader(self, topic: str, start: ReaderStart = 0) -> Reader:
        return LocalReader(self._catalog, topic, start)

    def open_consumer(self, linger_ms: int = 0) -> PageConsumer:
        """See Log. Looks for pages every 5 ms, and ignores `linger_ms`.

        Raises LogLocked for a second fingerprinter: a local log has one.
        """
        return LocalPageConsumer(self._catalog)

    def open_publisher(self) -> Publisher:
        """See Log. Its `start` raises LogLocked while another publisher lives."""
        return LocalPublisher(self._catalog)

    def join_election(self) -> Election:
        """See Log. The election is a lock."""
        return LocalElection(self._catalog)

    def join_matchers(self, instance: str | None, copy: int) -> ShardMembership:
        """See Log. One process owns all shards of a copy, by a lock."""
        return LocalShardMembership(self._catalog, copy)

    def source_offsets(self) -> dict[int, int]:
        return read_commit(self._catalog, topic_ids(self._catalog))

    def running(self) -> LogMembers:
        """See Log. Looks at the locks, and takes each for a moment."""
        reads, judges = holder(source_lock_path(self._catalog)), holder(_judge_lock_path(self._catalog))
        return LogMembers(
            fingerprinters=(f"process {reads}",) if reads else (),
            judges=(GroupMember(f"process {judges}", True),) if judges else (),
            publisher=None,
            matchers=self._matchers(),
        )

    def set_group_offsets(self, offsets: Mapping[int, int | None]) -> None:
        """See Log. Raises LogLocked while a fingerprinter runs."""
        unknown = set(offsets) - set(range(self._catalog.info(PAGES).partitions))
        if unknown:
            raise LogError(
                f"{self._catalog.name(PAGES)} has no partition {min(unknown)}",
                "see the partitions with: simstream status",
            )
        ids = topic_ids(self._catalog)
        with source_lock(self._catalog):
            merged = read_commit(self._catalog, ids) | dict(offsets)
            kept = {partition: offset for partition, offset in merged.items() if offset is not None}
            write_commit(self._catalog, ids, kept)

    def _matchers(self) -> tuple[ShardMember, ...]:
        shards = tuple(range(self.shards() or 0))
        owners = [(copy, holder(_matchers_lock_path(self._catalog, copy))) for copy in range(1, MAX_COPIES + 1)]
        return tuple(ShardMember(f"process {pid}", shards, copy) for copy, pid in owners if pid and shards)

    def close(self) -> None:
        """See Closing. A local log holds nothing open."""


def _judge_lock_path(catalog: TopicCatalog) -> Path:
    """Return the file whose lock makes a judge the elected one. It holds the pid of the last elected judge."""
    return catalog.folder / f"{catalog.options.judged_prefix}.judge.lock"


class LocalElection(Election):
    """See Election. A lock that ends with its process. A paused process stays elected, as it holds the lock."""

    def __init__(self, catalog: TopicCatalog) -> None:
        """Stand for election. Raises TopicMissing."""
        catalog.info(VERDICTS)
        self._lock = AwaitedLock(_judge_lock_path(catalog), f"judges for {catalog.name(VERDICTS)}")

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


def _matchers_lock_path(catalog: TopicCatalog, copy: int) -> Path:
    """Return the file whose lock makes a matcher the owner of all shards. It holds the pid of the last owner."""
    return catalog.folder / f"{catalog.options.matchers_group(copy)}.lock"


class LocalShardMembership(ShardMembership):
    """See ShardMembership. The first member owns all shards, and keeps them until it closes or its process ends."""

    def __init__(self, catalog: TopicCatalog, copy: int) -> None:
        """Wait for the lock from now on. Raises TopicMissing."""
        self._shards = frozenset(range(catalog.info(MATCHES).partitions))
        what = f"owns all shards of {catalog.name(MATCHES)}"
        self._lock = AwaitedLock(_matchers_lock_path(catalog, copy), what)

    @property
    def owned(self) -> frozenset[int]:
        """See ShardMembership. Raises LogError if the file cannot be made."""
        return self._shards if self._lock.held else frozenset()

    def close(self) -> None:
        self._lock.close()
