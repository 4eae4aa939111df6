"""Describes each block of text on a page by numbers that tell the article from the rest.

What they count is what Readability, boilerpipe and trafilatura count over trees: the width of prose, the share of
links, and names and kinds of the elements around. The container is the element that gets most credit for its
paragraphs. The core gets most credit for text of any kind outside links: a list of products has one, too.
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
    HEADER_KIND,
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
from simstream.kernels.jit import inlined, lean_helper, sealed_kernel

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
    "within navigation",
    "within a foot",
    "within advertising",
    "within buttons to share",
    "within an article",
    "within an aside",
    "within the main element",
    "within a list",
    "within a figure",
    "within a nav element",
    "within a footer element",
    "within a header element",
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
    "within the core",
    "share of the page's text that the core has",
    "blocks since the core's first text",
    "blocks since the core's last text",
)
"""The rows of `describe`; shares are in percent, and no number is above 2000."""
NEAR_WORDS: Final = (COMMENTS, RELATED, SIDE, ABOUT, NAVIGATION, FOOT, ADVERTISING, SHARING)
NEAR_KINDS: Final = (
    *(ARTICLE_KIND, ASIDE_KIND, MAIN_KIND, LIST_KIND, FIGURE_KIND),
    *(NAV_KIND, FOOTER_KIND, HEADER_KIND),
)
_DEBITS: Final = NAVIGATION | FOOT | COMMENTS | RELATED | SHARING | ADVERTISING | SIDE
_BESIDE: Final = (1 << NAV_KIND) | (1 << FOOTER_KIND) | (1 << ASIDE_KIND)
_NO_CORE: Final = (1 << NAV_KIND) | (1 << FOOTER_KIND)
_SECTIONS: Final = (1 << DIV_KIND) | (1 << SECTION_KIND)
_IN_PARAGRAPHS: Final = (1 << P_KIND) | (1 << LI_KIND) | (1 << HEADING_KIND) | (1 << PRE_KIND)
MIN_LONG_LINE_WIDTH: Final = 80
"""Width of a line that counts half as prose even without a mark of a sentence."""
_MIN_TEXT_WIDTH: Final = 20
"""Width of a block that may be the core's first or last text."""
_CORE_LEVELS: Final = 6
"""From each block so many elements outwards get credit for its text, each three quarters of the one before."""

# Columns of the sums: a row for each element, over all within it.
_PROSE: Final = 0
_BYTES: Final = 1
_LINKS: Final = 2
_BLOCKS: Final = 3
_PARAGRAPHS: Final = 4
_WIDTH: Final = 5
_CREDIT: Final = 6
"""The prose of an element's own paragraphs, and half of that of its children's."""
_TEXT_CREDIT: Final = 7
"""The width of text outside links that is close to an element."""
_WORDS: Final = 8
"""The class words on the way to it, of the elements that do not hold half of the page's prose."""
_KINDS: Final = 9
"""The kinds on the way to it, one bit each."""
_DEPTH: Final = 10
SUMS: Final = 11
_ADDED: Final = 6
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


@sealed_kernel
def describe(parts: PageParts, sums: NDArray[np.int64], features: NDArray[np.int16]) -> None:
    """Fill `features` (FEATURES, blocks); `sums` (elements, SUMS) is working memory.

    Cost: linear in elements and blocks, some 50 ns each.
    """
    _sum_up(parts, sums)
    container, core = _container(parts, sums), _core(parts, sums)
    count = int(parts.num[BLOCKS])
    first, last, core_first, core_last = count, -1, count, -1
    for i in range(count):
        element = parts.blocks[i, ELEMENT]
        if _is_within(parts, element, container) and prose_width(parts, i):
            first, last = min(first, i), i
        if _is_within(parts, element, core) and _is_text(parts, i):
            core_first, core_last = min(core_first, i), i
    width = max(1, sums[0, _WIDTH])
    for i in range(count):
        row = features[:, i]
        _describe_text(parts, i, row)
        _describe_place(parts, sums, i, container, row)
        row[24] = _within_1000(i - first)
        row[25] = _within_1000(i - last)
        row[35] = _is_within(parts, parts.blocks[i, ELEMENT], core)
        row[36] = sums[core, _WIDTH] * 100 // width
        row[37] = _within_1000(i - core_first)
        row[38] = _within_1000(i - core_last)


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
        sums[element, _WIDTH] += blocks[i, WIDTH] >> 1
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
def _is_text(parts: PageParts, block: int) -> bool:
    """Whether a block is no short label, and not mostly links."""
    return bool(parts.blocks[block, WIDTH] >> 1 >= _MIN_TEXT_WIDTH and _link_share(parts, block) <= 50)


