"""Counts words in bounded memory; a full table is written to a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from simstream.hash_secret import Secret, process_secret
from simstream.kernels.text.frequencies import (
    WORDS,
    WordCounts,
    add_counts,
    beginnings,
    make_counts,
    sort_ties,
    with_more_places,
)

WORD_BYTES: Final = 72
"""Bytes of a word in memory: 16 for the word itself, 16 for its places, 24 for its numbers, 16 to sort it."""
MIN_WORDS: Final = 1 << 10
_FIRST_PLACES: Final = 1 << 14
_CHUNK_WORDS: Final = 1 << 16


class WordTable:
    """Words and the number of pages that have them, in at most `memory_bytes`.

    `secret` places the words; the default is that of the process. No row depends on it.
    """

    def __init__(self, memory_bytes: int, secret: Secret | None = None) -> None:
        self._secret = secret or process_secret()
        self._room = max(MIN_WORDS, memory_bytes // WORD_BYTES)
        self._counts = self._empty()

    def __len__(self) -> int:
        return int(self._counts.filled[WORDS])

    def add(self, batch: WordCounts, first: int) -> int:
        """Add the words of a batch from number `first` on. Returns the first word that found no room."""
        total = int(batch.filled[WORDS])
        while (first := add_counts(self._counts, batch, first)) < total and self._needs_places():
            self._counts = with_more_places(self._counts)
        return first

    def rows(self) -> Iterator[tuple[bytes, int]]:
        """Return words with their pages, in the order of their bytes."""
        counts = self._counts
        keys = beginnings(counts)
        order = np.argsort(keys)
        sort_ties(counts, keys, order)
        blob = counts.blob.data
        for at in range(0, len(order), _CHUNK_WORDS):
            part = order[at : at + _CHUNK_WORDS]
            columns = (counts.starts[part].tolist(), counts.starts[part + 1].tolist(), counts.pages[part].tolist())
            for start, end, pages in zip(*columns, strict=True):
                yield bytes(blob[start:end]), pages

    def clear(self) -> None:
        """Forget all words."""
        self._counts = self._empty()

    def _needs_places(self) -> bool:
        return 2 * (len(self) + 1) > len(self._counts.places) and len(self) < self._room

    def _empty(self) -> WordCounts:
        return make_counts(self._room, 16 * self._room, _FIRST_PLACES, self._secret)
