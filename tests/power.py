"""Power cuts on a local log: what is written is recorded step by step, and laid out as any cut may leave it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from simstream.log.local.topic_file import LogFiles

WAYS = ("none", "all", "half", "hole", "zeros")
"""What a cut leaves of what was written to one file since its last sync: see `PowerCutDisk.content`."""


@dataclass(slots=True)
class _DiskFile:
    safe: bytearray = field(default_factory=bytearray)
    unsafe: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes since the last sync: an offset and bytes, or a size to cut the file to."""


class PowerCutDisk:
    """Files and names as they are on the disk after each step, and what is only in the page cache."""

    def __init__(self) -> None:
        self.files: dict[int, _DiskFile] = {}
        self.names: dict[str, int] = {}
        self.unsafe_names: list[tuple[str, str, int]] = []
        """What was given (`link`) or taken (`unlink`) since the folder's last sync, a file's number with it."""
        self.promises: dict[str, int] = {}
        """What had been promised to survive, as the history has it."""

    def apply(self, step: tuple[object, ...]) -> None:
        """Go on by one step of a recording."""
        match step:
            case ("promise", str(what), int(value)):
                self.promises[what] = value
            case ("create", str(name), int(file)):
                self.files[file] = _DiskFile()
                self.unsafe_names.append(("link", name, file))
            case ("write", int(file), int(at), bytes(data)):
                self.files[file].unsafe.append((at, data))
            case ("truncate", int(file), int(size)):
                self.files[file].unsafe.append((size, None))
            case ("sync", int(file)):
                found = self.files[file]
                found.safe, found.unsafe = _written(found, found.unsafe), []
            case ("rename", str(old), str(new), int(file)):
                self.unsafe_names += [("unlink", old, file), ("link", new, file)]
            case ("sync_folder",):
                self.names = self._names(len(self.unsafe_names))
                self.unsafe_names.clear()

    def images(self) -> Iterator[dict[str, bytes]]:
        """The folder as a cut now may leave it: all files the same way, or one in another way than the rest."""
        for kept in range(len(self.unsafe_names) + 1):
            names = self._names(kept)
            unsafe = [name for name, file in names.items() if self.files[file].unsafe]
            for way in WAYS:
                for other, odd in [("none", ""), *((other, name) for name in unsafe for other in ("none", "all"))]:
                    yield {
                        name: self._content(self.files[file], other if name == odd else way)
                        for name, file in names.items()
                    }

    def _names(self, kept: int) -> dict[str, int]:
        names = dict(self.names)
        for what, name, file in self.unsafe_names[:kept]:
            if what == "link":
                names[name] = file
            else:
                names.pop(name, None)
        return names

    @staticmethod
    def _content(file: _DiskFile, way: str) -> bytes:
        writes = file.unsafe
        if way == "none":
            writes = []
        elif way == "half" and writes:  # some of the writes, and a part of the next
            middle = len(writes) // 2
            at, data = writes[middle]
            writes = [*writes[:middle], (at, None if data is None else data[: len(data) // 2])]
        elif way == "hole":  # the first is missing, what came after it is there
            writes = writes[1:]
        elif way == "zeros":  # the sizes are there, the bytes of the last are not
            writes = [*writes[:-1], *((at, data and bytes(len(data))) for at, data in writes[-1:])]
        return bytes(_written(file, writes))


def _written(file: _DiskFile, writes: list[tuple[int, bytes | None]]) -> bytearray:
    out = bytearray(file.safe)
    for at, data in writes:
        if data is None:
            del out[at:]
        out.extend(bytes(max(0, at - len(out))))
        out[at : at + len(data or b"")] = data or b""
    return out


class RecordingFiles(LogFiles):
    """The file system as it is; `steps` are what a `PowerCutDisk` applies."""

    def __init__(self) -> None:
        self.steps: list[tuple[object, ...]] = []
        self._numbers: dict[int, int] = {}
        """The number of the file that an inode is now."""
        self.beside: Callable[[], None] | None = None
        """What another process does while this one waits for the disk."""

    def promise(self, what: str, value: int) -> None:
        """From here on so much must survive."""
        self.steps.append(("promise", what, value))

    def _number(self, descriptor: int) -> int:
        return self._numbers[os.fstat(descriptor).st_ino]

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        self._numbers[os.fstat(descriptor).st_ino] = len(self.steps)
        self.steps.append(("create", path.name, len(self.steps)))
        return descriptor

    def write_some(self, descriptor: int, data: memoryview) -> int:
        at = os.fstat(descriptor).st_size
        done = super().write_some(descriptor, data)
        self.steps.append(("write", self._number(descriptor), at, bytes(data[:done])))
        return done

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> None:
        super().pwrite(descriptor, data, offset)
        self.steps.append(("write", self._number(descriptor), offset, data))

    def truncate(self, descriptor: int, size: int) -> None:
        super().truncate(descriptor, size)
        self.steps.append(("truncate", self._number(descriptor), size))

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self.steps.append(("sync", self._number(descriptor)))

    def sync_data(self, descriptor: int) -> None:
        beside, self.beside = self.beside, None
        if beside is not None:
            beside()
            self.beside = beside
        super().sync_data(descriptor)
        self.steps.append(("sync", self._number(descriptor)))

    def rename(self, old: Path, new: Path) -> None:
        number = self._numbers[old.stat().st_ino]
        super().rename(old, new)
        self.steps.append(("rename", old.name, new.name, number))

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.steps.append(("sync_folder",))
