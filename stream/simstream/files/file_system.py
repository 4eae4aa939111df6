"""All calls to the file system for states and local logs, so that tests can make each of them fail.

Every method is one step that can fail by itself and raises OSError as the system does; the caller gives the error
its name (`files/failures`). A test derives from `FileSystem` and fails at the step of its choice.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simstream.files.header import FORMAT

MAX_BYTES_AT_ONCE = 1 << 30
"""Bytes that are handed to the system at once; Linux takes at most 2 GiB."""


def write_whole(files: FileSystem, path: Path, data: bytes) -> None:
    """Write a file that a rename is to put in its place, and wait for the disk. Raises OSError."""
    descriptor = files.create(path)
    try:
        files.write(descriptor, memoryview(data))
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


class FileSystem:
    """The file system as it is. Descriptors are plain numbers; nothing is buffered."""

    mode = 0o600
    """The mode of new files: a state holds the ids of pages, so only its owner may read it."""

    reads = FORMAT
    """The one format of the state's files that is read. Files are written in the current format."""

    def create(self, path: Path) -> int:
        """A new empty file to write to, in place of one that a crash has left."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, self.mode)

    def open(self, path: Path) -> int:
        """A file to read."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def write(self, descriptor: int, data: memoryview) -> None:
        """All of `data`, at the end of what was written so far."""
        while data:
            data = data[self.write_some(descriptor, data[:MAX_BYTES_AT_ONCE]) :]

    def write_some(self, descriptor: int, data: memoryview) -> int:
        """How many bytes the system took: maybe not all."""
        return os.write(descriptor, data)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all of `data` from `offset` on."""
        rest = memoryview(data)
        while rest:
            done = os.pwrite(descriptor, rest, offset)
            rest, offset = rest[done:], offset + done

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut off all bytes behind `size`."""
        os.ftruncate(descriptor, size)

    def fsync(self, descriptor: int) -> None:
        """What was written survives a power cut. After a failure nothing is known: write it anew."""
        os.fsync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        """Do what `fsync` does, but perhaps not for the file's times; the file may be open for reading only."""
        os.fdatasync(descriptor) if hasattr(os, "fdatasync") else os.fsync(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """In one step; a file that is at `new` goes."""
        os.replace(old, new)

    def sync_folder(self, folder: Path) -> None:
        """Names that were given and taken survive a power cut."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def make_folder(self, path: Path) -> None:
        """Make a folder and the folders above it, so that they survive a power cut; an existing folder stays."""
        missing = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for each in missing:
            FileSystem.sync_folder(self, each.parent)

    def listdir(self, folder: Path) -> list[str]:
        return os.listdir(folder)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def modified_ns(self, descriptor: int) -> int:
        """When it was written, ns since 1970."""
        return os.fstat(descriptor).st_mtime_ns

    def pread_into(self, descriptor: int, target: memoryview, offset: int) -> int:
        """Fill `target` from `offset` on; how many bytes there were, fewer only at the end of the file."""
        done = 0
        while done < len(target):
            count = os.preadv(descriptor, [target[done : done + MAX_BYTES_AT_ONCE]], offset + done)
            if count == 0:
                break
            done += count
        return done

    def pread_some(self, descriptor: int, size: int, offset: int) -> bytes:
        """As many of `size` bytes from `offset` on as the system gives at once: mostly all, in half the time."""
        return os.pread(descriptor, size, offset)

    def pread(self, descriptor: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end of the file."""
        target = bytearray(size)
        return bytes(target[: self.pread_into(descriptor, memoryview(target), offset)])

    def map(self, descriptor: int) -> NDArray[np.uint8]:
        """The whole file, read when it is looked at; it stays readable when the file is closed and unlinked."""
        if self.size(descriptor) == 0:
            return np.zeros(0, np.uint8)
        return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), np.uint8)

    def lock(self, path: Path) -> int:
        """Lock a file for this process; the descriptor, whose closing gives it back.

        Raises BlockingIOError, with the holder's pid or "unknown" in `filename`, where another one has it.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self.mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            error.filename = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise
        except OSError:
            os.close(descriptor)
            raise
        with contextlib.suppress(OSError):  # on a full disk the lock holds all the same, without saying whose it is
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return descriptor
