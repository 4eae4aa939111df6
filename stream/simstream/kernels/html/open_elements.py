"""The stack of open elements and the list of formatting elements, as a tree builder keeps them.

It follows the HTML standard (html.spec.whatwg.org, "the stack of open elements", "the list of active formatting
elements", "adoption agency algorithm"), as far as it decides how many elements are open and how many are made.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.element_names import (
    BARRIER,
    BUTTON,
    CAPTION,
    CELL,
    CONTAINER,
    DD,
    FORMATTING,
    LI,
    MARKED,
    OPTGROUP,
    OPTION,
    RUBY_TEXT,
    SELECT,
    SPECIAL,
    TABLE,
    TEMPLATE,
    P,
)
from simstream.kernels.jit import inlined, lean_helper

COUNTS: Final = 6
TAGS, DEEPEST, LEVELS, CLONES, ATTRIBUTES, CHOICES = range(COUNTS)
NUMBERS: Final = COUNTS + 9
DEPTH, LISTED, LAST_SERIAL, CONTAINERS, PARAGRAPHS, SELECTS, SELECT_START, FORMS, ROOT_ATTRIBUTES = range(
    COUNTS, NUMBERS
)
NAME, TRAITS, SERIAL = range(3)
SIGN, IS_OPEN = 1, 3
SCOPE: Final = BARRIER | CAPTION | CELL | TABLE | TEMPLATE | SELECT
BUTTON_SCOPE: Final = SCOPE | BUTTON
IMPLIED: Final = DD | LI | OPTION | OPTGROUP | P | RUBY_TEXT
"""Elements that end with their parent, without an end tag."""
IN_SVG: Final = 1 << 60
IN_MATH: Final = 1 << 61
HTML_POINT: Final = 1 << 62
"""Elements of SVG or MathML that contain HTML."""
FOREIGN: Final = IN_SVG | IN_MATH
_TOO_MANY: Final = 1 << 40
_MAX_ALIKE = 3
_MAX_ADOPTIONS = 8


class OpenElements(NamedTuple):
    """The state of reading one page; `make_open` has the sizes.

    The first COUNTS numbers are the result. They are the tags with comments and clones; the greatest depth; the sum
    of each node's containers; the clones of formatting elements; the most attributes of one tag; the sum over
    options of the tags before them in their select.
    """

    stack: NDArray[np.int64]  # (depth, 3) NAME (a hash), TRAITS, SERIAL of formatting or a marker; else 0
    listed: NDArray[np.int64]  # (2 depth, 4) NAME, or 0 of a marker; SIGN; SERIAL; IS_OPEN while on the stack, too
    num: NDArray[np.int64]  # (NUMBERS,) by TAGS to ROOT_ATTRIBUTES


def make_open(depth: int) -> OpenElements:
    """Return a state without open elements. An element beyond `depth` is not opened, and makes the greatest depth
    `depth` + 1."""
    return OpenElements(
        np.empty((depth, 3), np.int64), np.empty((2 * depth, 4), np.int64), np.zeros(NUMBERS, np.int64)
    )


@inlined
def top(state: OpenElements) -> int:
    """Return the traits of the innermost open element; 0 in the body itself."""
    depth = state.num[DEPTH]
    return int(state.stack[depth - 1, TRAITS]) if depth else 0


@lean_helper
def add_node(state: OpenElements) -> None:
    """Count an element or a comment."""
    state.num[LEVELS] += state.num[CONTAINERS]


@lean_helper
def push(state: OpenElements, name: int, traits: int, serial: int) -> None:
    """Open an element and count it."""
    depth = state.num[DEPTH]
    add_node(state)
    if depth == len(state.stack):
        state.num[DEEPEST] = depth + 1
        return
    state.stack[depth, NAME], state.stack[depth, TRAITS], state.stack[depth, SERIAL] = name, traits, serial
    state.num[DEPTH] = depth + 1
    state.num[DEEPEST] = max(state.num[DEEPEST], depth + 1)
    if traits & CONTAINER:
        state.num[CONTAINERS] += 1
    if traits & P:
        state.num[PARAGRAPHS] += 1
    if traits & SELECT:
        state.num[SELECTS] += 1
        state.num[SELECT_START] = state.num[TAGS]


@lean_helper
def _listed_at(state: OpenElements, serial: int) -> int:
    """Return where the list has this serial; -1 if it has left the list."""
    for i in range(state.num[LISTED] - 1, -1, -1):
        if state.listed[i, SERIAL] == serial:
            return i
    return -1


@lean_helper
def unlist(state: OpenElements, place: int) -> None:
    """Take one formatting element from the list."""
    for i in range(place, state.num[LISTED] - 1):
        for field in range(4):
            state.listed[i, field] = state.listed[i + 1, field]
    state.num[LISTED] -= 1


@lean_helper
def _left(state: OpenElements, traits: int, serial: int) -> None:
    """Update the other state for an element that has left the stack."""
    if traits & CONTAINER:
        state.num[CONTAINERS] -= 1
    if traits & P:
        state.num[PARAGRAPHS] -= 1
    if traits & SELECT:
        state.num[SELECTS] -= 1
    if serial:
        place = _listed_at(state, serial)
        if place >= 0 and traits & MARKED:
            state.num[LISTED] = place
        elif place >= 0:
            state.listed[place, IS_OPEN] = 0


@lean_helper
def pop_to(state: OpenElements, depth: int) -> None:
    """Close all elements but the outermost `depth`."""
    for i in range(state.num[DEPTH] - 1, depth - 1, -1):
        state.num[DEPTH] = i
        if (state.stack[i, SERIAL] != 0) | (state.stack[i, TRAITS] & (CONTAINER | P | SELECT) != 0):
            _left(state, state.stack[i, TRAITS], state.stack[i, SERIAL])


@lean_helper
def remove(state: OpenElements, place: int) -> None:
    """Take one element from within the stack."""
    _left(state, state.stack[place, TRAITS], state.stack[place, SERIAL])
    for i in range(place, state.num[DEPTH] - 1):
        for field in range(3):
            state.stack[i, field] = state.stack[i + 1, field]
    state.num[DEPTH] -= 1


@lean_helper
def nearest(state: OpenElements, wanted: int, barrier: int) -> int:
    """Return the place of the innermost element with one of the `wanted` traits, if no `barrier` is before it; else
    -1."""
    for i in range(state.num[DEPTH] - 1, -1, -1):
        if state.stack[i, TRAITS] & wanted:
            return i
        if state.stack[i, TRAITS] & barrier:
            return -1
    return -1


@lean_helper
def nearest_named(state: OpenElements, name: int, barrier: int) -> int:
    """Do what `nearest` does, by the hash of a name of HTML."""
    for i in range(state.num[DEPTH] - 1, -1, -1):
        if state.stack[i, NAME] == name and state.stack[i, TRAITS] & FOREIGN == 0:
            return i
        if state.stack[i, TRAITS] & barrier:
            return -1
    return -1


@lean_helper
def nearest_item(state: OpenElements, wanted: int, soft: int) -> int:
    """Do what `nearest` does; every special element is a barrier, except `soft` ones."""
    for i in range(state.num[DEPTH] - 1, -1, -1):
        if state.stack[i, TRAITS] & wanted:
            return i
        if state.stack[i, TRAITS] & (SPECIAL | HTML_POINT) and state.stack[i, TRAITS] & soft == 0:
            return -1
    return -1


@lean_helper
def pop_while(state: OpenElements, traits: int) -> None:
    """Close innermost elements as long as they have one of these traits."""
    depth = state.num[DEPTH]
    while depth and state.stack[depth - 1, TRAITS] & traits:
        depth -= 1
    pop_to(state, depth)


@lean_helper
def pop_until(state: OpenElements, traits: int) -> None:
    """Close innermost elements until one has one of these traits."""
    depth = state.num[DEPTH]
    while depth and state.stack[depth - 1, TRAITS] & traits == 0:
        depth -= 1
    pop_to(state, depth)


@lean_helper
def add_listed(state: OpenElements, name: int, sign: int) -> int:
    """Add a formatting element, or a marker (0, 0), to the list; returns its serial.

    The list keeps three of equal elements.
    """
    listed = state.num[LISTED]
    if name:
        alike, first = 0, 0
        for i in range(listed - 1, -1, -1):
            if state.listed[i, NAME] == 0:
                break
            if state.listed[i, SIGN] == sign:
                alike, first = alike + 1, i
        if alike == _MAX_ALIKE:
            unlist(state, first)
            listed -= 1
    state.num[LAST_SERIAL] += 1
    if listed == len(state.listed):
        state.num[CLONES] = _TOO_MANY
        return 0
    state.listed[listed, NAME], state.listed[listed, SIGN] = name, sign
    state.listed[listed, SERIAL], state.listed[listed, IS_OPEN] = state.num[LAST_SERIAL], 1
    state.num[LISTED] = listed + 1
    return int(state.num[LAST_SERIAL])


@lean_helper
def is_waiting(state: OpenElements) -> bool:
    """Whether formatting must be opened again before text or an inline element."""
    listed = state.num[LISTED]
    return bool(listed > 0 and state.listed[listed - 1, IS_OPEN] == 0)


@lean_helper
def reopen(state: OpenElements) -> None:
    """Open formatting again that was closed with its block. This cost grows with the square of a page."""
    first = state.num[LISTED]
    while first > 0 and state.listed[first - 1, IS_OPEN] == 0:
        first -= 1
    for i in range(first, state.num[LISTED]):
        state.num[CLONES] += 1
        state.num[TAGS] += 1
        state.listed[i, IS_OPEN] = 1
        push(state, state.listed[i, NAME], FORMATTING, state.listed[i, SERIAL])


@lean_helper
def find_listed(state: OpenElements, name: int) -> int:
    """Return where the list has the last formatting element of this name since the last marker; -1 without one."""
    for i in range(state.num[LISTED] - 1, -1, -1):
        if state.listed[i, NAME] == 0:
            return -1
        if state.listed[i, NAME] == name:
            return i
    return -1


@lean_helper
def _block_above(state: OpenElements, place: int) -> int:
    for i in range(place + 1, state.num[DEPTH]):
        if state.stack[i, TRAITS] & (SPECIAL | HTML_POINT):
            return i
    return -1


@lean_helper
def _carry_over(state: OpenElements, place: int, block: int) -> None:
    """Move the formatting element at `place` into `block`; close the other elements between them."""
    passed = 0
    for i in range(block - 1, place, -1):
        passed += 1
        listed = _listed_at(state, state.stack[i, SERIAL]) if state.stack[i, TRAITS] & FORMATTING else -1
        if listed >= 0 and passed <= _MAX_ALIKE:
            state.num[CLONES] += 1
            state.num[TAGS] += 1
            add_node(state)
            continue
        remove(state, i)
        if listed >= 0:
            unlist(state, listed)
        block -= 1
    name, traits, serial = state.stack[place, NAME], state.stack[place, TRAITS], state.stack[place, SERIAL]
    for i in range(place, block):
        for field in range(3):
            state.stack[i, field] = state.stack[i + 1, field]
    state.stack[block, NAME], state.stack[block, TRAITS], state.stack[block, SERIAL] = name, traits, serial
    state.num[CLONES] += 1
    state.num[TAGS] += 1
    add_node(state)


@lean_helper
def adopt(state: OpenElements, name: int) -> bool:
    """End a formatting element, even if blocks were opened within it.

    Returns False if the list has none of this name: then the tag counts as any other end tag.
    """
    for turn in range(_MAX_ADOPTIONS):
        listed = find_listed(state, name)
        if listed < 0:
            return turn > 0
        serial, place = state.listed[listed, SERIAL], -1
        for i in range(state.num[DEPTH] - 1, -1, -1):
            if state.stack[i, SERIAL] == serial:
                place = i
                break
        if place < 0:
            unlist(state, listed)
            return True
        for i in range(place + 1, state.num[DEPTH]):
            if state.stack[i, TRAITS] & SCOPE:
                return True
        block = _block_above(state, place)
        if block < 0:
            pop_to(state, place)
            unlist(state, listed)
            return True
        _carry_over(state, place, block)
    return True
