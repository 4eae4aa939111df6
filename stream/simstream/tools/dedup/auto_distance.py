"""Chooses the distance for a collection of files: as wide as the index affords.

A wider distance finds more of what is alike. The sketch still confirms each candidate, so hardly any match is
wrong. A service has to keep one distance for all pages to come. Files have a size, and small files afford more.
"""

from __future__ import annotations

from typing import Final

from simstream.index import plan
from simstream.text.recipe import Recipe, at_least

MAX_AUTO_DISTANCE: Final = 12
"""A wider distance adds candidates, but hardly any match."""
MAX_INDEX_NS: Final = 25_000
"""Nanoseconds that the index may take for a page, by its model: about as long as a page's fingerprint takes."""
MIN_SIMILARITY: Final = "0.5"
"""With a lower least similarity, pages that have nothing in common match at wide distances."""
MIN_PAGE_BYTES: Final = 400
"""A page of text is seldom smaller in a compressed file, so files seldom have more pages than this suggests."""


def estimate_pages(size: int | None) -> int | None:
    """Return about how many pages input files of this many bytes have at most; None if the size is not known."""
    return None if size is None else size // MIN_PAGE_BYTES + 1


def choose_distance(
    recipe: Recipe, pages: int | None, similarity: str | None = None, *, confirmed: bool = False
) -> int:
    """Return the greatest distance up to MAX_AUTO_DISTANCE that costs at most MAX_INDEX_NS a page among so many.

    It is never below the recipe's distance. It is the recipe's distance if the number of pages is not known. So it
    is without a sketch, or with a least similarity below MIN_SIMILARITY, unless candidates are `confirmed` by the
    texts: nothing else would reject far candidates.
    """
    least = recipe.similarity if similarity is None else similarity
    rejecting = confirmed or (recipe.sketch_bits and least is not None and at_least(least, MIN_SIMILARITY))
    if pages is None or not rejecting:
        return recipe.distance
    wider = range(recipe.distance + 1, MAX_AUTO_DISTANCE + 1)
    most = MAX_INDEX_NS / recipe.lookups
    affordable = [k for k in wider if plan.choose(k, pages).cost_ns(pages, k) <= most]
    return max(affordable, default=recipe.distance)
