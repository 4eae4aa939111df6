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
"""Increase it whenever the same inputs would give other numbers."""
T = TypeVar("T")


class ResultStore:
    """Keeps values of msgspec types by their dependencies. A damaged file counts as missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0
        """The number of values that were put: 0 if a run only repeats another."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the folder {folder} cannot be made ({error.strerror})", "name another folder with -o"
            ) from error

    def get(self, kind: str, depends: object, of: type[T]) -> T | None:
        """Return the value that was put for these dependencies, or None."""
        try:
            return msgspec.json.decode(self._path(kind, depends).read_bytes(), type=of)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def put(self, kind: str, depends: object, value: T) -> T:
        """Keep a value, and return it."""
        self.made += 1
        write_atomically(self._path(kind, depends), msgspec.json.encode(value))
        return value

    def _path(self, kind: str, depends: object) -> Path:
        key = blake2b(msgspec.json.encode([FORMAT, kind, depends]), digest_size=12).hexdigest()
        return self.folder / f"{kind}-{key}.json"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises UsageError if it cannot be written."""
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
