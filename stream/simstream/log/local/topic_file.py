"""Reads, counts and writes the file of one local topic; writes only under a lock.

Once `write` returns, its group survives the death of the process, as the page cache is the kernel's. `sync` makes
all groups survive a power cut. A power cut may lose any bytes that were not synced, and keep later ones.
"""

from __future__ import annotations

import logging
import mmap
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from simstream.closing import Closing
from simstream.errors import LogDamaged, TopicMissing, TopicRecreated
from simstream.files.file_system import FileSystem, write_whole
from simstream.log.base import TopicInfo
from simstream.log.local.lock import FileLock, cannot_write
from simstream.log.local.record_groups import (
    FILE_HEADER,
    FILE_MAGIC,
    HAS_POSITION,
    HEADER_SIZE,
    LOOSE,
    MIXED,
    POSITION,
    GroupHeader,
    body_is_sound,
    decode_header,
    encode_group,
    find_header,
    partitions_in,
)
from simstream.log.options import PAGES

CHUNK_BYTES = 1 << 20
"""Bytes read at a time; a longer group is read alone."""
SYNC_EVERY_S = 1.0
"""Seconds between two syncs of a busy writer. A power cut loses at most the unread records of this time."""
_logger = logging.getLogger("simstream.log")


class LogFiles(FileSystem):
    """The real file system; other users may read a log's files."""

    mode = 0o666  # less the umask


def replace_file(path: Path, data: bytes, files: FileSystem | None = None) -> None:
    """Replace the file by `data` in one step that survives a power cut.

    Raises DiskFull or LogError; then the file is as it was.
    """
    files = files or LogFiles()
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        write_whole(files, partial, data)
        files.rename(partial, path)
        files.sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):  # the file system may have turned read-only
            partial.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


class FoundGroup(NamedTuple):
    """A whole group of a topic's file; `end` is where the next one begins."""

    header: GroupHeader
    body: bytes
    end: int


class GroupFile(Closing):
    """Reads the groups of one topic's file in order, even while another process appends to it."""

    def __init__(self, path: Path, topic: TopicInfo, files: FileSystem) -> None:
        self.path = path
        self._files = files
        self.at = FILE_HEADER
        self._fd = _open_checked(path, topic, os.O_RDONLY)
        self._buffer = b""
        self._base = self.at

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def seek(self, at: int) -> None:
        """Go on at byte `at`, where a group begins."""
        self.at = self._base = at
        self._buffer = b""

    def sync(self) -> None:
        """Write all groups that `next` has returned to the disk. Raises LogError."""
        try:
            self._files.sync_data(self._fd)
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def size(self) -> int:
        """Return the length of the file now, in bytes."""
        return os.fstat(self._fd).st_size

    def next(self) -> FoundGroup | None:
        """Return the next group, or None while no whole group follows. Raises LogDamaged."""
        header = decode_header(self._bytes(HEADER_SIZE), 0)
        if header is not None:
            body = self._bytes(HEADER_SIZE + header.size)[HEADER_SIZE:]
            if body_is_sound(header, body):
                self.at += HEADER_SIZE + header.size
                return FoundGroup(header, body, self.at)
        # The bytes read may be half a group: a killed writer left it, and the next writer replaces it.
        self.seek(self.at)
        expected = HEADER_SIZE + (header.size if header else 0)
        if self.size() > self.at + expected:
            self._look_behind(self.at + (expected if header else 1))
        return None

    def _look_behind(self, start: int) -> None:
        """Raise LogDamaged if a group that is not loose stands behind a broken one; else this is a torn tail.

        A page's bytes may hold a valid header, so no header inside a group counts. A writer may replace the broken
        group at any moment, so this reads `at` again before a header behind it counts.
        """
        searched = self._behind(start)
        while searched is not None and (chunk := os.pread(self._fd, CHUNK_BYTES + HEADER_SIZE, searched)):
            if not _holds_firm_header(chunk):
                searched += CHUNK_BYTES
                continue
            behind = self._behind(searched)
            if behind == searched:
                raise LogDamaged(
                    f"{self.path} is damaged at byte {self.at}: a checksum is wrong",
                    "restore the file from a copy, or use another folder",
                )
            searched = behind

    def _behind(self, start: int) -> int | None:
        """Return where to look for a group behind the one at `at`, at least `start`; None if that one is whole."""
        self.seek(self.at)
        header = decode_header(self._bytes(HEADER_SIZE), 0)
        body = self._bytes(HEADER_SIZE + header.size)[HEADER_SIZE:] if header else b""
        self.seek(self.at)
        if header is None:
            return start
        return None if body_is_sound(header, body) else max(start, self.at + HEADER_SIZE + header.size)

    def _bytes(self, size: int) -> bytes:
        """Return up to `size` bytes from `at` on; fewer at the end of the file."""
        start = self.at - self._base
        if len(self._buffer) - start < size:
            self._buffer = os.pread(self._fd, max(size, CHUNK_BYTES), self.at)
            self._base, start = self.at, 0
        return self._buffer[start : start + size]


