"""Reads the bytes of a sealed chunk from memory, or piece by piece from a file."""

from __future__ import annotations

import errno
import tempfile
from collections import deque
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simstream import memory
from simstream.closing import Closing
from simstream.errors import StateDamaged
from simstream.files.failures import damaged, reading
from simstream.files.file_system import FileSystem
from simstream.files.sealed import SealedFile

MAX_OPEN_FILES: Final = 256


class MemoryChunk:
    """Arrays in memory, or mapped; `verify` them unless this process made them."""

    def __init__(self, name: str, arrays: Mapping[str, NDArray[Any]], verify: bool = False) -> None:
        self.verify = verify
        """Whether its bytes may be damaged, and need verification."""
        self.arrays = dict(arrays)
        self._name = name
        self._bytes = {key: _flat(array).data for key, array in self.arrays.items()}

    def read(self, name: str, start: int, size: int) -> bytes:
        """Return `size` bytes of an array from `start` on. Raises StateDamaged if there are fewer."""
        found = bytes(self._bytes[name][start : start + size])
        if len(found) < size:
            raise self.damaged("it is cut off")
        return found

    def pieces(self, name: str, size: int, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return n pieces (n, size), at `places` times `size` from the start. Raises StateDamaged as `read`
        does."""
        whole = _flat(self.arrays[name])
        if len(places) and size * (int(places.max()) + 1) > len(whole):
            raise self.damaged("it is cut off")
        found: NDArray[np.uint8] = whole[: len(whole) // size * size].reshape(-1, size)[places]
        return found

    def array(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a whole array, flat."""
        return _flat(self.arrays[name]).view(dtype)

    def nbytes(self) -> int:
        """Return its bytes of memory."""
        return sum(array.nbytes for array in self.arrays.values())

    def damaged(self, what: str) -> StateDamaged:
        """Return an error that names this source."""
        return damaged(Path(self._name), what)


class FileChunk:
    """Arrays in a sealed file, which opens at a read. It may be unlinked while it is open."""

    verify = True

    def __init__(self, sealed: SealedFile, opened: OpenFiles) -> None:
        self.path = sealed.path
        self.descriptor = -1
        self.used = False
        """Whether it was read since `OpenFiles` looked last."""
        self._size = sealed.size
        self._opened = opened
        self._files = opened.files
        self._extents = {name: (extent.offset, extent.nbytes) for name, extent in sealed.layout.items()}

    def read(self, name: str, start: int, size: int) -> bytes:
        offset, nbytes = self._extents[name]
        if start + size > nbytes:
            raise self.damaged(f"its array {name} is too short")
        try:
            if self.descriptor < 0:
                self._opened.open(self)
            self.used = True
            found = self._files.pread_some(self.descriptor, size, offset + start)
            if len(found) < size:
                found = self._files.pread(self.descriptor, size, offset + start)
        except OSError:
            with reading(self.path):
                raise
        if len(found) < size:
            raise self.damaged("it is cut off")
        return found

    def pieces(self, name: str, size: int, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        found = bytearray().join(self.read(name, size * place, size) for place in places.tolist())
        return np.frombuffer(found, np.uint8).reshape(-1, size)

    def array(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        offset, nbytes = self._extents[name]
        target = memory.filled(nbytes, np.uint8)
        with reading(self.path):
            if self.descriptor < 0:
                self._opened.open(self)
            self.used = True
            done = self._files.pread_into(self.descriptor, target.data, offset)
        if done < nbytes:
            raise self.damaged("it is cut off")
        return target.view(dtype)

    def nbytes(self) -> int:
        return 0

    def damaged(self, what: str) -> StateDamaged:
        return damaged(self.path, what)

    def close(self) -> None:
        """Close the file; a read opens it again."""
        self._opened.close(self)


ChunkSource = MemoryChunk | FileChunk
"""The named arrays of one chunk; `MemoryChunk` says what the methods of both do."""


class SpillFile(Closing):
    """A nameless file with the arrays of sealed chunks; the place of a chunk that has gone is used again.

    Raises OSError if the folder cannot have it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.opened = OpenFiles()
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  # closed by `close`
        self.descriptor = self._file.fileno()
        self._end = 0
        self._gaps: list[tuple[int, int]] = []
        """Where free places begin and end, ascending; no two of them touch."""

    def take(self, arrays: Mapping[str, NDArray[Any]]) -> SpilledChunk | None:
        """Return a chunk's arrays in the file; None if the disk has no room for them."""
        content = b"".join(_flat(array).data for array in arrays.values())
        gap = next((gap for gap in self._gaps if gap[1] - gap[0] >= len(content)), None)
        start = self._end if gap is None else gap[0]
        end = start + len(content)
        try:
            self.opened.files.pwrite(self.descriptor, content, start)
        except OSError:
            return None
        if gap is None:
            self._end = end
        else:
            self._gaps.remove(gap)
            self._gaps += [(end, gap[1])] if end < gap[1] else []
        return SpilledChunk(self, start, {name: array.nbytes for name, array in arrays.items()})

    def give_back(self, start: int, end: int) -> None:
        """Let other chunks have this place."""
        joined: list[tuple[int, int]] = []
        for gap in sorted([*self._gaps, (start, end)]):
            if joined and joined[-1][1] == gap[0]:
                joined[-1] = joined[-1][0], gap[1]
            else:
                joined.append(gap)
        self._gaps = joined

    def close(self) -> None:
        """Remove the file. May be called twice."""
        self._file.close()


class SpilledChunk(FileChunk):
    """Arrays in a `SpillFile`, one behind the other."""

    def __init__(self, spill: SpillFile, start: int, sizes: Mapping[str, int]) -> None:
        self.path, self.descriptor, self.used = spill.path, spill.descriptor, True
        self._opened, self._files = spill.opened, spill.opened.files
        self._spill, self._start, self._size = spill, start, sum(sizes.values())
        starts = accumulate(sizes.values(), initial=start)
        self._extents = {name: (at, size) for (name, size), at in zip(sizes.items(), starts, strict=False)}

    def close(self) -> None:
        """Give the chunk's place in the file back."""
        self._spill.give_back(self._start, self._start + self._size)


class OpenFiles:
    """The open files, at most MAX_OPEN_FILES: a new one closes one that was not read for a while."""

    def __init__(self, files: FileSystem | None = None) -> None:
        self.files = files or FileSystem()
        self._open: deque[FileChunk] = deque()

    def open(self, source: FileChunk) -> None:
        """Open a file for reading. Raises OSError."""
        while source.descriptor < 0:
            try:
                source.descriptor = self.files.open(source.path)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                    raise
                self.close(self._open[0])  # other stores of the process have files open, too
        while len(self._open) >= MAX_OPEN_FILES:
            other = self._open[0]
            if other.used:
                other.used = False
                self._open.rotate(-1)
            else:
                self.close(other)
        self._open.append(source)

    def close(self, source: FileChunk) -> None:
        """Close a file, unless it is closed."""
        if source.descriptor >= 0:
            self._open.remove(source)
            self.files.close(source.descriptor)
            source.descriptor = -1

    def close_all(self) -> None:
        """Close all files."""
        while self._open:
            self.close(self._open[0])


def _flat(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
