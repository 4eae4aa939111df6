"""Recognizes lists of links (home pages, sections, archives), which are no stories."""

from __future__ import annotations

import numpy as np

from simstream.kernels.html.page_parts import (
    BLOCKS,
    HEADLINES,
    HEADLINES_WIDTH,
    LINKED,
    MARKS,
    TEXT_END,
    TEXT_START,
    WIDTH,
    PageParts,
)
from simstream.kernels.html.sentences import MIN_LINE_WIDTH

MIN_HEADLINES = 20
"""The fewest linked headlines of a list."""
MIN_LINKS_TO_PROSE = 8
"""The headlines of a list are at least so many times as wide as its sentences outside links."""


def is_list_of_links(parts: PageParts) -> bool:
    """Return whether a page has many linked headlines, and hardly a sentence outside links."""
    blocks = parts.blocks[: parts.num[BLOCKS]].astype(np.int64)  # a product of two widths is beyond 32 bits
    size = blocks[:, TEXT_END] - blocks[:, TEXT_START]
    width = (blocks[:, WIDTH] >> 1) * (size - blocks[:, LINKED]) // size
    said = int(width[(blocks[:, MARKS] > 0) & (width >= MIN_LINE_WIDTH)].sum())
    # HEADLINES_WIDTH is twice a width.
    return bool(
        parts.num[HEADLINES] >= MIN_HEADLINES and parts.num[HEADLINES_WIDTH] >= 2 * MIN_LINKS_TO_PROSE * said
    )
