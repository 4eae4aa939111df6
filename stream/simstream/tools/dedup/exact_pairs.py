"""Computes the true J of each near duplicate and the page that it names, from texts in a temporary file.

A page may name any earlier page, so every text is written to the file when it passes. Only texts of pairs are read
again, some hundred pairs at a time. So inputs are read once, also from a pipe, and HTML is extracted once.
Cost: as much room in the folder for temporary files as the texts take in UTF-8; about 60 ns of a core a character
of both texts of a pair; 40 bytes of memory a page and a pair, and some 50 MB for pairs that are compared together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simstream.closing import Closing
from simstream.model import COMPARED_VERDICTS, Page, PageKind, Verdict
from simstream.tools.dedup.groups import page_numbers
from simstream.tools.dedup.text_rows import TextRows, encoded, jaccards
from simstream.wire.identity_hash import identity_of


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
            self._texts.add(encoded(page.text if page.kind == PageKind.READABLE else None))

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
        found = jaccards(self._texts, np.array(self._own, np.int64), self._versions(), self._threads)
        each = (alike for part in found for alike in part.tolist())
        yield from ((self._lines.read(pair), alike) for pair, alike in enumerate(each))

    def close(self) -> None:
        """Remove the temporary files. May be called twice."""
        self._texts.close()
        self._lines.close()

    def _versions(self) -> NDArray[np.int64]:
        """Return the ordinals (p,) of the named pages: the last readable version before the near duplicate."""
        both = np.frombuffer(bytes(self._identities + self._named), np.uint64).reshape(-1, 2)
        number = page_numbers(both)
        ordinals, own = np.array(self._ordinals, np.int64), np.array(self._own, np.int64)
        by_page = np.lexsort((ordinals, number[: len(ordinals)]))
        # One number holds page and ordinal; each is less than 2^31.
        keys = (number[by_page] << 32) | ordinals[by_page]
        wanted = (number[len(ordinals) :] << 32) | own
        return ordinals[by_page[np.searchsorted(keys, wanted) - 1]]
