"""Writes and checks the header of a state file: its kind, its format, and the version that wrote it.

The header has 64 bytes: magic 8, format u32, then the writer's version in ASCII, filled up with zeros. All future
formats begin like this, with a checksum over these bytes. So a version that cannot read a file can say which
version can.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from simstream.errors import StateFormat
from simstream.files.failures import START_OVER
from simstream.version import __version__

SEALED: Final = b"SIMSEAL\n"
MANIFEST: Final = b"SIMMANI\n"
FORMAT: Final = 2
"""The current format. Identities of pages are MurmurHash3 in format 1, BLAKE2b in format 2."""
MIN_FORMAT: Final = 1
"""The earliest format that can be upgraded (`judge/upgrade`)."""
SIZE_BYTES: Final = 64
_LAYOUT: Final = struct.Struct("<8sI52s")


def encode(magic: bytes, version: int = FORMAT, writer: str = __version__) -> bytes:
    """Return the first 64 bytes of a file."""
    return _LAYOUT.pack(magic, version, writer.encode("ascii", "replace")[:52])


def is_of(data: bytes, magic: bytes) -> bool:
    """Whether a file that begins with `data` has this magic."""
    return len(data) >= SIZE_BYTES and data[: len(magic)] == magic


def format_of(data: bytes) -> int:
    """Return the format of a file that begins with `data`, at least 64 bytes."""
    _, number, _ = _LAYOUT.unpack(data[:SIZE_BYTES])
    return int(number)


def check_format(path: Path, data: bytes, reads: int) -> None:
    """Raise StateFormat unless the file is of the format `reads`. Call it once the checksum has agreed."""
    _, number, writer = _LAYOUT.unpack(data[:SIZE_BYTES])
    if number == reads:
        return
    name = "simstream " + (writer.rstrip(b"\0").decode("ascii", "replace") or "of another version")
    if MIN_FORMAT <= number < FORMAT:
        todo = f"upgrade it into a new folder with `simstream state upgrade {path.parent} NEW`"
    else:
        todo = f"start {name}, or a version that reads format {number}"
    raise StateFormat(
        f"{path} was written by {name} in format {number}; this version reads format {FORMAT}",
        f"{todo}; or {START_OVER}",
    )
