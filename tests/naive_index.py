"""The index as slow and plain as it can be: a dictionary, and every query against every live entry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simstream.model import U64, MatchLimits

Answer = list[tuple[int, int, int]]
"""(entry, distance, agreement), by entry."""


Key = tuple[int, tuple[int, ...], bool]
"""(fingerprint, sketch, whether short)."""
Flags = NDArray[np.bool_]


class NaiveIndex:
    """Live entries by their number. It gives no numbers: it is told the fast index's, and checks them."""

    def __init__(
        self,
        distance: int,
        agreement: int,
        short: MatchLimits | None = None,
        further_draws: int = 0,
        further_fingerprints: int = 0,
    ) -> None:
        self.distance, self.agreement, self.short, self.further_draws = distance, agreement, short, further_draws
        self.further_fingerprints = further_fingerprints
        self.live: dict[int, Key] = {}
        self._number: dict[Key, int] = {}

    def intern(
        self, fingerprints: U64, sketches: U64, numbers: NDArray[np.int64], short: Flags | None = None
    ) -> None:
        """Take keys under the given numbers: one number a live key, one live key a number."""
        keys = self._keys(fingerprints, sketches, short)
        for key, e in zip(keys, numbers.tolist(), strict=True):
            if key in self._number:
                assert self._number[key] == e, "a live entry's number stays"
            else:
                assert e not in self.live, "a number is given to one live entry at a time"
                self._number[key], self.live[e] = e, key

    def add(self, entries: list[int], fingerprints: U64, sketches: U64, short: Flags | None = None) -> None:
        """Take keys under numbers that the caller gives; equal keys stay apart."""
        for key, e in zip(self._keys(fingerprints, sketches, short), entries, strict=True):
            assert e not in self.live, "a number is given to one live entry at a time"
            self.live[e] = key

    def release(self, entries: list[int]) -> None:
        for e in entries:
            self._number.pop(self.live.pop(e), None)

    def query(self, fingerprints: U64, sketches: U64, short: Flags | None = None) -> list[Answer]:
        return [self._one(key) for key in self._keys(fingerprints, sketches, short)]

    def _keys(self, fingerprints: U64, sketches: U64, short: Flags | None) -> list[Key]:
        flags = [False] * len(fingerprints) if short is None or self.short is None else short.tolist()
        rows = zip(fingerprints.tolist(), sketches.tolist(), flags, strict=True)
        return [(fingerprint, tuple(sketch), flag) for fingerprint, sketch, flag in rows]

    def _one(self, key: Key) -> Answer:
        fingerprint, sketch, short = key
        answer = []
        for entry, (other, others, other_short) in sorted(self.live.items()):
            bits_by_word = [(a ^ b).bit_count() for a, b in zip(sketch, others, strict=True)]
            distance = min([(fingerprint ^ other).bit_count(), *bits_by_word[: self.further_draws]])
            agreement = sum(64 - bits for bits in bits_by_word[self.further_fingerprints :])
            most, least = self.distance, self.agreement
            if self.short is not None and (short or other_short):
                most, least = self.short
            if distance <= most and (len(sketch) == self.further_fingerprints or agreement >= least):
                answer.append((entry, distance, agreement))
        return answer
