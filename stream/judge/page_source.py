"""Where a chunk of the page store has its bytes: in memory, or in a sealed file that is read piece by piece."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from stream.errors import StateDamaged
from stream.files.failures import damaged, reading
from stream.files.layer import Files
from stream.files.sealed import Sealed

OPEN_FILES: Final = 256


class Source(Protocol):
    """The named arrays of one chunk."""

    verify: bool
    """Whether what is read may have been damaged."""

    def read(self, name: str, start: int, size: int) -> bytes:
        """So many bytes of an array from `start` on. Raises StateDamaged where there are fewer."""

    def array(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """All of an array, flat."""

    def nbytes(self) -> int:
        """Bytes of memory."""

    def disk_bytes(self) -> int: ...

    def damaged(self, what: str) -> StateDamaged:
        """The error that names this source."""


class Held:
    """Arrays in memory, or mapped; `verify` where they were not made by this process."""

    def __init__(self, name: str, arrays: Mapping[str, NDArray[Any]], verify: bool = False) -> None:
        self.verify = verify
        self.arrays = dict(arrays)
        self._name = name
        self._bytes = {key: _flat(array).data for key, array in self.arrays.items()}

    def read(self, name: str, start: int, size: int) -> bytes:
        found = bytes(self._bytes[name][start : start + size])
        if len(found) < size:
            raise self.damaged("it is cut off")
        return found

    def array(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        return _flat(self.arrays[name]).view(dtype)

    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def disk_bytes(self) -> int:
        return 0

    def damaged(self, what: str) -> StateDamaged:
        return damaged(Path(self._name), what)


class OpenFiles:
    """The files of chunks that were read last, kept open: at most `OPEN_FILES`."""

    def __init__(self, files: Files | None = None, limit: int = OPEN_FILES) -> None:
        self.files = files or Files()
        self._limit = limit
        self._open: OrderedDict[Path, int] = OrderedDict()

    def read(self, path: Path, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset` on. Raises StateDamaged and StateUnwritable, which name the file."""
        with reading(path):
            descriptor = self._open.get(path)
            if descriptor is None:
                descriptor = self._open[path] = self.files.open(path)
                if len(self._open) > self._limit:
                    _, oldest = self._open.popitem(last=False)
                    self.files.close(oldest)
            else:
                self._open.move_to_end(path)
            return self.files.pread(descriptor, size, offset)

    def forget(self, path: Path) -> None:
        """The file is not needed any more."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            self.files.close(descriptor)

    def close(self) -> None:
        """Close all files; reading opens them again."""
        for path in list(self._open):
            self.forget(path)


class Stored:
    """Arrays in a sealed file. It may be unlinked while it is open."""

    verify = True

    def __init__(self, sealed: Sealed, files: OpenFiles) -> None:
        self.path = sealed.path
        self._size = sealed.size
        self._files = files
        self._extents = {name: (extent.offset, extent.nbytes) for name, extent in sealed.layout.items()}

    def read(self, name: str, start: int, size: int) -> bytes:
        offset, nbytes = self._extents[name]
        if start + size > nbytes:
            raise self.damaged(f"its array {name} is too short")
        found = self._files.read(self.path, size, offset + start)
        if len(found) < size:
            raise self.damaged("it is cut off")
        return found

    def array(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.frombuffer(self.read(name, 0, self._extents[name][1]), dtype)

    def nbytes(self) -> int:
        return 0

    def disk_bytes(self) -> int:
        return self._size

    def damaged(self, what: str) -> StateDamaged:
        return damaged(self.path, what)

    def forget(self) -> None:
        """It is not needed any more."""
        self._files.forget(self.path)


def _flat(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
