"""Reads several files at a time in threads, and yields their records in the order of the files."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from simstream.closing import Closing
from simstream.interrupts import BEAT_S
from simstream.model import Record
from simstream.sources.file_pages import FilePages

MAX_FILES_AHEAD: Final = 256
"""The most files that are begun before the first of them is taken to its end."""
_BATCH_RECORDS: Final = 64
_BATCH_BYTES: Final = 1 << 18
"""Records go from thread to thread in batches of this size."""
_RECORD_ROOM: Final = 512
"""Bytes that a record takes beside its value, as an estimate."""
_SHARE: Final = 4
"""The file whose turn it is may hold `max_bytes / _SHARE` more, or the others could keep it from its end."""
_STOP_S: Final = 2.0


class ReadAhead(NamedTuple):
    """How many files are read at a time, and how many bytes of their records may wait for their turn."""

    files: int = 1
    max_bytes: int = 64 << 20


ONE_BY_ONE: Final = ReadAhead()
"""Without threads: a file is read when its turn has come."""


class _WaitingFile:
    """A file that was begun, and what was read of it and not taken."""

    __slots__ = ("batches", "bytes", "ended", "error", "pages")

    def __init__(self, pages: FilePages) -> None:
        self.pages = pages
        self.batches: deque[tuple[list[Record], int]] = deque()
        self.bytes = 0
        self.ended = False
        self.error: BaseException | None = None


class FilesAhead(Closing):
    """Reads files before their records are taken.

    Each file is read by one thread, the first files first. A file that is read too far ahead waits. Memory: at most
    1.25 times `limits.max_bytes`, and in each thread a batch of 256 KB or one record. Standard input and pipes are
    read by the thread that takes them, so that their pages come as they are written. So are files of web servers
    without ranges, which would close the connection of a reader that waits.
    """

    def __init__(self, files: Iterable[FilePages], limits: ReadAhead) -> None:
        self._files, self._limits = iter(files), limits
        self._changed = threading.Condition()
        self._begun: deque[_WaitingFile] = deque()
        """The file whose turn it is, and those after it."""
        self._held = 0
        self._all_begun = self._stopped = False
        self._threads = [
            threading.Thread(target=self._read_files, name=f"read-{number}", daemon=True)
            for number in range(limits.files)
        ]

    def __iter__(self) -> Iterator[tuple[FilePages, Iterator[Record]]]:
        """Yield each file and its records, which must be taken to their end before the next file.

        They raise what reading the file raises, after the records before.
        """
        for thread in self._threads:
            thread.start()
        while True:
            with self._changed:
                self._await(lambda: self._begun or self._all_begun)
                if not self._begun:
                    return
                file = self._begun[0]
                self._changed.notify_all()  # it is now this file's turn
            yield file.pages, self._taken(file)
            with self._changed:
                self._begun.popleft()

    def close(self) -> None:
        """End the threads, and drop what waits. A thread that a store keeps waiting ends by itself, later."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        deadline = time.monotonic() + _STOP_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _taken(self, file: _WaitingFile) -> Iterator[Record]:
        if not file.pages.file.can_wait:
            yield from file.pages
            return
        while True:
            with self._changed:
                self._await(lambda: file.batches or file.ended)
                if not file.batches:
                    break
                batch, size = file.batches.popleft()
                file.bytes -= size
                self._held -= size
                self._changed.notify_all()
            yield from batch
        if file.error is not None:
            raise file.error

    def _await(self, has_come: Callable[[], object]) -> None:
        """Wait in the thread that takes the records. A server may stall, and Ctrl-C ends the wait."""
        while not self._changed.wait_for(has_come, BEAT_S):
            pass

    def _read_files(self) -> None:
        while (file := self._next_file()) is not None:
            try:
                self._read(file)
            except BaseException as error:  # noqa: BLE001  # the thread that takes the file raises it
                file.error = error
            with self._changed:
                file.ended = True
                self._changed.notify_all()

    def _next_file(self) -> _WaitingFile | None:
        """Return the next file that a thread has to read; None at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._stopped or len(self._begun) < MAX_FILES_AHEAD)
                pages = None if self._stopped else next(self._files, None)
                if pages is None:
                    self._all_begun = True
                    self._changed.notify_all()
                    return None
                self._begun.append(file := _WaitingFile(pages))
                self._changed.notify_all()
                if pages.file.can_wait:
                    return file

    def _read(self, file: _WaitingFile) -> None:
        batch: list[Record] = []
        size = 0
        try:
            for record in file.pages:
                batch.append(record)
                size += len(record.value or b"") + _RECORD_ROOM
                if size >= _BATCH_BYTES or len(batch) >= _BATCH_RECORDS:
                    self._put(file, batch, size)
                    batch, size = [], 0
                    if self._stopped:
                        return
        finally:
            if batch:  # also before an error: these records come first
                self._put(file, batch, size)

    def _put(self, file: _WaitingFile, batch: list[Record], size: int) -> None:
        """Hand over a batch as soon as there is room, or drop it once all is stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._has_room(file, size))
            if not self._stopped:
                file.batches.append((batch, size))
                file.bytes += size
                self._held += size
                self._changed.notify_all()

    def _has_room(self, file: _WaitingFile, size: int) -> bool:
        most = self._limits.max_bytes
        own = file is self._begun[0] and file.bytes < most // _SHARE
        return own or not self._held or self._held + size <= most
