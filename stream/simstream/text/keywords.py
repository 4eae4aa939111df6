"""Picks the most telling words of a text, as jieba's `analyse.extract_tags` does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from simstream.text.weights import jieba_idf

MIN_CHARS: Final = 2
STOP_WORDS: Final = frozenset(
    {
        *("the", "of", "is", "and", "to", "in", "that", "we", "for", "an", "are", "by", "be", "as", "on", "with"),
        *("can", "if", "from", "which", "you", "it", "this", "then", "at", "have", "all", "not", "one", "has"),
        "or",
    }
)
"""jieba's own list, `KeywordExtractor.STOP_WORDS`."""


class TagTables(NamedTuple):
    """jieba's inverse document frequencies, and their median (for unknown words)."""

    idf: dict[str, float]
    median: float


def heaviest_tags(tokens: Sequence[str], top: int) -> list[str]:
    """Return the `top` tokens with the greatest term frequency times inverse document frequency; equal ones in
    order.

    Skips tokens of one character and jieba's stop words. Raises InputMissing if jieba's table is not there.
    """
    idf, median = _tables()
    times: dict[str, float] = {}
    for token in tokens:
        if len(token.strip()) >= MIN_CHARS and token.lower() not in STOP_WORDS:
            times[token] = times.get(token, 0.0) + 1.0
    total = sum(times.values())
    # Multiplies and divides in jieba's order: another order may decide a tie differently.
    weight = {token: count * (idf.get(token, median) / total) for token, count in times.items()}
    return sorted(weight, key=weight.__getitem__, reverse=True)[:top]


@cache
def _tables() -> TagTables:
    idf = dict(jieba_idf())
    return TagTables(idf, sorted(idf.values())[len(idf) // 2])
