"""Keeps texts in a temporary file, and computes the true J of many pairs of them."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.errors import SimstreamError
from simstream.evaluate.truth import jaccard, shingle_sets

MAX_BATCH_PAIRS: Final = 1 << 20
MAX_BATCH_BYTES: Final = 8 << 20
"""The most pairs, and the most bytes of texts, that are compared together."""


class TextRows(Closing):
    """Texts as rows of bytes in a temporary file, in the order of `add`. 8 bytes of memory a row.

    Writing and reading raise SimstreamError if the disk is full or cannot be read.
    """

    def __init__(self) -> None:
        with _room():
            self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, row: bytes) -> None:
        """Append one row."""
        with _room():
            self._file.write(row)
        self._ends.append(self._ends[-1] + len(row))

    def size(self, number: int) -> int:
        """Return the number of bytes of a row."""
        return self._ends[number + 1] - self._ends[number]

    def read(self, number: int) -> bytes:
        """Return the row of this number, from 0."""
        with _room():
            self._file.flush()
            return os.pread(self._file.fileno(), self.size(number), self._ends[number])

    def text(self, number: int) -> str:
        """Return the text of a row that `encoded` made."""
        return self.read(number).decode("utf-8", "surrogatepass")

    def close(self) -> None:
        """Remove the file. May be called twice."""
        with suppress(OSError):  # rows that found no room: whoever wrote them was told
            self._file.close()


def encoded(text: str | None) -> bytes:
    """Return the row of a text. Lone surrogates are kept."""
    return (text or "").encode("utf-8", "surrogatepass")


def jaccards(
    rows: TextRows, a: NDArray[np.int64], b: NDArray[np.int64], threads: int
) -> Iterator[NDArray[np.float64]]:
    """Yield J of the pairs of texts a[i] and b[i], in order, in parts. Raises SimstreamError as `TextRows` does.

    Cost: about 60 ns of a core a character of each distinct text of a part. Memory: some 50 MB.
    """
    for begin in range(0, len(a), MAX_BATCH_PAIRS):
        end = begin + MAX_BATCH_PAIRS
        yield from _of_part(rows, a[begin:end], b[begin:end], threads)


def _of_part(
    rows: TextRows, a: NDArray[np.int64], b: NDArray[np.int64], threads: int
) -> Iterator[NDArray[np.float64]]:
    """Yield J of these pairs; compare one half after the other if their texts are too long for once."""
    numbers, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    half = len(a) // 2
    if half and sum(map(rows.size, numbers.tolist())) > MAX_BATCH_BYTES:
        yield from _of_part(rows, a[:half], b[:half], threads)
        yield from _of_part(rows, a[half:], b[half:], threads)
        return
    sets = shingle_sets([rows.text(number) for number in numbers.tolist()], threads)
    yield jaccard(sets, places[: len(a)], places[len(a) :], threads)


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SimstreamError(
            f"texts cannot be kept in {tempfile.gettempdir()} ({error.strerror})",
            "free space there, or set TMPDIR to another folder",
        ) from error
