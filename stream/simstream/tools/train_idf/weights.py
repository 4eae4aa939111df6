"""Writes the table of weights in jieba's format: one `word idf` a line.

idf = ln((N + 1) / (n + 1)) for a word that n of N pages have: the usual ln(N / (1 + n)), with one page more, so
that it is never negative. A word on every page weighs 0, one on a single page ln((N + 1) / 2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache

from simstream.tools.train_idf.runs import Row


def lines(rows: Iterable[Row], pages: int, min_pages: int) -> Iterator[bytes]:
    """Yield a line for each word that at least `min_pages` of all `pages` have."""

    @lru_cache(maxsize=1 << 16)
    def ending(count: int) -> bytes:
        return b" %.6f\n" % math.log((pages + 1) / (count + 1))

    for word, count in rows:
        if count >= min_pages:
            yield word + ending(count)
