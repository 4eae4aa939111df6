"""Describes each block of text on a page by numbers that tell the article from the rest.

What they count is what Readability, boilerpipe and trafilatura count over trees: the width of prose, the share of
links, and names and kinds of the elements around. The container is the element that gets most credit for its
paragraphs.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.class_words import (
    ABOUT,
    ADVERTISING,
    COMMENTS,
    FOOT,
    NAVIGATION,
    RELATED,
    SHARING,
    SIDE,
)
from simstream.kernels.html.element_names import (
    ARTICLE_KIND,
    ASIDE_KIND,
    DIV_KIND,
    FIGURE_KIND,
    FOOTER_KIND,
    HEADING_KIND,
    LI_KIND,
    LIST_KIND,
    MAIN_KIND,
    NAV_KIND,
    P_KIND,
    PRE_KIND,
    SECTION_KIND,
)
from simstream.kernels.html.page_parts import (
    BLOCKS,
    ELEMENT,
    ELEMENTS,
    END,
    FLAGS,
    KIND,
    LINKED,
    MARKS,
    PARENT,
    TEXT_END,
    TEXT_START,
    WIDTH,
    PageParts,
)
from simstream.kernels.html.sentences import MIN_LINE_WIDTH
from simstream.kernels.jit import inlined, lean_helper, lean_kernel

FEATURES: Final = (
    "width of the block",
    "share of links",
    "marks of sentences",
    "width of the block before",
    "share of links of the block before",
    "share of links of the block after",
    "kind of its element",
    "within comments",
    "within related pages",
    "within a side column",
    "within notes about the article",
    "within an article",
    "within an aside",
    "within the main element",
    "within a list",
    "within a figure",
    "within the container",
    "blocks since the container's first prose",
    "blocks since the container's last prose",
    "share of the page's prose that its section has",
    "share of links in its section",
    "blocks in its section",
    "paragraphs in its section",
    "share of the page's prose that the section around has",
    "share of links in the section around",
    "share of the page's prose that the container has",
    "levels between the container and its section",
    "place on the page",
)
"""The columns of `describe`; shares are in percent."""
NEAR_WORDS: Final = (COMMENTS, RELATED, SIDE, ABOUT)
NEAR_KINDS: Final = (ARTICLE_KIND, ASIDE_KIND, MAIN_KIND, LIST_KIND, FIGURE_KIND)
_DEBITS: Final = NAVIGATION | FOOT | COMMENTS | RELATED | SHARING | ADVERTISING | SIDE
_BESIDE: Final = (1 << NAV_KIND) | (1 << FOOTER_KIND) | (1 << ASIDE_KIND)
_SECTIONS: Final = (1 << DIV_KIND) | (1 << SECTION_KIND)
_IN_PARAGRAPHS: Final = (1 << P_KIND) | (1 << LI_KIND) | (1 << HEADING_KIND) | (1 << PRE_KIND)
MIN_LONG_LINE_WIDTH: Final = 80
"""Width of a line that counts half as prose even without a mark of a sentence."""

# Columns of the sums: a row for each element, over all within it.
_PROSE: Final = 0
_BYTES: Final = 1
_LINKS: Final = 2
_BLOCKS: Final = 3
_PARAGRAPHS: Final = 4
_CREDIT: Final = 5
"""The prose of an element's own paragraphs, and half of that of its children's."""
_WORDS: Final = 6
"""The class words on the way to it, of the elements that do not hold half of the page's prose."""
_KINDS: Final = 7
"""The kinds on the way to it, one bit each."""
_DEPTH: Final = 8
SUMS: Final = 9
_ADDED: Final = 5
"""The first columns are added up from the innermost element outwards."""


@lean_helper
def prose_width(parts: PageParts, block: int) -> int:
    """Return the width of a block if it is prose, half of it if it is just long; 0 if half of it is links."""
    row = parts.blocks[block]
    width = int(row[WIDTH] >> 1)
    if row[LINKED] * 2 > row[TEXT_END] - row[TEXT_START] or width < MIN_LINE_WIDTH:
        return 0
    if row[MARKS]:
        return width
    return width >> 1 if width > MIN_LONG_LINE_WIDTH else 0


@lean_kernel
def describe(parts: PageParts, sums: NDArray[np.int64], features: NDArray[np.int32]) -> None:
    """Fill a row of FEATURES for each block; `sums` (elements, SUMS) is working memory.

    Cost: linear in elements and blocks, some 50 ns each.
    """
    _sum_up(parts, sums)
    container = _container(parts, sums)
    count = int(parts.num[BLOCKS])
    first, last = count, -1
    for i in range(count):
        if _is_within(parts, parts.blocks[i, ELEMENT], container) and prose_width(parts, i):
            first, last = min(first, i), i
    for i in range(count):
        _describe_text(parts, i, features[i])
        _describe_place(parts, sums, i, container, features[i])
        features[i, 17] = _within_1000(i - first)
        features[i, 18] = _within_1000(i - last)


