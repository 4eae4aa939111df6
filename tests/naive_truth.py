"""J, shares, intervals and measures of clusters as plain Python says them: the oracle of `evaluate`."""

from __future__ import annotations

import re


def shingles(text: str) -> set[str]:
    """All runs of five word characters; a shorter text is one shingle, an empty one has none."""
    characters = re.sub(r"[\W_]+", "", text.lower())
    return {characters[i : i + 5] for i in range(max(1, len(characters) - 4))} - {""}


def jaccard(a: str, b: str) -> float:
    """Shared shingles over all; 0 for two empty texts."""
    left, right = shingles(a), shingles(b)
    return len(left & right) / max(1, len(left | right))


def share(a: str, b: str) -> float:
    """The share of the shingles of `a` that `b` has too."""
    left, right = shingles(a), shingles(b)
    return len(left & right) / max(1, len(left))


def rand(cluster: list[int], group: list[int]) -> float:
    """The adjusted Rand index, by looking at every pair of pages."""
    pairs = [(i, j) for i in range(len(cluster)) for j in range(i)]
    both = sum(cluster[i] == cluster[j] and group[i] == group[j] for i, j in pairs)
    clusters = sum(cluster[i] == cluster[j] for i, j in pairs)
    groups = sum(group[i] == group[j] for i, j in pairs)
    expected, most = clusters * groups / len(pairs), (clusters + groups) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


def b_cubed(cluster: list[int], group: list[int]) -> tuple[float, float]:
    """Precision and recall, page by page."""
    precision = recall = 0.0
    for i in range(len(cluster)):
        mine = {j for j in range(len(cluster)) if cluster[j] == cluster[i]}
        ours = {j for j in range(len(cluster)) if group[j] == group[i]}
        precision += len(mine & ours) / len(mine)
        recall += len(mine & ours) / len(ours)
    return precision / len(cluster), recall / len(cluster)
