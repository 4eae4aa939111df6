"""Keeps in a file which pages `simstream feed` has sent, so that an interrupted run goes on."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from simstream.closing import Closing
from simstream.errors import StateError, UsageError, WrongLog
from simstream.log.base import TopicInfo
from simstream.log.local.lock import FileLock
from simstream.log.local.topic_file import replace_file
from simstream.model import Record

VERSION: Final = 1
SAVE_EVERY_S: Final = 1.0
_DIGEST_BYTES: Final = 8


class FeedProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file: so many records of the input are in this topic, or were refused by it."""

    topic: str
    topic_id: str
    records: int = 0
    digest: str = ""
    """A digest of the records' places, keys and lengths, so that no other input is taken for this one."""
    version: int = VERSION


class FeedPosition(Closing):
    """Which records are sent, kept in a file. A record counts once it and all records before it are safely written.

    One process holds the file. The next run sends unsaved records again: nothing is lost, and some pages may arrive
    twice.
    """

    def __init__(self, path: Path, topic: TopicInfo) -> None:
        """Read the position; without a file, begin at the start.

        Raises UsageError if the path cannot be a file, LogLocked if another process uses it, StateError if it
        cannot be read, and WrongLog if it belongs to another topic.
        """
        if path.is_dir() or not path.parent.is_dir():
            raise UsageError(f"--resume names {path}, which cannot be a file", "name a file with --resume")
        self._path = path
        self._lock = FileLock(path.with_name(path.name + ".lock"), f"feeds by {path}")
        try:
            self._saved = _load(path, topic)
        except BaseException:
            self._lock.close()
            raise
        self._done = self._saved
        self._digest = b""
        self._flying: deque[tuple[int, bytes]] = deque()
        """Of each record that may not be written yet: the number of appends with it, and the digest up to it."""
        self._due = time.monotonic() + SAVE_EVERY_S

    @property
    def before(self) -> int:
        """The number of records that earlier runs have sent."""
        return self._saved.records

    @property
    def due(self) -> bool:
        """Return whether it is time to save."""
        return time.monotonic() >= self._due

    def skip_sent(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records that were not sent yet. Raises UsageError if the earlier records changed."""
        known, count = self._saved, 0
        for record in records:
            if count < known.records:
                count += 1
                self._digest = _with(self._digest, record)
                if count == known.records:
                    self._check(self._digest.hex() == known.digest)
                continue
            yield record
        self._check(count == known.records)

    def _check(self, same: bool) -> None:
        if not same:
            what = (
                f"the inputs do not begin with the pages ({self._saved.records:,}) that {self._path} says were sent"
            )
            raise UsageError(
                what, f"give the same inputs in the same order, or delete {self._path} to send all pages"
            )

    def note_sent(self, record: Record, number: int) -> None:
        """Note that the next record is written when `number` appends are."""
        self._digest = _with(self._digest, record)
        self._flying.append((number, self._digest))

    def save(self, written: int) -> None:
        """Save how far sending is, if `written` appends are written. Raises DiskFull, LogError."""
        records, digest = self._done.records, self._done.digest
        while self._flying and self._flying[0][0] <= written:
            records, digest = records + 1, self._flying.popleft()[1].hex()
        if records != self._done.records:
            self._done = msgspec.structs.replace(self._done, records=records, digest=digest)
            replace_file(self._path, msgspec.json.encode(self._done) + b"\n")
        self._due = time.monotonic() + SAVE_EVERY_S

    def close(self) -> None:
        """Release the file for other processes."""
        self._lock.close()


def _with(digest: bytes, record: Record) -> bytes:
    size = len(record.value or b"")
    what = b"%s\0%d\0%d\0%s" % (digest, record.offset, size, record.key or b"")
    return hashlib.blake2b(what, digest_size=_DIGEST_BYTES).digest()


def _load(path: Path, topic: TopicInfo) -> FeedProgress:
    again = f"delete {path} to send all pages"
    try:
        found = msgspec.json.decode(path.read_bytes(), type=FeedProgress)
    except FileNotFoundError:
        return FeedProgress(topic.name, topic.id)
    except (OSError, ValueError) as error:
        raise StateError(f"{path} is not the position of a feed ({error})", again) from error
    if found.version != VERSION or found.records < 0:
        raise StateError(f"{path} is the position of a feed of another version", again)
    if (found.topic, found.topic_id) != (topic.name, topic.id):
        raise WrongLog(f"{path} belongs to another topic, {found.topic} (id {found.topic_id})", again)
    return found
