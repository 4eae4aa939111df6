"""Locks the files of a local log; each lock file has the pid of its holder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

from simstream.closing import Closing
from simstream.errors import DiskFull, LogDamaged, LogError, LogLocked
from simstream.files.failures import FULL
from simstream.files.file_system import unlock

LOOK_S = 0.005
"""Seconds. A process that only looks at a lock holds it for a shorter time."""

TRY_EVERY_S = 0.05
"""Seconds between two tries to take an awaited lock."""


def cannot_write(path: Path, error: OSError) -> LogError:
    """Return the error for a failed write that left the file as it was."""
    if error.errno in FULL:
        return DiskFull(f"no room to write {path} ({error.strerror})", "make room, then go on: nothing is lost")
    todo = _advice(error, "check the disk; the file is as it was before")
    return LogError(f"cannot write {path}: {error.strerror}", todo)


def cannot_use(path: Path, error: OSError) -> LogError:
    """Return the error for a file or folder of the log that cannot be opened or made."""
    if error.errno in FULL:
        return cannot_write(path, error)
    return LogError(f"cannot use {path}: {error.strerror}", _advice(error, "check --log and its permissions"))


def _advice(error: OSError, other: str) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "close some files, or raise the limit of open files (ulimit -n)"
    return other


def ends_before(name: str, end: int, passed: int) -> LogDamaged:
    """Return the error for a file that has lost records after they were read."""
    return LogDamaged(
        f"{name} ends at offset {end}, but was read up to {passed}: the disk lost records that it had accepted",
        "restore the file from a copy, or use another folder",
    )


class FileLock(Closing):
    """An exclusive lock between processes and within one; the file holds the holder's pid."""

    def __init__(self, path: Path, what: str, todo: str = "stop it first") -> None:
        """Take the lock at once, or raise LogLocked with the advice `todo`.

        `what` completes the sentence "process 12 already ...".
        """
        self._holder = os.getpid()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise cannot_use(path, error) from error
        try:
            self._take()
        except BlockingIOError:
            holder = os.pread(self._fd, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise LogLocked(f"process {holder} already {what}", todo) from None
        with contextlib.suppress(OSError):  # on a full disk the lock holds, but the file does not say who holds it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, str(self._holder).encode(), 0)

    def _take(self) -> None:
        """Take the lock. The second try is for a process that only looked (`holder`)."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_S)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """Release the lock; may be called again. In a forked process the lock stays its parent's."""
        if self._fd >= 0:
            unlock(self._fd, self._holder)
            os.close(self._fd)
            self._fd = -1


class AwaitedLock(Closing):
    """A lock that is tried again and again until it is held, and then kept until it is closed."""

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what
        self._lock: FileLock | None = None
        self._next = 0.0
        self._closed = False

    @property
    def held(self) -> bool:
        """Whether this process holds the lock; tries to take it, at most every TRY_EVERY_S.

        Raises LogError if the file cannot be made.
        """
        now = time.monotonic()
        if self._lock is None and not self._closed and now >= self._next:
            self._next = now + TRY_EVERY_S
            with contextlib.suppress(LogLocked):
                self._lock = FileLock(self._path, self._what)
        return self._lock is not None

    def close(self) -> None:
        """Release the lock, and wait for it no longer."""
        self._closed = True
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()


def holder(path: Path) -> str | None:
    """Return the pid that holds a lock, or None. The look itself takes the lock for much less than LOOK_S."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot_use(path, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(fd)
    return None
