"""Decides which pages are too short: readable pages with fewer distinct words than the recipe's `min_words`.

`wire/page` decides about pages with another HTTP status than 2xx: they are `too_short`, too, or failed fetches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simstream.model import Page, PageKind


def mark_too_short(pages: Sequence[Page], words: NDArray[np.uint32], min_words: int) -> None:
    """Set `kind` and `reason` of the readable pages that have too few distinct `words` (n,)."""
    for i in np.flatnonzero(words < min_words).tolist():
        if pages[i].kind == PageKind.READABLE:
            pages[i].kind, pages[i].reason = PageKind.TOO_SHORT, "few_words"
