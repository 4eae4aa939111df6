"""How well texts agree with the articles of pages: precision, recall and F1, as the benchmarks count them.

Where the article is known, both texts become multisets of runs of 4 words; a Chinese character is a word. Precision
and recall are means over the pages, and F1 is that of the two means. Pages without any text do not count for
precision. Where only segments are known, each segment counts once, and all pages are counted together. On pages of
WCXB the texts become multisets of words, and F1 is the mean over the pages.
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
_WCXB_WORD = re.compile(r"\w+")
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
    agreement = _by_page if pages[0].kind else _by_sums if pages[0].body is None else _by_means
    drawn = np.random.default_rng(1).integers(len(pages), size=(_DRAWS, len(pages)))
    deviation = np.std([agreement(counts[rows])[2] for rows in drawn])
    return ArticleScore(*agreement(counts), float(deviation))


def _counts(page: ArticlePage, text: str) -> tuple[int, int, int]:
    """How much was found rightly, was found, and is to be found: shingles, words or segments."""
    if page.body is None:
        spaced = _spaced(text)
        right, wrong = (
            sum(_spaced(segment) in spaced for segment in each) for each in (page.wanted, page.unwanted)
        )
        return right, right + wrong, len(page.wanted)
    parts = words if page.kind else shingles
    found, true = parts(text), parts(page.body)
    return (found & true).total(), found.total(), true.total()


def _by_means(counts: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean precision and recall of counts (pages, 3), and F1 of the two."""
    precision, recall = (_mean_share(counts[:, 0], counts[:, column]) for column in (1, 2))
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


def _by_sums(counts: NDArray[np.float64]) -> tuple[float, float, float]:
    """Precision, recall and F1 of counts (pages, 3), all pages together."""
    return _by_means(counts.sum(axis=0, keepdims=True))


def _by_page(counts: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean precision, mean recall and mean F1 of counts (pages, 3)."""
    f1 = 2 * counts[:, 0] / np.maximum(counts[:, 1] + counts[:, 2], 1)
    return (*_by_means(counts)[:2], float(f1.mean()))


def _mean_share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    """The mean of the shares of all that is not empty; 0 if all is."""
    there = whole > 0
    return float((part[there] / whole[there]).mean()) if there.any() else 0.0


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """Return the multiset of runs of 4 words; a shorter text is one run."""
    words = _WORD.findall(text)
    runs = zip(*(words[start:] for start in range(_RUN_WORDS)), strict=False)
    return Counter(runs if len(words) > _RUN_WORDS else [tuple(words)] if words else [])


def words(text: str) -> Counter[str]:
    """Return the multiset of words, as WCXB counts them: Chinese between two marks is one word."""
    return Counter(_WCXB_WORD.findall(text.lower()))


def _spaced(text: str) -> str:
    return " ".join(text.split())
