"""Makes clusters from matches: a forest in each partition, and then all forests together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import numpy as np

from simstream.tools.find.clusters import UnionFind
from simstream.tools.find.pairs import FingerprintPairs

TIES: Final = "cluster long, number long"
Tie = tuple[int, int]
"""Two pages of one cluster, the older first."""


def forest(ties: Iterable[Tie]) -> Iterator[Tie]:
    """Reduce ties to the fewest that tie the same pages: the least page of each tree to each other page.

    Memory: about 60 bytes a tie. The last step has at most one tie for each page in a cluster.
    """
    flat = np.fromiter(chain.from_iterable(ties), np.int64).reshape(-1, 2)
    numbers, places = np.unique(flat, return_inverse=True)
    places = places.reshape(flat.shape)
    trees = UnionFind(len(numbers))
    trees.tie(FingerprintPairs(places[:, 0], places[:, 1]))
    roots = trees.roots()
    below = np.flatnonzero(roots != np.arange(len(roots)))
    return zip(numbers[roots[below]].tolist(), numbers[below].tolist(), strict=True)