class RecordCounts:
    """Counts the records of each partition of a file, from header to header.

    `records[POSITION]` counts the positions; `at` is where counting goes on. It verifies no bodies; readers do.
    Cost: 1.5 us a group of one record, and 1.5 us a record in a group of several partitions. With `positions_only`
    it does not count verdicts, and reads headers alone.
    """

    def __init__(self, path: Path, *, positions_only: bool = False) -> None:
        self.path = path
        self._positions_only = positions_only
        self.at = FILE_HEADER
        self.firm = FILE_HEADER
        """Where the last group that is not loose begins; all bytes before it are on the disk."""
        self.last_position: int | None = None
        """Where the last group with a position begins."""
        self.records: Counter[int] = Counter()

    def advance(self, most: int | None = None, below: Mapping[int, int] | None = None) -> None:
        """Count up to `most` further groups; stop at a group with a record at or above these offsets."""
        with open(_descriptor(self.path, os.O_RDONLY), "rb") as file:
            if os.fstat(file.fileno()).st_size <= self.at:
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
                while most is None or most > 0:
                    header = decode_header(view, self.at)
                    start = self.at + HEADER_SIZE
                    if header is None or (end := start + header.size) > len(view):
                        return
                    with view[start:end] as body:
                        # A torn tail may have its full length. A writer may cut it off meanwhile: in the map, that
                        # would end this process.
                        if end == len(view):
                            last = os.pread(file.fileno(), header.size, start)
                            if not body_is_sound(header, last):
                                return
                        if not self._count(header, body, below):
                            return
                    most = most - 1 if most is not None else None

    def _count(self, header: GroupHeader, body: memoryview, below: Mapping[int, int] | None) -> bool:
        counts: Mapping[int, int] = {header.partition: header.records}
        if header.partition == MIXED and self._positions_only:
            counts = {POSITION: 1} if header.flags & HAS_POSITION else {}
        elif header.partition == MIXED:
            counts = Counter(partitions_in(header, body))
        for partition, count in counts.items():
            if below is not None and self.records[partition] + count > below.get(partition, sys.maxsize):
                return False
        for partition, count in counts.items():
            self.records[partition] += count
        if not header.flags & LOOSE:
            self.firm = self.at
        if header.flags & HAS_POSITION:
            self.last_position = self.at
        self.at += HEADER_SIZE + header.size
        return True


