"""Chooses the blocks of a page that are its article, and writes their text."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.block_features import FEATURES, SUMS, describe, prose_width
from simstream.kernels.html.page_parts import (
    BLOCKS,
    MARKS,
    TEXT_END,
    TEXT_START,
    WIDTH,
    PageParts,
)
from simstream.kernels.html.sentences import MIN_LINE_WIDTH, MIN_PROSE_WIDTH, MIN_SHARE
from simstream.kernels.jit import inlined, lean_helper

TREE_DEPTH: Final = 4
TREE_NODES: Final = (1 << TREE_DEPTH) - 1
TREE_COLUMNS: Final = 3 * TREE_NODES + 1
"""A tree is one row: a feature and a limit for each node, node 0 first, then what each leaf adds. Beyond the limit
the way goes to node 2 n + 2, else to node 2 n + 1."""
SCORES: Final = 5
"""Rows of the scores: a sum for each block, and working memory."""
_MIN_ARTICLE_SHARE: Final = 30
"""The least share of the page's text that an article has, one part in so many: small print is no article."""
_FEATURES: Final = len(FEATURES)
_FREE_BLOCKS: Final = 64
_BYTES_A_BLOCK: Final = 64
"""A page may have _FREE_BLOCKS, and one more for each so many bytes. With more, it is a table or a trick: it is not
scored."""


@lean_helper
def add_up(features: NDArray[np.int16], trees: NDArray[np.int16], scores: NDArray[np.int16]) -> None:
    """Fill the first row of `scores` with the sum of all trees for each block: above 0 for a block of the article.

    `features` is (FEATURES, blocks), `scores` (SCORES, blocks). The sum over all trees of the greatest absolute
    leaf must be below 2^15. Both ways from each node are taken for all blocks, and one is dropped: LLVM does many
    blocks at once. Cost: 1.3 ns a tree and block. To follow one way for one block takes 3.6.
    """
    scores[0] = 0
    for t in range(trees.shape[0]):
        tree = trees[t]
        for part in range(4):
            _choose_leaf(features, tree, part, scores[1 + part])
        _add_leaves(features, tree, scores)


@lean_helper
def _choose_leaf(features: NDArray[np.int16], tree: NDArray[np.int16], part: int, leaf: NDArray[np.int16]) -> None:
    """Fill in what each block's leaf adds in one of the four parts below the first two levels."""
    top = 2 * (3 + part)
    left, right = 2 * top + 2, 2 * top + 4
    a, b, c = features[tree[top]], features[tree[left]], features[tree[right]]
    limit_a, limit_b, limit_c = tree[top + 1], tree[left + 1], tree[right + 1]
    at = 2 * TREE_NODES + 4 * part
    leaf_0, leaf_1, leaf_2, leaf_3 = tree[at], tree[at + 1], tree[at + 2], tree[at + 3]
    for i in range(leaf.size):
        below = leaf_1 if b[i] > limit_b else leaf_0
        beyond = leaf_3 if c[i] > limit_c else leaf_2
        leaf[i] = beyond if a[i] > limit_a else below


@lean_helper
def _add_leaves(features: NDArray[np.int16], tree: NDArray[np.int16], scores: NDArray[np.int16]) -> None:
    """Add the leaf in that part to which the first two levels lead each block."""
    a, b, c = features[tree[0]], features[tree[2]], features[tree[4]]
    limit_a, limit_b, limit_c = tree[1], tree[3], tree[5]
    total, leaf_0, leaf_1, leaf_2, leaf_3 = scores[0], scores[1], scores[2], scores[3], scores[4]
    for i in range(total.size):
        below = leaf_1[i] if b[i] > limit_b else leaf_0[i]
        beyond = leaf_3[i] if c[i] > limit_c else leaf_2[i]
        total[i] += beyond if a[i] > limit_a else below


def _max_scored_blocks(size: int) -> int:
    """Return how many blocks of a page of so many bytes may be scored; with more, none is."""
    return _FREE_BLOCKS + size // _BYTES_A_BLOCK


_max_scored_blocks_inlined: Any = inlined(_max_scored_blocks)  # for kernels, which cannot call the other


class ArticleWork(NamedTuple):
    """Working memory of `choose`, made by `make_article_work`; it need not be cleared between pages."""

    sums: NDArray[np.int64]  # (elements, SUMS)
    features: NDArray[np.int16]  # (FEATURES * scored blocks,)
    scores: NDArray[np.int16]  # (SCORES * scored blocks,)
    is_kept: NDArray[np.bool_]  # (blocks,)


def make_article_work(parts: PageParts, size: int) -> ArticleWork:
    """Return working memory for any page of at most `size` bytes that has room in `parts`."""
    blocks = len(parts.blocks)
    scored = min(blocks, _max_scored_blocks(size))
    return ArticleWork(
        np.empty((len(parts.elements), SUMS), np.int64),
        np.empty(_FEATURES * scored, np.int16),
        np.empty(SCORES * scored, np.int16),
        np.empty(blocks, np.bool_),
    )


@lean_helper
def choose(
    parts: PageParts, size: int, trees: NDArray[np.int16], work: ArticleWork, texts: NDArray[np.uint8], to: int
) -> int:
    """Write the article of a page of `size` bytes to `texts` from `to` on, a line for each block; return its end.

    `trees` is (n, TREE_COLUMNS). `texts` has room for `room_for(size)` bytes, and one for the last line's end.

    If the article's blocks are narrower than MIN_PROSE_WIDTH together, or too small a share of the page's text, all
    lines of prose count. If those are, too, all lines count.
    """
    count = parts.num[BLOCKS]
    is_kept = work.is_kept[:count]
    is_kept[:] = False
    width, whole = 0, 0
    for i in range(count):
        whole += parts.blocks[i, WIDTH] >> 1
    if count <= _max_scored_blocks_inlined(size):
        features = work.features[: _FEATURES * count].reshape(_FEATURES, count)
        scores = work.scores[: SCORES * count].reshape(SCORES, count)
        describe(parts, work.sums, features)
        add_up(features, trees, scores)
        for i in range(count):
            if scores[0, i] > 0:
                is_kept[i] = True
                width += parts.blocks[i, WIDTH] >> 1
    if width < max(MIN_PROSE_WIDTH, whole // _MIN_ARTICLE_SHARE):
        width = 0
        for i in range(count):
            is_kept[i] = parts.blocks[i, MARKS] > 0 and prose_width(parts, i) >= MIN_LINE_WIDTH
            width += parts.blocks[i, WIDTH] >> 1 if is_kept[i] else 0
        if width < max(MIN_PROSE_WIDTH, whole // MIN_SHARE):
            is_kept[:] = True
    return _write_lines(parts, is_kept, texts, to)


@lean_helper
def _write_lines(parts: PageParts, is_kept: NDArray[np.bool_], texts: NDArray[np.uint8], to: int) -> int:
    """Write the lines of these blocks. Those of successive blocks lie side by side, each with its end of line."""
    begin, i, count = to, 0, is_kept.size
    while i < count:
        first = i
        while i < count and is_kept[i]:
            i += 1
        if i > first:
            start, end = parts.blocks[first, TEXT_START], parts.blocks[i - 1, TEXT_END] + 1
            for at in range(np.uint64(start), np.uint64(end)):
                texts[np.uint64(to)] = parts.text[at]
                to += 1
        i += 1
    return max(begin, to - 1)