@inlined
def _within_1000(count: int) -> int:
    return min(1000, max(-1000, count))


@lean_helper
def _is_within(parts: PageParts, element: int, outer: int) -> bool:
    return bool(outer <= element < parts.elements[outer, END])


@lean_helper
def _sum_up(parts: PageParts, sums: NDArray[np.int64]) -> None:
    elements, blocks = parts.elements, parts.blocks
    count = parts.num[ELEMENTS]
    sums[:count] = 0
    for i in range(parts.num[BLOCKS]):
        prose, element = prose_width(parts, i), blocks[i, ELEMENT]
        kind = elements[element, KIND]
        sums[element, _PROSE] += prose
        sums[element, _BYTES] += blocks[i, TEXT_END] - blocks[i, TEXT_START]
        sums[element, _LINKS] += blocks[i, LINKED]
        sums[element, _BLOCKS] += 1
        sums[element, _PARAGRAPHS] += prose > 0 and kind == P_KIND
        if _IN_PARAGRAPHS >> kind & 1:
            element = elements[element, PARENT]
        sums[element, _CREDIT] += prose
        if element:
            sums[elements[element, PARENT], _CREDIT] += prose >> 1
    for element in range(count - 1, 0, -1):
        for column in range(_ADDED):
            sums[elements[element, PARENT], column] += sums[element, column]
    for element in range(1, count):
        parent = elements[element, PARENT]
        is_minor = sums[element, _PROSE] * 2 < sums[0, _PROSE] or sums[0, _PROSE] == 0
        sums[element, _WORDS] = sums[parent, _WORDS] | (elements[element, FLAGS] if is_minor else 0)
        sums[element, _KINDS] = sums[parent, _KINDS] | (np.int64(1) << elements[element, KIND])
        sums[element, _DEPTH] = sums[parent, _DEPTH] + 1


@lean_helper
def _container(parts: PageParts, sums: NDArray[np.int64]) -> int:
    """Return the element with most credit outside links; names and kinds of what stands beside an article debit."""
    best, most = 0, np.int64(-1)
    for element in range(1, parts.num[ELEMENTS]):
        row = sums[element]
        credit = row[_CREDIT] * (row[_BYTES] - row[_LINKS]) // max(1, row[_BYTES])
        credit >>= 2 if row[_WORDS] & _DEBITS else 0
        credit >>= 2 if row[_KINDS] & _BESIDE else 0
        if credit > most:
            best, most = element, credit
    return best


@lean_helper
def _describe_text(parts: PageParts, i: int, row: NDArray[np.int32]) -> None:
    row[0] = min(2000, parts.blocks[i, WIDTH] >> 1)
    row[1] = _link_share(parts, i)
    row[2] = min(50, parts.blocks[i, MARKS])
    row[3] = min(2000, parts.blocks[i - 1, WIDTH] >> 1) if i else -1
    row[4] = _link_share(parts, i - 1)
    row[5] = _link_share(parts, i + 1)
    row[27] = i * 100 // parts.num[BLOCKS]


@lean_helper
def _link_share(parts: PageParts, i: int) -> int:
    """Return the percentage of a block in links; -1 where there is no block."""
    if not 0 <= i < parts.num[BLOCKS]:
        return -1
    row = parts.blocks[i]
    return int(row[LINKED] * 100 // max(1, row[TEXT_END] - row[TEXT_START]))


@lean_helper
def _describe_place(
    parts: PageParts, sums: NDArray[np.int64], i: int, container: int, row: NDArray[np.int32]
) -> None:
    elements, total = parts.elements, max(1, sums[0, _PROSE])
    element = parts.blocks[i, ELEMENT]
    kind = elements[element, KIND]
    row[6] = kind
    for j in range(len(NEAR_WORDS)):
        row[7 + j] = sums[element, _WORDS] & NEAR_WORDS[j] != 0
    for j in range(len(NEAR_KINDS)):
        row[11 + j] = sums[element, _KINDS] >> NEAR_KINDS[j] & 1
    row[16] = _is_within(parts, element, container)
    section = element if _SECTIONS >> kind & 1 else elements[element, PARENT]
    around = elements[section, PARENT]
    row[19] = sums[section, _PROSE] * 100 // total
    row[20] = sums[section, _LINKS] * 100 // max(1, sums[section, _BYTES])
    row[21] = min(100, sums[section, _BLOCKS])
    row[22] = min(100, sums[section, _PARAGRAPHS])
    row[23] = sums[around, _PROSE] * 100 // total
    row[24] = sums[around, _LINKS] * 100 // max(1, sums[around, _BYTES])
    row[25] = sums[container, _PROSE] * 100 // total
    row[26] = sums[section, _DEPTH] - sums[container, _DEPTH]
