"""Finds clusters of near fingerprints: connected components of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from simstream.tools.find.pairs import FingerprintPairs


class UnionFind:
    """A union-find over the places 0 to n - 1 that takes many pairs at once; each root is its tree's least place.

    Memory: 8 bytes a place. Cost: some 50 ns a pair.
    """

    def __init__(self, places: int) -> None:
        self._parent = np.arange(places, dtype=np.int64)

    def tie(self, pairs: FingerprintPairs) -> None:
        """Make one tree of the two trees of each pair."""
        left, right = self._roots(pairs.left), self._roots(pairs.right)
        while (apart := left != right).any():
            low, high = np.minimum(left[apart], right[apart]), np.maximum(left[apart], right[apart])
            # A root hangs below the least of its choices, so that a star takes two rounds.
            np.minimum.at(self._parent, high, low)
            left, right = self._roots(low), self._roots(high)

    def roots(self) -> NDArray[np.int64]:
        """Return the root (n,) of each place's tree: its least place."""
        return self._roots(np.arange(len(self._parent)))

    def trees(self) -> Iterator[NDArray[np.int64]]:
        """Yield the places (m,) of each tree of two or more, ascending; trees by their least place."""
        roots = self.roots()
        order = np.argsort(roots, kind="stable")
        begins = np.flatnonzero(np.diff(roots[order], prepend=-1))
        ends = np.append(begins[1:], len(order))
        large = ends - begins > 1
        for begin, end in zip(begins[large].tolist(), ends[large].tolist(), strict=True):
            yield order[begin:end]

    def _roots(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        roots = self._parent[places]
        while (further := self._parent[roots] != roots).any():
            roots[further] = self._parent[self._parent[roots[further]]]
        self._parent[places] = roots
        return roots


def clusters(places: int, pairs: Iterable[FingerprintPairs]) -> Iterator[NDArray[np.int64]]:
    """Yield the connected components of `places` places, without single places; see `UnionFind.trees`."""
    forest = UnionFind(places)
    for part in pairs:
        forest.tie(part)
    yield from forest.trees()
