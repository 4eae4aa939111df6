"""Keeps measurements in files, so that an interrupted run goes on."""

from __future__ import annotations

import contextlib
import os
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from simstream.errors import UsageError

FORMAT: Final = 1
"""Raised whenever the same inputs would give other numbers."""
T = TypeVar("T")


class ResultStore:
    """Values of msgspec types by what they depend on. A damaged file is as good as none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0
        """How many values were put: nothing, where a run only repeats another."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{folder} cannot be made ({error.strerror})", "name another folder with -o"
            ) from error

    def get(self, kind: str, depends: object, of: type[T]) -> T | None:
        """The value that was put for these dependencies."""
        try:
            return msgspec.json.decode(self._path(kind, depends).read_bytes(), type=of)
        except (OSError, msgspec.MsgspecError):
            return None

    def put(self, kind: str, depends: object, value: T) -> T:
        """Keep a value; returns it."""
        self.made += 1
        write_atomically(self._path(kind, depends), msgspec.json.encode(value))
        return value

    def _path(self, kind: str, depends: object) -> Path:
        key = blake2b(msgspec.json.encode([FORMAT, kind, depends]), digest_size=12).hexdigest()
        return self.folder / f"{kind}-{key}.json"


def write_atomically(path: Path, content: bytes) -> None:
    """Put a file in place, whole or not at all. Raises UsageError where it cannot be written."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        try:
            beside.write_bytes(content)
            os.replace(beside, path)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror})", "name another folder with -o") from error
