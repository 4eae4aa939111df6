"""How every file of the state begins: what it is, its format, and which version of simstream wrote it.

64 bytes: magic 8, format u32, then the writer's version in ASCII, filled up with zeros. All formats to come begin
so, and have a checksum that covers these bytes, so that a version that cannot read a file can say which one can.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from stream.errors import StateFormat
from stream.version import __version__

SEALED: Final = b"SIMSEAL\n"
MANIFEST: Final = b"SIMMANI\n"
FORMAT: Final = 1
SIZE: Final = 64
_LAYOUT: Final = struct.Struct("<8sI52s")


def encode(magic: bytes, version: int = FORMAT, writer: str = __version__) -> bytes:
    """The first 64 bytes of a file."""
    return _LAYOUT.pack(magic, version, writer.encode("ascii", "replace")[:52])


def is_of(data: bytes, magic: bytes) -> bool:
    """Whether a file that begins with `data` is of that sort."""
    return len(data) >= SIZE and data[: len(magic)] == magic


def check_format(path: Path, data: bytes) -> None:
    """Raise StateFormat where this version does not read the file; to be called once the checksum agreed."""
    _, version, writer = _LAYOUT.unpack(data[:SIZE])
    if version == FORMAT:
        return
    name = "simstream " + (writer.rstrip(b"\0").decode("ascii", "replace") or "of another version")
    raise StateFormat(
        f"{path} was written by {name} in format {version}; simstream {__version__} reads format {FORMAT}",
        f"start {name} or one that reads its format, or delete the folder: a service judges its log again, "
        "a Deduper begins empty",
    )
