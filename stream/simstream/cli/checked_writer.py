"""Names the file in the error of a write that the system refuses."""

from __future__ import annotations

import errno
import io
import os
from typing import Any, BinaryIO

from simstream.errors import OutputError


class ReaderGoneError(Exception):
    """What reads stdout went away, as `head` does. No OSError: click would end with exit code 1."""


class CheckedWriter(io.RawIOBase):
    """Writes to a handle. Raises OutputError, which names the file, if the system refuses a write.

    `path` is that of the file; `-` is stdout. If the reader of stdout went away, it raises ReaderGoneError.
    """

    def __init__(self, handle: BinaryIO, path: str) -> None:
        self._handle, self._path = handle, path

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._handle.fileno()

    def isatty(self) -> bool:
        return self._handle.isatty()

    def write(self, data: Any) -> int:
        """Write bytes, and flush the handle."""
        try:
            written = self._handle.write(data)
            self._handle.flush()
            return written
        except OSError as error:
            raise self._refused(error) from error

    def sync(self) -> None:
        """Wait until the disk has what was written."""
        try:
            os.fsync(self.fileno())
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> OutputError | ReaderGoneError:
        """Return the error for what the system refused."""
        is_stdout = self._path == "-"
        if is_stdout and isinstance(error, BrokenPipeError):
            return ReaderGoneError()
        shown, todo = ("stdout", "send it elsewhere") if is_stdout else (self._path, "name another file")
        room = "free space there, or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return OutputError(f"writing to {shown} failed ({error.strerror})", room + todo)
