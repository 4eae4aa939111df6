"""What all studies count with: shares with their intervals, true similarity, bins of it, and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.evaluate import truth
from simstream.evaluate.truth import shingle_sets
from simstream.model import U64

BINS = ((0.9, 1.01), (0.8, 0.9), (0.7, 0.8), (0.6, 0.7), (0.5, 0.6), (0.3, 0.5), (-0.01, 0.3))
BIN_NAMES = (">= .9", ".8-.9", ".7-.8", ".6-.7", ".5-.6", ".3-.5", "< .3")
_Z = 1.959964  # 95 %, both sides


class StudyTable(NamedTuple):
    """One table of a study, as it is printed and written."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def share(count: int, n: int) -> dict[str, Any]:
    """`count` of `n` with Wilson's 95 % interval; without any n the share is unknown."""
    if n == 0:
        return {"count": 0, "n": 0, "share": None, "low": None, "high": None}
    p, z2 = count / n, _Z * _Z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    low = 0.0 if count == 0 else max(0.0, middle - half)
    high = 1.0 if count == n else min(1.0, middle + half)
    return {"count": int(count), "n": int(n), "share": p, "low": low, "high": high}


def cell(part: dict[str, Any], per: int = 100) -> str:
    """A share with interval and n in one cell; `per` 100 prints per cent, 1,000,000 per million."""
    if not part["n"]:
        return "-"
    low, high, middle = (_number(part[name] * per, per) for name in ("low", "high", "share"))
    return f"{middle} ({low}-{high}; {part['n']:,})"


def _number(value: float, per: int) -> str:
    """Per cent with one place; counts of a thousand or a million with two where they are small."""
    return f"{value:,.{1 if per == 100 else 0 if value >= 10 or value == 0 else 2}f}"


def shingles(text: str) -> U64:
    """The set of character 5-shingles of one text, hashed and sorted."""
    return shingle_sets([text]).values


def common(a: U64, b: U64) -> int:
    """How many shingles two sets share."""
    return len(np.intersect1d(a, b, assume_unique=True))


def jaccard(a: U64, b: U64) -> float:
    """J of two sets of shingles; 0 where both are empty."""
    both = common(a, b)
    return both / max(1, len(a) + len(b) - both)


def pair_jaccards(texts: Sequence[str], pairs: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """J of pairs of texts, given by their places."""
    at = np.array(pairs, np.int64).reshape(-1, 2)
    return truth.jaccard(shingle_sets(texts), at[:, 0], at[:, 1])


def bin_of(similarity: float) -> int:
    """Index into BINS."""
    return next(number for number, (low, _) in enumerate(BINS) if similarity >= low)


class StudyTally:
    """Counts by a key: how many of how many."""

    def __init__(self) -> None:
        self._counts: dict[Any, list[int]] = {}

    def add(self, key: Any, hit: bool, times: int = 1) -> None:
        row = self._counts.setdefault(key, [0, 0])
        row[0] += times * bool(hit)
        row[1] += times

    def share(self, key: Any) -> dict[str, Any]:
        return share(*self._counts.get(key, (0, 0)))

    def by_bin(self) -> dict[str, dict[str, Any]]:
        """The shares of the bins of J, where the keys are their numbers."""
        return {name: self.share(number) for number, name in enumerate(BIN_NAMES)}
