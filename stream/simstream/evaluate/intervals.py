"""Computes shares and means with 95 % intervals.

Shares: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927. Means over
seeds: Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final

import msgspec

Z: Final = 1.959964
_T: Final = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
"""The .975 quantile of Student's t for 1 to 30 degrees of freedom."""


class ShareInterval(msgspec.Struct, frozen=True):
    """A share, `hits` of `of`: the mean over the seeds; null without anything to count.

    `low` and `high` bound it for other pages and pairs of the same kind (Wilson). `seeds_low` and `seeds_high`
    bound the mean over all seeds (Student's t; null for one seed). `by_seed` has each seed's share. If only a
    sample was examined, `hits` is scaled up, and `looked_at` is the size of the sample.
    """

    value: float | None
    low: float | None
    high: float | None
    hits: float
    of: float
    looked_at: float
    seeds_low: float | None
    seeds_high: float | None
    by_seed: list[float]


class MeanInterval(msgspec.Struct, frozen=True):
    """A mean over the seeds, with Student's interval. Null for one seed, or without anything to measure."""

    value: float | None
    low: float | None
    high: float | None
    by_seed: list[float]


def wilson(hits: float, of: float) -> tuple[float, float]:
    """Return the 95 % interval of a share; (0, 1) if `of` is 0."""
    if of <= 0:
        return 0.0, 1.0
    share = hits / of
    middle = (share + Z * Z / (2 * of)) / (1 + Z * Z / of)
    half = Z / (1 + Z * Z / of) * sqrt(share * (1 - share) / of + Z * Z / (4 * of * of))
    return min(max(0.0, middle - half), share), max(min(1.0, middle + half), share)


def student(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean; None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    spread = sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)
    half = (_T[n - 2] if n - 2 < len(_T) else Z) * spread
    return mean - half, mean + half


def share(hits: Sequence[float], of: Sequence[float], looked_at: Sequence[float] | None = None) -> ShareInterval:
    """Return the share over seeds, from each seed's counts. Skips seeds without anything to count."""
    looked = of if looked_at is None else looked_at
    rows = [[float(x) for x in row] for row in zip(hits, of, looked, strict=True) if row[1] > 0]
    if not rows:
        return ShareInterval(None, None, None, 0.0, 0.0, 0.0, None, None, [])
    each = [row[0] / row[1] for row in rows]
    value = sum(each) / len(each)
    mean_hits, mean_of, mean_looked = (sum(row[i] for row in rows) / len(rows) for i in range(3))
    low, high = wilson(value * mean_looked, mean_looked)
    seeds = student(each)
    least, most = (max(0.0, seeds[0]), min(1.0, seeds[1])) if seeds else (None, None)
    return ShareInterval(value, low, high, mean_hits, mean_of, mean_looked, least, most, each)


def mean(values: Sequence[float]) -> MeanInterval:
    """Return the mean over seeds."""
    if not values:
        return MeanInterval(None, None, None, [])
    low, high = student(values) or (None, None)
    return MeanInterval(sum(values) / len(values), low, high, [float(value) for value in values])
