"""Learns small regression trees by gradient boosting with Newton's steps (Friedman 2001; Chen and Guestrin 2016).

Features are whole numbers, cut at quantiles. Each tree corrects the sum of those before it for logistic loss. Its
leaves are thousandths as whole numbers, so a sum of leaves is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.article import TREE_DEPTH

_BINS: Final = 64
_NEVER: Final = (1 << 15) - 1
"""The limit of a node that sends all rows to the first of its two sides."""
_UNIT: Final = 1000
"""The parts of 1 that leaves count."""
Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BoostingOptions:
    """How many trees there are, and what keeps them from learning the rows by heart."""

    rounds: int = 60
    rate: float = 0.12
    """The share of each correction that is made."""
    feature_share: float = 0.6
    """The share of the features that a tree may use; each tree draws its own."""
    ridge: float = 5.0
    """What is added to the curvature of each leaf."""
    min_rows: int = 20
    """The fewest rows on either side of a node."""
    seed: int = 1


class BinnedRows(NamedTuple):
    """Rows with bins for features, and the loss at each: bin b of feature f goes up to `cuts[f][b]`."""

    bins: Integers  # (n, features)
    cuts: list[NDArray[np.int16]]
    slope: Numbers  # (n,) first derivative of the loss
    curve: Numbers  # (n,) second derivative

    def sums(self, key: Integers, keys: int) -> list[NDArray[Any]]:
        """The sums of slope and curve, and the number of rows, by key."""
        return [np.bincount(key, each, keys) for each in (self.slope, self.curve, np.ones_like(self.slope))]


def learn(
    features: NDArray[np.int16], truth: NDArray[np.bool_], weights: Numbers, options: BoostingOptions
) -> NDArray[np.int16]:
    """Return trees (rounds, TREE_COLUMNS) whose sum is above 0 for rows that are true.

    `features` is (n, features), `truth` and `weights` are (n,). Cost: about a second for 10,000 rows.
    """
    at = np.linspace(0, 1, _BINS + 1)[1:-1]
    cuts = [np.unique(np.quantile(column, at, method="lower")) for column in features.T]
    bins = np.stack([np.searchsorted(cut, column) for cut, column in zip(cuts, features.T, strict=True)], axis=1)
    random, weights, total = np.random.default_rng(options.seed), weights / weights.mean(), np.zeros(len(truth))
    trees = []
    for _ in range(options.rounds):
        chance = 1 / (1 + np.exp(-total))
        rows = BinnedRows(bins, cuts, weights * (chance - truth), weights * chance * (1 - chance))
        drawn = random.permutation(len(cuts))[: max(1, int(len(cuts) * options.feature_share))]
        nodes, leaf = _grow(rows, np.sort(drawn), options)
        slope, curve, _ = rows.sums(leaf, 1 << TREE_DEPTH)
        leaves = np.rint(-options.rate * _UNIT * slope / (curve + options.ridge)).astype(np.int64)
        total += leaves[leaf] / _UNIT
        trees.append([*nodes, *leaves.tolist()])
    return np.array(trees, np.int16)


def _grow(rows: BinnedRows, drawn: Integers, options: BoostingOptions) -> tuple[list[int], Integers]:
    """Return a feature and a limit for each node, and the leaf of each row."""
    node, nodes = np.zeros(len(rows.bins), np.int64), []
    for depth in range(TREE_DEPTH):
        feature, cut = _splits(rows, node, 1 << depth, drawn, options)
        for f, c in zip(feature.tolist(), cut.tolist(), strict=True):
            nodes += [f, int(rows.cuts[f][c]) if c < _BINS else _NEVER]
        node = 2 * node + (rows.bins[np.arange(len(node)), feature[node]] > cut[node])
    return nodes, node


def _splits(
    rows: BinnedRows, node: Integers, nodes: int, drawn: Integers, options: BoostingOptions
) -> tuple[Integers, Integers]:
    """Return the feature and the cut that lessen the loss most at each node; cut _BINS if none does."""
    best, feature, cut = np.zeros(nodes), np.zeros(nodes, np.int64), np.full(nodes, _BINS)
    for f in drawn:
        sums = rows.sums(node * _BINS + rows.bins[:, f], nodes * _BINS)
        slope, curve, count = (each.reshape(nodes, _BINS).cumsum(axis=1) for each in sums)
        other = [each[:, -1:] - each for each in (slope, curve, count)]
        gain = slope**2 / (curve + options.ridge) + other[0] ** 2 / (other[1] + options.ridge)
        gain -= slope[:, -1:] ** 2 / (curve[:, -1:] + options.ridge)
        gain[(count < options.min_rows) | (other[2] < options.min_rows)] = 0
        place = gain.argmax(axis=1)
        most = gain[np.arange(nodes), place]
        better = most > best + 1e-12
        best[better], feature[better], cut[better] = most[better], f, place[better]
    return feature, cut
