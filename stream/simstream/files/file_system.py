"""Makes all calls to the file system for states and local logs, so that tests can let each of them fail.

Every method is one step that can fail by itself and raises OSError as the system does. The caller turns it into an
error of the tree (`files/failures`). A test derives from `FileSystem` and fails at any step.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simstream.files.header import FORMAT

MAX_BYTES_AT_ONCE = 1 << 30
"""Bytes that are handed to the system at once; Linux takes at most 2 GiB."""


def process_name() -> str:
    """Return `HOST:PID` of this process: containers that share a folder have equal pids."""
    return f"{socket.gethostname()}:{os.getpid()}"


def unlock(descriptor: int, holder: int) -> None:
    """Release the lock of a file that `holder` has locked, before the file is closed.

    Closing alone would not release it while a forked process has the file open, too. In such a process do nothing.
    """
    if os.getpid() == holder:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def write_whole(files: FileSystem, path: Path, data: bytes) -> None:
    """Write a file that a rename will put in its place, and wait for the disk. Raises OSError."""
    with files.closing(files.create(path)) as descriptor:
        files.write(descriptor, memoryview(data))
        files.fsync(descriptor)


class FileSystem:
    """The real file system. Descriptors are plain numbers; nothing is buffered."""

    mode = 0o600
    """The mode of new files. Only the owner reads a state, as it holds the ids of pages."""

    reads = FORMAT
    """The one format that it reads in the state's files. It writes the current format."""

    def create(self, path: Path) -> int:
        """Create an empty file for writing, in place of one that a crash left, and return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, self.mode)

    def open(self, path: Path) -> int:
        """Open a file for reading, and return its descriptor. A pipe in its place does not wait for a writer."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    @contextlib.contextmanager
    def closing(self, descriptor: int) -> Iterator[int]:
        """Return the descriptor; `close` it in the end."""
        try:
            yield descriptor
        finally:
            self.close(descriptor)

    def write(self, descriptor: int, data: memoryview) -> None:
        """Append all of `data`."""
        while data:
            data = data[self.write_some(descriptor, data[:MAX_BYTES_AT_ONCE]) :]

    def write_some(self, descriptor: int, data: memoryview) -> int:
        """Append, and return how many bytes the system took, perhaps not all."""
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
        """Make all written bytes survive a power cut. After a failure their state is unknown: write the file
        again."""
        os.fsync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        """Do what `fsync` does, but perhaps not for the file's times; the file may be open for reading only."""
        os.fdatasync(descriptor) if hasattr(os, "fdatasync") else os.fsync(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Rename in one step, and replace a file at `new`."""
        os.replace(old, new)

    def sync_folder(self, folder: Path) -> None:
        """Make the folder's new and removed names survive a power cut."""
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
        """Return when the file was written, in ns since 1970."""
        return os.fstat(descriptor).st_mtime_ns

    def pread_into(self, descriptor: int, target: memoryview, offset: int) -> int:
        """Fill `target` from `offset` on, and return the number of bytes, fewer only at the end of the file."""
        done = 0
        while done < len(target):
            count = os.preadv(descriptor, [target[done : done + MAX_BYTES_AT_ONCE]], offset + done)
            if count == 0:
                break
            done += count
        return done

    def pread_some(self, descriptor: int, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset` on, as the system gives them at once: mostly all, in half the
        time."""
        return os.pread(descriptor, size, offset)

    def pread(self, descriptor: int, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset` on, fewer only at the end of the file."""
        target = bytearray(size)
        return bytes(target[: self.pread_into(descriptor, memoryview(target), offset)])

    def map(self, descriptor: int) -> NDArray[np.uint8]:
        """Map the whole file. It stays readable when the file is closed and unlinked."""
        if self.size(descriptor) == 0:
            return np.zeros(0, np.uint8)
        return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), np.uint8)

    def lock(self, path: Path) -> int:
        """Lock a file for this process, and return its descriptor; `unlock` releases the lock.

        Raises BlockingIOError if another process holds it, with that process's `process_name` or "unknown" in
        `filename`; earlier versions wrote the pid alone.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self.mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):  # on a full disk the lock holds, but without its holder's name
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, process_name().encode(), 0)
        except BlockingIOError as error:
            error.filename = os.pread(descriptor, 100, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor
