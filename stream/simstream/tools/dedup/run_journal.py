"""Keeps what a run of `dedup` has judged in one file, batch by batch, so that a later run need not judge it again.

file  = entry*
entry = magic (4) | length u32 | checksum u64 of the rest | Zstandard of a JudgedBatch in MessagePack
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

from simstream.closing import Closing
from simstream.errors import StateDamaged
from simstream.files.failures import reading, writing
from simstream.files.file_system import FileSystem
from simstream.files.zstandard import zstd
from simstream.sources.read import FileEnd
from simstream.wire.frame import checksum

_MAGIC: Final = b"sjr\x01"
_HEAD: Final = Struct("<4sIQ")
_LEVEL: Final = 1


class JudgedBatch(msgspec.Struct, frozen=True, array_like=True):
    """One batch: its pages as a frame, whose offsets are ordinals, and all that follows from its records."""

    of_corpus: bool
    """Whether its pages are those of --against."""
    frame: bytes
    verdicts: list[bytes]
    names: bytes
    """The notes of `PageNames`, and how many pages got another name."""
    repeated: int
    copy: bytes
    """The notes of the `InputCopier`."""
    ended: list[FileEnd]
    """The files that were read to their end since the batch before."""


class RunJournal(Closing):
    """A file of batches, in their order. Read what counts first, then append.

    What a killed writer or a power cut has left after the last save does not count, and is overwritten. Methods
    raise StateFull and StateUnwritable if the disk refuses them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = FileSystem()
        with writing(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FileSystem.mode)
            self._files.sync_folder(path.parent)
        self._end = 0
        self._failure: OSError | None = None
        """Why the disk did not take all batches: nobody knows which it has."""

    def read(self, pages: int) -> Iterator[JudgedBatch]:
        """Yield the batches of the first `pages` pages, and forget all others.

        Raises StateDamaged if the file does not have them.
        """
        done = 0
        while done < pages:
            batch = self._next()
            if batch is None or done + len(batch.verdicts) > pages:
                what = f"{self.path} is damaged: {pages:,} pages were judged, and it has {done:,}"
                raise StateDamaged(what, f"delete {self.path.parent} to begin again")
            done += len(batch.verdicts)
            yield batch
        with writing(self.path):
            self._files.truncate(self._descriptor, self._end)

    def append(self, batch: JudgedBatch) -> None:
        """Append a batch. It survives the death of this process."""
        body = zstd.compress(msgspec.msgpack.encode(batch), _LEVEL)
        entry = _HEAD.pack(_MAGIC, len(body), checksum(body)) + body
        with writing(self.path):
            self._files.pwrite(self._descriptor, entry, self._end)
        self._end += len(entry)

    def sync(self) -> None:
        """Make all batches survive a power cut.

        After a failure every call fails: the system may forget what it could not write, and then report success.
        """
        with writing(self.path):
            if self._failure is not None:
                raise self._failure
            try:
                self._files.fsync(self._descriptor)
            except OSError as error:
                self._failure = error
                raise

    def close(self) -> None:
        """Close the file. May be called twice."""
        if self._descriptor >= 0:
            self._files.close(self._descriptor)
            self._descriptor = -1

    def _next(self) -> JudgedBatch | None:
        """Return the next batch, or None if no whole batch follows."""
        with reading(self.path):
            head = self._files.pread(self._descriptor, _HEAD.size, self._end)
            if len(head) < _HEAD.size:
                return None
            magic, size, digest = _HEAD.unpack(head)
            left = self._files.size(self._descriptor) - self._end - _HEAD.size
            if magic != _MAGIC or size > left:
                return None
            body = self._files.pread(self._descriptor, size, self._end + _HEAD.size)
        if checksum(body) != digest:
            return None
        try:
            batch = msgspec.msgpack.decode(zstd.decompress(body), type=JudgedBatch)
        except (zstd.ZstdError, msgspec.MsgspecError, UnicodeDecodeError):  # of another version, or of a stranger
            return None
        self._end += _HEAD.size + size
        return batch
