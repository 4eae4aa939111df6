"""The parts of a page: its elements, its blocks of text, and what is open while they are found.

Only elements that begin a new line, or hide their text, are kept; formatting counts as text.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.bits import LANES, at_most_64, copy_64, equal_64, lowest
from simstream.kernels.html.character_references import AMPERSAND, CharacterReferences, read_reference, room_for
from simstream.kernels.html.element_names import KINDS
from simstream.kernels.html.sentences import count_marks, twice_width
from simstream.kernels.html.tags import Bytes, HtmlBytes
from simstream.kernels.jit import inlined, lean_helper

# Columns of `PageParts.elements`.
PARENT: Final = 0
KIND: Final = 1
FLAGS: Final = 2
"""What `class`, `id`, `role` and `itemprop` say; see `class_words`."""
END: Final = 3
"""The number of the first element behind this one's content."""
_ELEMENT_COLUMNS: Final = 4

# Columns of `PageParts.blocks`.
ELEMENT: Final = 0
TEXT_START: Final = 1
TEXT_END: Final = 2
WIDTH: Final = 3
"""Twice the width of `extraction.prose.width_of`: the characters and the bytes."""
LINKED: Final = 4
"""The bytes within links."""
MARKS: Final = 5
"""The marks of sentences."""
_BLOCK_COLUMNS: Final = 6

# Numbers of `PageParts.num`.
ELEMENTS: Final = 0
BLOCKS: Final = 1
TEXT: Final = 2
"""The bytes of text so far."""
DEPTH: Final = 3
OVER: Final = 4
"""Elements that are open and not on the stack, because it is full."""
LINK: Final = 5
"""The depth at which a link began; 0 outside links."""
_LINKED: Final = 6
_IS_SPACED: Final = 7
BLOCK_START: Final = 8
"""Where the text of this block begins."""
TITLE: Final = 9
"""Where the text of the first `<title>` begins in the page; the next number is where it ends. Both are 0 without
one."""
OG_TITLE: Final = 11
"""The same of the content of the first `og:title`."""
CANONICAL: Final = 13
"""The same of the address of the first canonical link."""
HEADLINES: Final = 15
"""Links whose text is at least MIN_HEADLINE_WIDTH wide."""
HEADLINES_WIDTH: Final = 16
"""Twice the width of all of them."""
_LINK_START: Final = 17
"""Where the text of this link begins."""
_NUMBERS: Final = 18
MIN_HEADLINE_WIDTH: Final = 16
"""The least width of a link's text that may be a headline: 8 letters of Chinese, 16 of English."""

# Columns of `PageParts.stack`.
OPEN_KIND: Final = 0
_ELEMENT: Final = 1
_PREVIOUS: Final = 2
"""The next place below with the same kind, or -1."""
SEARCH_END: Final = 3
"""The innermost place at which the search for an open element ends; perhaps this one."""
FIRM: Final = 4
"""The innermost place at which the search for an open list item ends."""
_IS_HIDDEN: Final = 5
_STACK_COLUMNS: Final = 6
_MIN_LANE_BYTES: Final = 4
"""Fewer bytes of text are written one by one: that costs less than a copy of 64."""
MAX_DEPTH: Final = 512
"""As in browsers: deeper elements are part of the deepest."""
MAX_ELEMENTS: Final = 1 << 18
"""The most elements, and blocks, of a page; further ones are part of those before them."""


class PageParts(NamedTuple):
    """The parts of one page; made by `make_parts`, filled by `take_apart`. Element 0 is the page itself."""

    text: Bytes  # (t + 64,) UTF-8, as far as the page is; a run of spaces is one space
    elements: NDArray[np.int32]  # (n, 4): in the order of their start tags
    blocks: NDArray[np.int32]  # (m, 6): in the order of the text
    stack: NDArray[np.int32]  # (MAX_DEPTH, 6): the open elements
    last: NDArray[np.int32]  # (KINDS,): the innermost open element of each kind
    num: NDArray[np.int64]  # (18,)


