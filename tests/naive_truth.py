"""J, containment, intervals and measures of clusters as plain Python says them: the oracle of `evaluate`."""

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


def containment(a: str, b: str) -> float:
    """Shared shingles over those of the text that has fewer."""
    left, right = shingles(a), shingles(b)
    return len(left & right) / max(1, min(len(left), len(right)))
