"""Keeps texts in a temporary file, and computes the true J of pairs of them, some hundred texts at a time."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.errors import SimstreamError
from simstream.evaluate.truth import jaccard, shingle_sets

MAX_BATCH_PAIRS: Final = 1 << 16
MAX_BATCH_BYTES: Final = 8 << 20
"""The most pairs, and the most bytes of texts, that are compared together."""


class TextRows(Closing):
    """Rows of bytes in a temporary file, in the order of `append`. 8 bytes of memory a row.

    Every method raises SimstreamError if the disk is full or cannot be read.
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
    for begin, end in _parts(rows, a, b):
        numbers, places = np.unique(np.concatenate([a[begin:end], b[begin:end]]), return_inverse=True)
        texts = [rows.text(number) for number in numbers.tolist()]
        sets = shingle_sets(texts, threads)
        yield jaccard(sets, places[: end - begin], places[end - begin :], threads)


def _parts(rows: TextRows, a: NDArray[np.int64], b: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield where each part of the pairs begins and ends."""
    begin, size = 0, 0
    seen: set[int] = set()
    for pair, both in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if pair > begin and (pair - begin == MAX_BATCH_PAIRS or size > MAX_BATCH_BYTES):
            yield begin, pair
            begin, size = pair, 0
            seen.clear()
        for number in both:
            if number not in seen:
                seen.add(number)
                size += rows.size(number)
    if len(a) > begin:
        yield begin, len(a)


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SimstreamError(
            f"texts cannot be kept in {tempfile.gettempdir()} ({error.strerror})",
            "free space there, or set TMPDIR to another folder",
        ) from error
