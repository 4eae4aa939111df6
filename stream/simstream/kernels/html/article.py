"""Chooses the blocks of a page that are its article, and writes their text."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.block_features import describe, prose_width
from simstream.kernels.html.page_parts import (
    BLOCKS,
    MARKS,
    TEXT_END,
    TEXT_START,
    WIDTH,
    PageParts,
)
from simstream.kernels.html.sentences import MIN_LINE_WIDTH, MIN_PROSE_WIDTH, MIN_SHARE
from simstream.kernels.jit import lean_helper, lean_kernel

TREE_DEPTH: Final = 4
TREE_NODES: Final = (1 << TREE_DEPTH) - 1
TREE_COLUMNS: Final = 3 * TREE_NODES + 1
"""A tree is one row: a feature and a limit for each node, node 0 first, then what each leaf adds. Beyond the limit
the way goes to node 2 n + 2, else to node 2 n + 1."""
_MIN_ARTICLE_SHARE: Final = 30
"""The least share of the page's text that an article has, one part in so many: small print is no article."""
_FREE_BLOCKS: Final = 64
_BYTES_A_BLOCK: Final = 64
"""A page may have _FREE_BLOCKS, and one more for each so many bytes. With more, it is a table or a trick: it is not
scored."""


@lean_helper
def score(row: NDArray[np.int32], trees: NDArray[np.int32]) -> int:
    """Return the sum over all trees, above 0 for a block of the article. Cost: 5 ns a tree."""
    total = np.int64(0)
    for t in range(trees.shape[0]):
        at = 0
        for _ in range(TREE_DEPTH):
            at = 2 * at + 1 + (row[trees[t, 2 * at]] > trees[t, 2 * at + 1])
        total += trees[t, TREE_NODES + at]
    return int(total)


def is_scored(blocks: int, size: int) -> bool:
    """Whether a page of so many bytes has so few blocks that each may be scored."""
    return blocks <= _FREE_BLOCKS + size // _BYTES_A_BLOCK


@lean_kernel
def choose(
    parts: PageParts,
    trees: NDArray[np.int32],
    sums: NDArray[np.int64],
    features: NDArray[np.int32],
    is_kept: NDArray[np.bool_],
) -> int:
    """Move the article's blocks to the front of the text, one line each; return the bytes of these lines.

    If these are narrower than MIN_PROSE_WIDTH together, or too small a share of the page's text, all lines of prose
    count. If those are, too, all lines count. `sums` (elements, SUMS), `features` (blocks, FEATURES) and `is_kept`
    (blocks,) are working memory. Without features no block is scored.
    """
    count = parts.num[BLOCKS]
    is_kept[:] = False
    width, whole = 0, 0
    for i in range(count):
        whole += parts.blocks[i, WIDTH] >> 1
    if features.shape[0]:
        describe(parts, sums, features)
        for i in range(count):
            if score(features[i], trees) > 0:
                is_kept[i] = True
                width += parts.blocks[i, WIDTH] >> 1
    if width < max(MIN_PROSE_WIDTH, whole // _MIN_ARTICLE_SHARE):
        width = 0
        for i in range(count):
            is_kept[i] = parts.blocks[i, MARKS] > 0 and prose_width(parts, i) >= MIN_LINE_WIDTH
            width += parts.blocks[i, WIDTH] >> 1 if is_kept[i] else 0
        if width < max(MIN_PROSE_WIDTH, whole // MIN_SHARE):
            is_kept[:] = True
    return _write_lines(parts, is_kept)


@lean_helper
def _write_lines(parts: PageParts, is_kept: NDArray[np.bool_]) -> int:
    text, to = parts.text, 0
    for i in range(is_kept.size):
        if is_kept[i]:
            for at in range(parts.blocks[i, TEXT_START], parts.blocks[i, TEXT_END] + 1):  # with its end of line
                text[to] = text[at]
                to += 1
    return max(0, to - 1)