@lean_helper
def _core(parts: PageParts, sums: NDArray[np.int64]) -> int:
    """Return the element with most credit for text outside links; navigation and footers give none."""
    for i in range(parts.num[BLOCKS]):
        element = parts.blocks[i, ELEMENT]
        if sums[element, _KINDS] & _NO_CORE:
            continue
        row = parts.blocks[i]
        size = row[TEXT_END] - row[TEXT_START]
        credit = (row[WIDTH] >> 1) * (size - row[LINKED]) // max(1, size)
        for _ in range(_CORE_LEVELS):
            if element == 0:
                break
            sums[element, _TEXT_CREDIT] += credit
            element, credit = parts.elements[element, PARENT], credit * 3 // 4
    best, most = 0, np.int64(-1)
    for element in range(1, parts.num[ELEMENTS]):
        if sums[element, _TEXT_CREDIT] > most:
            best, most = element, sums[element, _TEXT_CREDIT]
    return best


@lean_helper
def _describe_text(parts: PageParts, i: int, row: NDArray[np.int16]) -> None:
    row[0] = min(2000, parts.blocks[i, WIDTH] >> 1)
    row[1] = _link_share(parts, i)
    row[2] = min(50, parts.blocks[i, MARKS])
    row[3] = min(2000, parts.blocks[i - 1, WIDTH] >> 1) if i else -1
    row[4] = _link_share(parts, i - 1)
    row[5] = _link_share(parts, i + 1)
    row[34] = i * 100 // parts.num[BLOCKS]


@lean_helper
def _link_share(parts: PageParts, i: int) -> int:
    """Return the percentage of a block in links; -1 where there is no block."""
    if not 0 <= i < parts.num[BLOCKS]:
        return -1
    row = parts.blocks[i]
    return int(row[LINKED] * 100 // max(1, row[TEXT_END] - row[TEXT_START]))


@lean_helper
def _describe_place(
    parts: PageParts, sums: NDArray[np.int64], i: int, container: int, row: NDArray[np.int16]
) -> None:
    elements, total = parts.elements, max(1, sums[0, _PROSE])
    element = parts.blocks[i, ELEMENT]
    kind = elements[element, KIND]
    row[6] = kind
    for j in range(len(NEAR_WORDS)):
        row[7 + j] = sums[element, _WORDS] & NEAR_WORDS[j] != 0
    for j in range(len(NEAR_KINDS)):
        row[15 + j] = sums[element, _KINDS] >> NEAR_KINDS[j] & 1
    row[23] = _is_within(parts, element, container)
    section = element if _SECTIONS >> kind & 1 else elements[element, PARENT]
    around = elements[section, PARENT]
    row[26] = sums[section, _PROSE] * 100 // total
    row[27] = sums[section, _LINKS] * 100 // max(1, sums[section, _BYTES])
    row[28] = min(100, sums[section, _BLOCKS])
    row[29] = min(100, sums[section, _PARAGRAPHS])
    row[30] = sums[around, _PROSE] * 100 // total
    row[31] = sums[around, _LINKS] * 100 // max(1, sums[around, _BYTES])
    row[32] = sums[container, _PROSE] * 100 // total
    row[33] = sums[section, _DEPTH] - sums[container, _DEPTH]
