"""How well texts agree with the articles of pages: precision, recall and F1, as the two benchmarks count them.

Where the article is known, both texts become multisets of runs of 4 words; a Chinese character is a word. Precision
and recall are means over the pages, and F1 is that of the two means. Pages without any text do not count for
precision. Where only segments are known, each segment counts once, and all pages are counted together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.studies.article_pages import ArticlePage

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
_RUN_WORDS = 4
_DRAWS = 500
"""How often pages are drawn anew for the standard deviation."""


class ArticleScore(NamedTuple):
    """Shares from 0 to 1; `deviation` is the standard deviation of F1 if pages are drawn anew."""

    precision: float
    recall: float
    f1: float
    deviation: float


def score(pages: Sequence[ArticlePage], texts: Sequence[str]) -> ArticleScore:
    """Score the texts that an extraction found on pages of one set. Cost: about 1 ms a page."""
    counts = np.array([_counts(page, text) for page, text in zip(pages, texts, strict=True)], np.float64)
    is_whole = pages[0].body is not None
    drawn = np.random.default_rng(1).integers(len(pages), size=(_DRAWS, len(pages)))
    deviation = np.std([_agreement(counts[rows], is_whole)[2] for rows in drawn])
    return ArticleScore(*_agreement(counts, is_whole), float(deviation))


def _counts(page: ArticlePage, text: str) -> tuple[int, int, int]:
    """How much was found rightly, was found, and is to be found: shingles or segments."""
    if page.body is None:
        spaced = _spaced(text)
        right, wrong = (
            sum(_spaced(segment) in spaced for segment in each) for each in (page.wanted, page.unwanted)
        )
        return right, right + wrong, len(page.wanted)
    found, true = shingles(text), shingles(page.body)
    return (found & true).total(), found.total(), true.total()


def _agreement(counts: NDArray[np.float64], is_whole: bool) -> tuple[float, float, float]:
    """Precision, recall and F1 of counts (pages, 3)."""
    rows = counts if is_whole else counts.sum(axis=0, keepdims=True)
    precision, recall = (_mean_share(rows[:, 0], rows[:, column]) for column in (1, 2))
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


def _mean_share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    """The mean of the shares of all that is not empty; 0 if all is."""
    there = whole > 0
    return float((part[there] / whole[there]).mean()) if there.any() else 0.0


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """Return the multiset of runs of 4 words; a shorter text is one run."""
    words = _WORD.findall(text)
    runs = zip(*(words[start:] for start in range(_RUN_WORDS)), strict=False)
    return Counter(runs if len(words) > _RUN_WORDS else [tuple(words)] if words else [])


def _spaced(text: str) -> str:
    return " ".join(text.split())
