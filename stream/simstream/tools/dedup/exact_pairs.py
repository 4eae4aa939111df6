"""Computes the true J of each near duplicate and the page that it names, from texts in a temporary file.

A page may name any earlier page, so every text is written to the file when it passes. Only texts of pairs are read
again, some hundred pairs at a time. So inputs are read once, also from a pipe, and HTML is extracted once.
Cost: as much room in the folder for temporary files as the texts take in UTF-8; about 60 ns of a core a character
of both texts of a pair; 40 bytes of memory a page and a pair, and some 50 MB for pairs that are compared together.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.errors import SimstreamError
from simstream.evaluate.truth import jaccard, shingle_sets
from simstream.model import COMPARED_VERDICTS, Page, PageKind, Verdict
from simstream.wire.identity_hash import identity_of

MAX_BATCH_PAIRS: Final = 1024
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

    def close(self) -> None:
        """Remove the file. May be called twice."""
        self._file.close()


class ExactPairs(Closing):
    """Computes at the end the exact J of each near duplicate and the page that it names.

    Takes pages and verdicts in the judge's order, from its first page on."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._texts = TextRows()
        self._lines = TextRows()
        self._identities = bytearray()
        self._ordinals = array("q")
        """The identities of readable pages, in order."""
        self._named = bytearray()
        self._own = array("q")
        """Of each pair, the identity of the named page, and the ordinal of the near duplicate."""

    def note_pages(self, pages: Sequence[Page]) -> None:
        """Add the next pages. Unreadable pages have no text."""
        for page in pages:
            text = page.text if page.kind == PageKind.READABLE else None
            self._texts.add((text or "").encode("utf-8", "surrogatepass"))

    def take(self, verdict: Verdict, line: bytes | None) -> None:
        """Add the next verdict. `lines` yields `line` with the J of this pair."""
        if line is not None and verdict.near_duplicate_of is not None:
            self._named += identity_of(verdict.near_duplicate_of.encode())
            self._own.append(verdict.ordinal)
            self._lines.add(line)
        if verdict.verdict in COMPARED_VERDICTS:
            self._identities += identity_of(verdict.id.encode())
            self._ordinals.append(verdict.ordinal)

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return len(self._own)

    def lines(self) -> Iterator[tuple[bytes, float]]:
        """Yield each line in order, with the J of its pair. Raises SimstreamError as `note_pages` does."""
        own, named = np.array(self._own, np.int64), self._versions()
        for begin, end in self._parts(own, named):
            numbers, places = np.unique(np.concatenate([own[begin:end], named[begin:end]]), return_inverse=True)
            texts = [self._texts.read(number).decode("utf-8", "surrogatepass") for number in numbers.tolist()]
            sets = shingle_sets(texts, self._threads)
            found = jaccard(sets, places[: end - begin], places[end - begin :], self._threads)
            yield from ((self._lines.read(begin + n), alike) for n, alike in enumerate(found.tolist()))

    def close(self) -> None:
        """Remove the temporary files. May be called twice."""
        self._texts.close()
        self._lines.close()

    def _versions(self) -> NDArray[np.int64]:
        """Return the ordinals (p,) of the named pages: the last readable version before the near duplicate."""
        both = np.frombuffer(bytes(self._identities + self._named), np.uint64).reshape(-1, 2)
        order = np.lexsort((both[:, 1], both[:, 0]))
        number = np.empty(len(both), np.int64)
        number[order] = np.cumsum((np.diff(both[order], axis=0, prepend=both[order[:1]]) != 0).any(axis=1))
        ordinals, own = np.array(self._ordinals, np.int64), np.array(self._own, np.int64)
        by_page = np.lexsort((ordinals, number[: len(ordinals)]))
        # One number holds page and ordinal; each is less than 2^31.
        keys = (number[by_page] << 32) | ordinals[by_page]
        wanted = (number[len(ordinals) :] << 32) | own
        return ordinals[by_page[np.searchsorted(keys, wanted) - 1]]

    def _parts(self, own: NDArray[np.int64], named: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Yield where each part of the pairs begins and ends."""
        begin, size = 0, 0
        for pair, (a, b) in enumerate(zip(own.tolist(), named.tolist(), strict=True)):
            if pair > begin and (pair - begin == MAX_BATCH_PAIRS or size > MAX_BATCH_BYTES):
                yield begin, pair
                begin, size = pair, 0
            size += self._texts.size(a) + self._texts.size(b)
        if len(own) > begin:
            yield begin, len(own)


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SimstreamError(
            f"texts cannot be kept in {tempfile.gettempdir()} ({error.strerror})",
            "free space there, or set TMPDIR to another folder",
        ) from error
