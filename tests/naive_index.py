"""The index as slow and plain as it can be: a dictionary, and every query against every live entry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.model import U64

Answer = list[tuple[int, int, int]]
"""(entry, distance, agreement), by entry."""


class NaiveIndex:
    """Live entries by their number. It gives no numbers: it is told the fast index's, and checks them."""

    def __init__(self, distance: int, agreement: int) -> None:
        self.distance, self.agreement = distance, agreement
        self.live: dict[int, tuple[int, ...]] = {}
        self._number: dict[tuple[int, ...], int] = {}

    def intern(self, fingerprints: U64, sketches: U64, numbers: NDArray[np.int64]) -> None:
        """Take keys under the given numbers: one number a live key, one live key a number."""
        for f, s, e in zip(fingerprints.tolist(), sketches.tolist(), numbers.tolist(), strict=True):
            key = (f, *s)
            if key in self._number:
                assert self._number[key] == e, "a live entry's number stays"
            else:
                assert e not in self.live, "a number is given to one live entry at a time"
                self._number[key], self.live[e] = e, key

    def release(self, entries: list[int]) -> None:
        for e in entries:
            del self._number[self.live.pop(e)]

    def query(self, fingerprints: U64, sketches: U64) -> list[Answer]:
        return [self._one(f, s) for f, s in zip(fingerprints.tolist(), sketches.tolist(), strict=True)]

    def _one(self, fingerprint: int, sketch: list[int]) -> Answer:
        answer = []
        for entry, (other, *others) in sorted(self.live.items()):
            distance = (fingerprint ^ other).bit_count()
            agreement = sum(64 - (a ^ b).bit_count() for a, b in zip(sketch, others, strict=True))
            if distance <= self.distance and (not sketch or agreement >= self.agreement):
                answer.append((entry, distance, agreement))
        return answer
