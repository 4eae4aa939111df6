"""Keeps measurements in files, so that an interrupted run goes on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from simstream.errors import UsageError

FORMAT: Final = 1
"""Increase it whenever the same inputs would give other numbers."""
Found = TypeVar("Found")
Made = TypeVar("Made")


class ResultStore:
    """Keeps values of msgspec types by their dependencies. A damaged file counts as missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the folder {folder} cannot be made ({error.strerror})", "name another folder with -o"
            ) from error

    def kept(self, kind: str, depends: object, of: type[Found], make: Callable[[], Made]) -> Found | Made:
        """Return the value that is kept for these dependencies. Without one, make it, and keep it unless it is
        None."""
        key = blake2b(msgspec.json.encode([FORMAT, kind, depends]), digest_size=12).hexdigest()
        path = self.folder / f"{kind}-{key}.json"
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(path.read_bytes(), type=of)
        value = make()
        if value is not None:
            write_atomically(path, msgspec.json.encode(value))
        return value


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