def make_parts(size: int) -> PageParts:
    """Return room for the parts of a page of so many bytes: 40 bytes for each `<` that it may have, up to
    MAX_ELEMENTS, and its text."""
    count = min(size // 3 + 2, MAX_ELEMENTS)
    return PageParts(
        np.empty(room_for(size) + LANES, np.uint8),
        np.empty((count, _ELEMENT_COLUMNS), np.int32),
        np.empty((count, _BLOCK_COLUMNS), np.int32),
        np.empty((MAX_DEPTH, _STACK_COLUMNS), np.int32),
        np.empty(KINDS, np.int32),
        np.empty(_NUMBERS, np.int64),
    )


@lean_helper
def push(parts: PageParts, kind: int, flags: int, hidden: bool, stops: bool, firm: bool) -> None:
    """Open an element within the innermost one."""
    num, stack = parts.num, parts.stack
    depth, element = num[DEPTH], num[ELEMENTS]
    if depth == MAX_DEPTH or element == parts.elements.shape[0]:
        num[OVER] += 1
        return
    own, outer, same = np.uint64(depth), np.uint64(max(0, depth - 1)), np.uint64(kind)
    number = np.uint64(element)
    parts.elements[number, PARENT] = stack[outer, _ELEMENT] if depth else 0
    parts.elements[number, KIND] = kind
    parts.elements[number, FLAGS] = flags
    search_end = depth if stops or depth == 0 else np.int64(stack[outer, SEARCH_END])
    firm_end = depth if firm or depth == 0 else np.int64(stack[outer, FIRM])
    is_hidden = hidden or (depth > 0 and stack[outer, _IS_HIDDEN] != 0)
    stack[own, OPEN_KIND] = kind
    stack[own, _ELEMENT] = element
    stack[own, _PREVIOUS] = parts.last[same]
    stack[own, SEARCH_END] = search_end
    stack[own, FIRM] = firm_end
    stack[own, _IS_HIDDEN] = is_hidden
    parts.last[same] = depth
    num[DEPTH] = depth + 1
    num[ELEMENTS] = element + 1


@lean_helper
def pop_to(parts: PageParts, place: int) -> None:
    """Close the element at this place and all within it."""
    num, stack = parts.num, parts.stack
    depth, end = num[DEPTH], num[ELEMENTS]
    while depth > place:
        depth -= 1
        top = np.uint64(depth)
        parts.elements[np.uint64(stack[top, _ELEMENT]), END] = end
        parts.last[np.uint64(stack[top, OPEN_KIND])] = stack[top, _PREVIOUS]
    num[DEPTH] = depth
    num[OVER] = 0
    if num[LINK] > place:
        end_link(parts)


@lean_helper
def write(
    html: HtmlBytes, start: int, end: int, references: CharacterReferences, raw: bool, parts: PageParts
) -> None:
    """Write text of the page behind the text of this block, without what a browser would not show.

    Raw text has no character references.
    """
    num, text = parts.num, parts.text
    if parts.stack[np.uint64(num[DEPTH] - 1), _IS_HIDDEN]:
        return
    begin = to = num[TEXT]
    block, spaced, at = num[BLOCK_START], num[_IS_SPACED] != 0, start
    while at < end:
        if end - at >= _MIN_LANE_BYTES and at + LANES <= html.bytes.size:
            if html.bytes[np.uint64(at)] <= 32:
                size = min(_blank_size(html.bytes, at), end - at)
                spaced |= _has_space(html.bytes, at, size)
                at += size
                continue
            size = min(_plain_size(html.bytes, at), end - at)
            if size:
                if spaced and to > block:
                    text[to] = 32
                    to += 1
                copy_64(html.bytes, at, text, to)
                at, to = at + size, to + size
                spaced = html.bytes[np.uint64(at - 1)] == 32  # a byte of `text` cannot be read back at once
                to -= spaced
                continue
        size = _space_size(html.bytes, at, end)
        if size:
            spaced |= html.bytes[at] > 0
            at += size
            continue
        room = to
        if spaced and to > block:
            text[np.uint64(to)] = 32
            to += 1
        if html.bytes[np.uint64(at)] == AMPERSAND and not raw:
            before = to
            at, to = read_reference(html, at, end, references, text, to)
            if _space_size(text, before, to) == to - before:
                to, spaced = room, True
                continue
        else:
            text[np.uint64(to)] = html.bytes[np.uint64(at)]
            to += 1
            at += 1
        spaced = False
    num[TEXT], num[_IS_SPACED] = to, spaced
    if num[LINK]:
        num[_LINKED] += to - begin


@inlined
def _plain_size(text: Bytes, at: int) -> int:
    """Return how many of the next 64 bytes are written as they are.

    They have no character reference, no control character and no space but U+0020, which is not the first and never
    twice in a row. The bytes that begin U+00A0 and U+3000 stop it, whatever follows them.
    """
    spaces = equal_64(text, at, 32)
    stops = (at_most_64(text, at, 32) ^ spaces) | (spaces & (spaces << np.uint64(1) | np.uint64(1)))
    stops |= equal_64(text, at, AMPERSAND) | equal_64(text, at, 0xC2) | equal_64(text, at, 0xE3)
    return lowest(stops) if stops else LANES


@inlined
def _blank_size(text: Bytes, at: int) -> int:
    """Return how many of the next 64 bytes are spaces or control characters, up to the first that is neither."""
    others = ~at_most_64(text, at, 32)
    return lowest(others) if others else LANES


@inlined
def _has_space(text: Bytes, at: int, size: int) -> bool:
    """Whether any of these blank bytes is a space: of them only a NUL is none."""
    return size > lowest(~equal_64(text, at, 0)) if size < LANES else equal_64(text, at, 0) != ~np.uint64(0)


@lean_helper
def begin_link(parts: PageParts) -> None:
    """Begin a link, and end the one before."""
    end_link(parts)
    parts.num[LINK], parts.num[_LINK_START] = parts.num[DEPTH], parts.num[TEXT]


@lean_helper
def end_link(parts: PageParts) -> None:
    """End the link, if there is one, and count it if it may be a headline."""
    num = parts.num
    if num[LINK]:
        num[LINK] = 0
        start, end = num[_LINK_START], num[TEXT]
        while start < end and parts.text[start] <= 32:  # the space or the end of line before it
            start += 1
        while start < end and parts.text[end - 1] <= 32:
            end -= 1
        width = twice_width(parts.text, start, end)
        if width >= 2 * MIN_HEADLINE_WIDTH:
            num[HEADLINES] += 1
            num[HEADLINES_WIDTH] += width


@lean_helper
def _space_size(text: Bytes, at: int, end: int) -> int:
    """Return the bytes of the space here, a control character, U+00A0 or U+3000; 0 if there is none."""
    byte = text[np.uint64(at)]
    if byte <= 32:
        return 1
    if byte == 0xC2 and at + 1 < end and text[at + 1] == 0xA0:
        return 2
    if byte == 0xE3 and at + 2 < end and text[at + 1] == 0x80 and text[at + 2] == 0x80:
        return 3
    return 0


@lean_helper
def end_block(parts: PageParts) -> None:
    """End the line of text, if there is any; it belongs to the innermost open element."""
    num, text = parts.num, parts.text
    num[_IS_SPACED] = 0
    start, end = num[BLOCK_START], num[TEXT]
    if end == start:
        return
    count = num[BLOCKS]
    width, marks = twice_width(text, start, end), count_marks(text, start, end)
    linked, num[_LINKED] = num[_LINKED], 0
    text[np.uint64(end)] = 10
    num[BLOCK_START] = num[TEXT] = end + 1
    if count == parts.blocks.shape[0]:  # no room: the text belongs to the block before
        text[start - 1] = 32
        parts.blocks[count - 1, TEXT_END] = end
        parts.blocks[count - 1, WIDTH] += width + 2
        parts.blocks[count - 1, LINKED] += linked
        parts.blocks[count - 1, MARKS] += marks
        return
    block = np.uint64(count)
    parts.blocks[block, ELEMENT] = parts.stack[np.uint64(num[DEPTH] - 1), _ELEMENT]
    parts.blocks[block, TEXT_START] = start
    parts.blocks[block, TEXT_END] = end
    parts.blocks[block, WIDTH] = width
    parts.blocks[block, LINKED] = linked
    parts.blocks[block, MARKS] = marks
    num[BLOCKS] = count + 1