class TopicWriter:
    """The one writer of a topic's file. Opening it cuts off a torn tail."""

    def __init__(self, path: Path, topic: TopicInfo, files: FileSystem) -> None:
        """Take the topic's lock. Raises LogLocked, LogDamaged, TopicRecreated. Cost: a pass over the headers of the
        file."""
        self.path = path
        self._files = files
        todo = "stop it first"
        if topic.name.endswith(f".{PAGES}"):
            todo += ", or send pages over HTTP to a service with the role query"
        self._lock = FileLock(path.with_suffix(".lock"), f"writes to {topic.name}", todo)
        self._fd = -1
        try:
            self._fd = _open_checked(path, topic, os.O_RDWR)
            self._is_torn = False
            """Whether a part of a group that failed may stand behind `end`."""
            self.end = self._find_end(topic)
            self._cut_off()
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether this writer can still write."""
        return self._fd >= 0

    def write(
        self, records: Sequence[bytes], partition: int, flags: int, time_ms: int, *, durable: bool = False
    ) -> None:
        """Append one group of encoded records.

        Afterwards the group survives the death of this process, and with `durable` also a power cut. Raises
        DiskFull or LogError if the disk does not accept it; then nothing of the group remains.
        """
        group = encode_group(records, partition, flags if self._synced == self.end else flags | LOOSE, time_ms)
        before = self.end
        try:
            if self._is_torn:
                self._drop_rest()
            self._files.pwrite(self._fd, group, before)
            self.end += len(group)
            if durable or time.monotonic() - self._synced_at >= SYNC_EVERY_S:
                self.sync()
        except OSError as error:
            self.end, self._is_torn = before, True
            with suppress(OSError):  # the file system may have turned read-only; the next `write` or writer does it
                self._drop_rest()
            raise cannot_write(self.path, error) from error

    def sync(self) -> None:
        """Write everything to the disk, so that it survives a power cut. Raises OSError."""
        self._files.sync_data(self._fd)
        self._synced, self._synced_at = self.end, time.monotonic()

    def _drop_rest(self) -> None:
        """Cut off what a failed group has left. Raises OSError."""
        self._files.truncate(self._fd, self.end)
        self._is_torn = False

    def close(self) -> None:
        """Release the topic to other writers; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._lock.close()

    def _find_end(self, topic: TopicInfo) -> int:
        """Return where the last whole group ends.

        Verifies bodies only from the last group on that is not loose: all groups before it were on the disk when it
        was written. Readers verify all bodies.
        """
        tally = RecordCounts(self.path, positions_only=True)
        tally.advance()
        with GroupFile(self.path, topic, self._files) as file:
            file.seek(tally.firm)
            while file.next():
                pass
            return file.at

    def _cut_off(self) -> None:
        """Cut off a torn tail, and sync all groups before it."""
        torn = os.fstat(self._fd).st_size - self.end
        try:
            if torn:
                self._files.truncate(self._fd, self.end)
            self.sync()
        except OSError as error:
            raise cannot_write(self.path, error) from error
        if torn:
            _logger.warning("%s: cut off %d bytes, from a group on that is not whole", self.path, torn)


def _holds_firm_header(chunk: bytes) -> bool:
    """Whether the header of a group that is not loose stands in the chunk."""
    found = find_header(chunk, 0)
    while found is not None and (header := decode_header(chunk, found)):
        if not header.flags & LOOSE:
            return True
        found = find_header(chunk, found + 1)
    return False


def _descriptor(path: Path, flags: int) -> int:
    """Open a topic's file. A pipe in its place does not wait for a writer."""
    try:
        return os.open(path, flags | os.O_NONBLOCK)
    except FileNotFoundError:
        raise TopicMissing(f"the file {path} is gone", "restore the file, or use another folder") from None


def _open_checked(path: Path, topic: TopicInfo, flags: int) -> int:
    """Open a topic's file and make sure that it is of this topic's id."""
    fd = _descriptor(path, flags)
    try:
        head = os.pread(fd, FILE_HEADER, 0)
    except BaseException:
        os.close(fd)
        raise
    if head == FILE_MAGIC + uuid.UUID(topic.id).bytes:
        return fd
    os.close(fd)
    if not head.startswith(FILE_MAGIC):
        raise LogDamaged(f"{path} is not a file of a log", "restore the file, or use another folder")
    raise TopicRecreated(
        f"{path} belongs to another {topic.name}", "start this process again: it then begins with the new topic"
    )
