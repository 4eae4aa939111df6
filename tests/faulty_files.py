"""File systems that fail: at the step of a test's choice, with an error or with the end of process or power."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simstream.files.file_system import FileSystem


class DeadProcess(BaseException):
    """The process is gone: nothing in it may catch this and do something useful."""


class FailingFiles(FileSystem):
    """The file system as it is, until its `at`-th step, counted from 1: that one calls `fail` with its name.

    `fail` raises OSError once, or `DeadProcess`: then each further step does, too. Closing is no step where the
    process is dead. `torn` bytes of a write are written before it fails.
    """

    def __init__(self, at: int = 0, fail: Callable[[str], BaseException] = DeadProcess, torn: int = 0) -> None:
        self.at = at
        self.steps: list[str] = []
        self.failed = False
        self._fail = fail
        self._torn = torn
        self._dead = False
        self._one_at_a_time = threading.Lock()
        self._open: set[int] = set()

    def die(self) -> None:
        """What the system does with the files of a process that is gone."""
        while self._open:
            os.close(self._open.pop())

    def _step(self, name: str) -> None:
        with self._one_at_a_time:
            if self._dead:
                raise DeadProcess
            self.steps.append(name)
            if len(self.steps) == self.at:
                self.failed = True
                error = self._fail(name)
                self._dead = isinstance(error, DeadProcess)
                raise error

    def create(self, path: Path) -> int:
        self._step(f"create {path.name}")
        return self._opened(super().create(path))

    def open(self, path: Path) -> int:
        self._step(f"open {path.name}")
        return self._opened(super().open(path))

    def lock(self, path: Path) -> int:
        self._step(f"lock {path.name}")
        return self._opened(super().lock(path))

    def _opened(self, descriptor: int) -> int:
        self._open.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        super().close(descriptor)
        if not self._dead:
            self._step("close")

    def write_some(self, descriptor: int, data: memoryview) -> int:
        try:
            self._step("write")
        except BaseException:
            if len(self.steps) == self.at and self._torn:
                super().write_some(descriptor, data[: self._torn])
            raise
        return super().write_some(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._step("fsync")
        super().fsync(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        self._step(f"rename {old.name} {new.name}")
        super().rename(old, new)

    def sync_folder(self, folder: Path) -> None:
        self._step("sync_folder")
        super().sync_folder(folder)

    def unlink(self, path: Path) -> None:
        self._step(f"unlink {path.name}")
        super().unlink(path)

    def make_folder(self, path: Path) -> None:
        self._step("make_folder")
        super().make_folder(path)

    def listdir(self, folder: Path) -> list[str]:
        self._step("listdir")
        return super().listdir(folder)

    def pread_into(self, descriptor: int, target: memoryview, offset: int) -> int:
        self._step("pread")
        return super().pread_into(descriptor, target, offset)

    def pread_some(self, descriptor: int, size: int, offset: int) -> bytes:
        self._step("pread")
        return super().pread_some(descriptor, size, offset)

    def map(self, descriptor: int) -> Any:
        self._step("map")
        return super().map(descriptor)


class LosingFiles(FailingFiles):
    """As `FailingFiles`, and after the end of power it takes back what no fsync made safe.

    `lost` holds, in order, each name that was given or taken since its folder was last synced and how to undo it,
    and `unsafe` the inodes of files whose bytes were not synced.
    """

    def __init__(self, at: int, spare: Path) -> None:
        super().__init__(at)
        self.lost: list[tuple[str, Callable[[], None]]] = []
        self.unsafe: set[int] = set()
        self._spare = spare
        self._count = 0

    def lose(self, folder: Path, kept: int, suffix: str = "") -> None:
        """Power is gone: of the changes of names the first `kept` have reached the disk, and of the others those
        whose name does not have the suffix: a file system may keep to no order."""
        for name, undo in reversed(self.lost[kept:]):
            if name.endswith(suffix):
                undo()
        for path in folder.iterdir():
            if path.stat().st_ino in self.unsafe:
                os.truncate(path, path.stat().st_size // 2)

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        self.unsafe.add(os.fstat(descriptor).st_ino)
        self.lost.append((path.name, lambda: path.unlink(missing_ok=True)))
        return descriptor

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self.unsafe.discard(os.fstat(descriptor).st_ino)

    def rename(self, old: Path, new: Path) -> None:
        kept = self._keep(new)
        super().rename(old, new)

        def undo() -> None:
            os.rename(new, old)
            self._give_back(kept, new)

        self.lost.append((new.name, undo))

    def unlink(self, path: Path) -> None:
        kept = self._keep(path)
        super().unlink(path)
        self.lost.append((path.name, lambda: self._give_back(kept, path)))

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.lost.clear()

    def _keep(self, path: Path) -> Path | None:
        if not path.exists():
            return None
        self._count += 1
        kept = self._spare / str(self._count)
        shutil.copy2(path, kept)
        return kept

    def _give_back(self, kept: Path | None, path: Path) -> None:
        if kept is not None:
            shutil.copy2(kept, path)
