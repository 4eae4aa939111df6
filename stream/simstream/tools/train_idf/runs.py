"""Writes sorted files of words and their counts, and merges them exactly."""

from __future__ import annotations

import contextlib
import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec

from simstream.errors import StateError
from simstream.log.local.lock import cannot_write

Row = tuple[bytes, int]
"""A word in UTF-8, and the number of pages that have it."""
_BUFFER_BYTES = 1 << 20
_BATCH_LINES = 1 << 13


class CountRun(msgspec.Struct, frozen=True):
    """One run: the name of its file, the number of its words, and the digest of the file."""

    name: str
    words: int
    digest: str


def write_run(path: Path, rows: Iterable[Row]) -> CountRun:
    """Write sorted, distinct rows to a new file, and sync it to the disk. Raises DiskFull, LogError."""
    digest, words, lines = blake2b(digest_size=16), 0, list[bytes]()
    try:
        with path.open("wb") as file:
            for word, pages in rows:
                lines.append(b"%s %d\n" % (word, pages))
                if len(lines) == _BATCH_LINES:
                    words += _append(file, digest, lines)
            words += _append(file, digest, lines)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise cannot_write(path, error) from error
    return CountRun(path.name, words, digest.hexdigest())


def _append(file: BinaryIO, digest: blake2b, lines: list[bytes]) -> int:
    data, count = b"".join(lines), len(lines)
    lines.clear()
    file.write(data)
    digest.update(data)
    return count


def check_run(path: Path, run: CountRun) -> None:
    """Raise StateError if the file is not the one that was written."""
    digest = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while data := file.read(_BUFFER_BYTES):
                digest.update(data)
    except OSError as error:
        what = f"{path} cannot be read ({error.strerror})"
        raise StateError(what, f"delete {path.parent} and begin again") from error
    if digest.hexdigest() != run.digest:
        raise StateError(f"{path} is damaged", f"delete {path.parent} and begin again")


def merged(paths: Sequence[Path]) -> Iterator[Row]:
    """Yield the words of all runs in order, with the sum of their pages. Memory: a buffer a run."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("rb", buffering=_BUFFER_BYTES >> 2)) for path in paths]
        current, total = b"", 0
        for word, pages in heapq.merge(*map(_rows, files)):
            if word == current:
                total += pages
                continue
            if total:
                yield current, total
            current, total = word, pages
        if total:
            yield current, total


def _rows(file: BinaryIO) -> Iterator[Row]:
    for line in file:
        word, _, pages = line.rpartition(b" ")
        yield word, int(pages)
