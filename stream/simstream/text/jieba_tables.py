"""Reads the tables of jieba 0.42.1, which come with this package in a compact form.

`python -m deploy.jieba_tables` makes `tables/jieba/*.zst` from jieba itself: each file's columns one after the
other, compressed. Nothing is lost, so a recipe's id goes by the bytes of jieba's own files. jieba's licence is in
`tables/jieba/LICENSE`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simstream.errors import InputMissing
from simstream.files.zstandard import zstd

FOLDER: Final = Path(__file__).parent / "tables" / "jieba"
FILES: Final = {
    "dict.txt": 3,
    "finalseg/prob_start.py": 1,
    "finalseg/prob_trans.py": 1,
    "finalseg/prob_emit.py": 1,
    "analyse/idf.txt": 2,
}
"""jieba's files by their paths in its package, with their number of columns."""
BETWEEN: Final = "\0"
"""The sign between two columns; a column has a value a line."""


def path(name: str) -> Path:
    """Return the path of one of FILES in its compact form."""
    return FOLDER / f"{Path(name).stem}.zst"


def packed(name: str) -> bytes:
    """Return the compact form of one of FILES. Raises InputMissing."""
    try:
        return path(name).read_bytes()
    except OSError as error:
        raise InputMissing(
            f"{path(name)} cannot be read ({error.strerror})", "install simstream again: its tables are incomplete"
        ) from error


def columns(name: str) -> list[list[str]]:
    """Return the columns of one of FILES. Cost: about 50 ms for the larger two. Raises InputMissing."""
    text = _unpacked(name).removesuffix("\n")
    return [column.split("\n") for column in text.split(BETWEEN)]


def content(name: str) -> bytes:
    """Return one of FILES byte for byte. Cost: about 0.2 s for the larger two. Raises InputMissing."""
    lines = "\n".join(map(" ".join, zip(*columns(name), strict=True)))
    return (lines + "\n" * _unpacked(name).endswith("\n")).encode()


def _unpacked(name: str) -> str:
    return zstd.decompress(packed(name)).decode()
