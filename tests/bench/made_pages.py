"""Pages that were never text: fingerprints and sketches in columns, as frames bring them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simstream.judge.policy import Policy
from simstream.model import U64, FingerprintColumns
from tests.columns import page_columns

BATCH = 2000


def policy(
    link: str = "any", window_ms: int | None = None, fingerprints: int = 1, sketch_lookups: int = 1
) -> Policy:
    """The default recipe's numbers."""
    return Policy("0badcafe", 256, 8, 205, window_ms, link, 32, 8, 216, fingerprints, sketch_lookups)


class PageMaker:
    """Batches of pages; see the module. `near` and `copies` are shares of them."""

    def __init__(self, near: float, copies: float, seed: int = 1) -> None:
        self._near, self._copies = near, copies
        self._rng = np.random.default_rng(seed)
        self._fingerprints = np.empty(0, np.uint64)
        self._sketches = np.empty((0, 4), np.uint64)
        self.count = 0

    def batch(self, n: int = BATCH) -> FingerprintColumns:
        """The next n pages; one in a hundred is remembered, for others to be like."""
        rng = self._rng
        fingerprints = rng.integers(0, 2**64, n, np.uint64)
        sketches = rng.integers(0, 2**64, (n, 4), np.uint64)
        if len(self._fingerprints):
            kind = rng.random(n)
            like = np.flatnonzero(kind < self._near + self._copies)
            whom = rng.integers(0, len(self._fingerprints), len(like))
            fingerprints[like], sketches[like] = self._fingerprints[whom], self._sketches[whom]
            for i in like[kind[like] < self._near].tolist():
                for bit in rng.integers(0, 64, rng.integers(1, 6)).tolist():
                    fingerprints[i] ^= np.uint64(1 << bit)
                for bit in rng.integers(0, 256, rng.integers(1, 33)).tolist():
                    sketches[i, bit // 64] ^= np.uint64(1 << (bit % 64))
        room = max(1, n // 100)
        self._fingerprints = np.concatenate((self._fingerprints, fingerprints[:room]))
        self._sketches = np.concatenate((self._sketches, sketches[:room]))
        columns = columns_of(self.count, fingerprints, sketches)
        self.count += n
        return columns


def identities_of(numbers: U64) -> U64:
    """Return the identities (n, 2) of the pages with these numbers."""
    first = numbers * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(0x5555)
    return np.column_stack([first, numbers * np.uint64(0xC2B2AE3D27D4EB4F)])


def columns_of(
    first: int, fingerprints: U64, sketches: U64, numbers: NDArray[np.int64] | None = None
) -> FingerprintColumns:
    """Return readable pages with successive numbers as names, or with the given ones."""
    n = len(fingerprints)
    numbers = np.arange(first, first + n) if numbers is None else numbers
    ids = [f"https://site-{number % 9973}.example/{number:012}/a-page-of-usual-length.html" for number in numbers]
    return page_columns(
        [one.encode() for one in ids],
        offset=np.arange(first, first + n),
        time=np.arange(first, first + n) // 10,
        identity=identities_of(numbers.astype(np.uint64)),
        fingerprint=fingerprints,
        sketch=sketches,
        words=200,
    )


def distinct(pages: int) -> Iterator[FingerprintColumns]:
    """No two alike."""
    made = PageMaker(0, 0, seed=5)
    while made.count < pages:
        yield made.batch()


def copies(pages: int, fingerprint: U64, sketch: U64) -> Iterator[FingerprintColumns]:
    """Return one page under several ids."""
    for first in range(0, pages, BATCH):
        yield columns_of(first, np.repeat(fingerprint, BATCH), np.repeat(sketch, BATCH, axis=0))


def again(pages: int, times: int, flips: int) -> Iterator[FingerprintColumns]:
    """Yield the same pages again and again, each time in another order, and `flips` bits from the originals."""
    rng = np.random.default_rng(4)
    fingerprints, sketches = rng.integers(0, 2**64, pages, np.uint64), rng.integers(0, 2**64, (pages, 4), np.uint64)
    for turn in range(times):
        order = rng.permutation(pages)
        for first in range(0, pages, BATCH):
            chosen = order[first : first + BATCH]
            edited = fingerprints[chosen]
            for _ in range(flips):
                edited = edited ^ (np.uint64(1) << rng.integers(0, 64, len(chosen), np.uint64))
            yield columns_of(turn * pages + first, edited, sketches[chosen], chosen)


def template(pages: int) -> Iterator[FingerprintColumns]:
    """Alike, but not identical: up to 4 bits from one fingerprint, a tenth of the sketch's bits at random."""
    rng = np.random.default_rng(6)
    base, sketch = rng.integers(0, 2**64, 1, np.uint64), rng.integers(0, 2**64, (1, 4), np.uint64)
    for first in range(0, pages, BATCH):
        n = min(BATCH, pages - first)
        fingerprints, sketches = np.repeat(base, n), np.repeat(sketch, n, axis=0)
        for _ in range(4):
            fingerprints = fingerprints ^ (np.uint64(1) << rng.integers(0, 64, n, np.uint64))
        noise = rng.random((n, 256)) < 0.05
        sketches = sketches ^ np.packbits(noise, axis=1).view(np.uint64)
        yield columns_of(first, fingerprints, sketches)


def alike_by_one(pages: int, draw: int) -> Iterator[FingerprintColumns]:
    """Pages of two fingerprints that are alike by one of them, 0 or 1; the other one is random."""
    rng = np.random.default_rng(7)
    for columns in template(pages):
        other = rng.integers(0, 2**64, len(columns), np.uint64)
        draws = (columns.fingerprint, other) if draw == 0 else (other, columns.fingerprint)
        yield replace(columns, fingerprint=draws[0], sketch=np.column_stack([draws[1], columns.sketch]))
