"""A plain count of what HTML has open: names of elements, and formatting that waits for the next text.

Source of the rules: the HTML standard (html.spec.whatwg.org, "tree construction"). Without a rule that closes an
element, the count can be too low: the element stays open, and its end later closes all that is in it. So every rule
that closes is here, and only these are left out:

- Formatting that ends around a block leaves the stack, without a clone in the block: the count is a level too low.
- What a table or a select does not take counts as within it; a form may begin if the last one ended with an element
  around it; a second `nobr` ends none: the count is too high.
- `svg` in `annotation-xml` counts as MathML, and `encoding` is read without character references: either way.

A tag costs at most a few walks over what is open and what waits, and `make_open` bounds both.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.element_names import (
    ANCHOR,
    BR,
    BREAKOUT,
    BUTTON,
    CAPTION,
    CELL,
    CLOSES_P,
    CONTAINER,
    DD,
    FORM,
    FORMATTING,
    HEADING,
    INLINE,
    INPUT,
    LI,
    LIST,
    MARKED,
    MATH,
    MATH_POINT,
    OPTGROUP,
    OPTION,
    ROOT,
    ROW,
    ROWS,
    RUBY,
    RUBY_TEXT,
    SELECT,
    SOFT,
    SPECIAL,
    SVG,
    SVG_POINT,
    TABLE,
    TEMPLATE,
    VOID,
    P,
)
from simstream.kernels.html.tags import SPACE, HtmlBytes, is_kind
from simstream.kernels.jit import inlined, lean_helper

COUNTS: Final = 6
TAGS, DEEPEST, LEVELS, CLONES, ATTRIBUTES, CHOICES = range(COUNTS)
NUMBERS: Final = COUNTS + 7
DEPTH, WAITING, OUTSIDE, CONTAINERS, PARAGRAPHS, SELECT_START, ROOT_ATTRIBUTES = range(COUNTS, NUMBERS)
NAME, SIGN, TRAITS = range(3)
_FOREIGN: Final = SVG | MATH
_HTML_POINT: Final = 1 << 60
"""An element of SVG or MathML that contains HTML."""
ANNOTATION: Final = 1 << 62
"""`annotation-xml`. It contains HTML if MATH_POINT is set, too."""
_FIRM: Final = 1 << 61
"""Ends the search for an open item of a list."""
_SCOPE: Final = MARKED | SELECT | TABLE | ANNOTATION | _HTML_POINT
_TABLE_SCOPE: Final = TABLE | TEMPLATE
_TABLE_PART: Final = CAPTION | CELL | ROW | ROWS
_IMPLIED: Final = P | LI | DD | OPTION | RUBY_TEXT
"""Elements that may end without an end tag."""


class OpenTags(NamedTuple):
    """The state of reading one page; `make_open` has the sizes.

    The first COUNTS numbers are the result. They are the tags with comments and clones; the greatest depth; the sum
    of each node's containers; the clones of formatting elements; the most attributes of one tag; the sum over
    options of the tags before them in their select.
    """

    stack: NDArray[np.int64]  # (depth, 3) NAME (a hash), SIGN (a hash of formatting; a cell's OUTSIDE), TRAITS
    waiting: NDArray[np.int64]  # (2 depth, 2) NAME and SIGN of formatting closed with its block; outermost last
    num: NDArray[np.int64]  # (NUMBERS,) TAGS to ROOT_ATTRIBUTES; the first OUTSIDE of WAITING wait for a cell's end


def make_open(depth: int) -> OpenTags:
    """Return a state without open elements. More than `depth` open elements make the greatest depth `depth` + 1."""
    return OpenTags(*(np.zeros(shape, np.int64) for shape in ((depth, 3), (2 * depth, 2), NUMBERS)))


@inlined
def _top(state: OpenTags) -> int:
    """Return the traits of the innermost open element; 0 in the body itself."""
    depth = state.num[DEPTH]
    return int(state.stack[depth - 1, TRAITS]) if depth else 0


@inlined
def is_foreign(state: OpenTags) -> bool:
    """Whether tags here belong to SVG or MathML."""
    return _top(state) & _FOREIGN != 0 and _top(state) & _HTML_POINT == 0


@lean_helper
def add_node(state: OpenTags) -> None:
    """Count an element or a comment."""
    state.num[LEVELS] += state.num[CONTAINERS]


@lean_helper
def _push(state: OpenTags, name: int, traits: int, sign: int) -> None:
    depth = state.num[DEPTH]
    state.num[DEEPEST] = max(state.num[DEEPEST], depth + 1)
    if depth == len(state.stack):
        return
    if traits & MARKED:
        sign, state.num[OUTSIDE] = state.num[OUTSIDE], state.num[WAITING]
    state.stack[depth, NAME], state.stack[depth, SIGN], state.stack[depth, TRAITS] = name, sign, traits
    state.num[DEPTH] = depth + 1
    state.num[CONTAINERS] += traits & CONTAINER != 0
    state.num[PARAGRAPHS] += traits & P != 0


@lean_helper
def _wait(state: OpenTags, name: int, sign: int) -> None:
    """Let formatting wait for the next text, at most three alike. More than `waiting` holds are too many clones."""
    end, alike = state.num[WAITING], 0
    for i in range(state.num[OUTSIDE], end):
        alike += state.waiting[i, SIGN] == sign
    if end == len(state.waiting):
        state.num[CLONES] = 1 << 40
    elif alike < 3:
        state.waiting[end, NAME], state.waiting[end, SIGN] = name, sign
        state.num[WAITING] = end + 1


@lean_helper
def _pop_to(state: OpenTags, depth: int) -> None:
    """Close all elements but the outermost `depth`; none for -1."""
    while state.num[DEPTH] > depth >= 0:
        state.num[DEPTH] -= 1
        at = state.num[DEPTH]
        traits = state.stack[at, TRAITS]
        state.num[CONTAINERS] -= traits & CONTAINER != 0
        state.num[PARAGRAPHS] -= traits & P != 0
        if traits & FORMATTING:
            _wait(state, state.stack[at, NAME], state.stack[at, SIGN])
        elif traits & MARKED:
            state.num[WAITING], state.num[OUTSIDE] = state.num[OUTSIDE], state.stack[at, SIGN]


@lean_helper
def _pop_while(state: OpenTags, traits: int) -> None:
    """Close the innermost elements that have one of these traits."""
    while _top(state) & traits:
        _pop_to(state, state.num[DEPTH] - 1)


@lean_helper
def _leave_foreign(state: OpenTags) -> None:
    """Close the innermost elements of SVG and MathML, up to one that contains HTML."""
    while is_foreign(state):
        _pop_to(state, state.num[DEPTH] - 1)


@lean_helper
def _take_out(state: OpenTags, place: int) -> None:
    """Close one element, and leave those within it open."""
    state.num[CONTAINERS] -= state.stack[place, TRAITS] & CONTAINER != 0
    state.num[DEPTH] -= 1
    for i in range(place, state.num[DEPTH]):
        for field in range(3):
            state.stack[i, field] = state.stack[i + 1, field]


@lean_helper
def _nearest(state: OpenTags, name: int, wanted: int, barrier: int) -> int:
    """Return where the innermost element of this name (0: none) or trait is; -1 if none is before a `barrier`."""
    for i in range(state.num[DEPTH] - 1, -1, -1):
        traits = state.stack[i, TRAITS]
        if traits & wanted or (name and state.stack[i, NAME] == name and traits & _FOREIGN == 0):
            return i
        if traits & barrier:
            return -1
    return -1


@lean_helper
def _reopen(state: OpenTags) -> None:
    """Open formatting again that waits. This cost grows with the square of a page."""
    while state.num[WAITING] > state.num[OUTSIDE]:
        state.num[WAITING] -= 1
        state.num[CLONES] += 1
        state.num[TAGS] += 1
        add_node(state)
        at = state.num[WAITING]
        _push(state, state.waiting[at, NAME], FORMATTING, state.waiting[at, SIGN])


@inlined
def add_text(state: OpenTags, html: HtmlBytes, start: int, end: int) -> None:
    """Process a text. It opens formatting again, unless it is empty, or space between parts of a table."""
    if _top(state) & (TABLE | ROWS | ROW):
        while start < end and is_kind(html.bytes[start], SPACE):
            start += 1
    if start < end and not is_foreign(state):
        _reopen(state)


@lean_helper
def start_tag(state: OpenTags, name: int, traits: int, attributes: int, sign: int, empty: bool) -> bool:
    """Process one start tag; `sign` is a hash of name and attributes, `empty` says that the tag ends with `/>`.

    Returns whether the element belongs to HTML: only then can it hold raw text.
    """
    if traits & ROOT:
        attributes += state.num[ROOT_ATTRIBUTES]
        state.num[ROOT_ATTRIBUTES] = attributes
    state.num[ATTRIBUTES] = max(state.num[ATTRIBUTES], attributes)
    space = _top(state) & _FOREIGN if is_foreign(state) and traits & BREAKOUT == 0 else 0
    if space:
        is_point = (space == SVG and traits & SVG_POINT) or (space == MATH and traits & MATH_POINT)
        kept = ANNOTATION | SPECIAL | _FIRM if space == MATH and traits & ANNOTATION else 0
        traits = space | (_HTML_POINT if is_point else 0) | kept
    else:
        _leave_foreign(state)
        if not _close_before(state, name, traits):
            return True
        if traits & INLINE:
            _reopen(state)
        traits |= _FIRM if traits & (SPECIAL | SOFT) == SPECIAL else 0
    add_node(state)
    if traits & VOID == 0 and not (empty and traits & _FOREIGN):
        _push(state, name, traits, sign)
    return space == 0


@lean_helper
def _close_before(state: OpenTags, name: int, traits: int) -> bool:
    """Close the elements that end where such an element begins; return False if it does not begin."""
    if traits & ROOT or (traits & FORM and _nearest(state, 0, FORM, 0) >= 0):
        return False
    if traits & _TABLE_PART:
        parents = _TABLE_SCOPE | (ROWS if traits & (ROW | CELL) else 0) | (ROW if traits & CELL else 0)
        place = _nearest(state, 0, parents, 0)
        _pop_to(state, place + 1 if place >= 0 else -1)
        if traits & (ROW | CELL) and _top(state) & TABLE:
            _push(state, 0, ROWS | SPECIAL | _FIRM, 0)
        if traits & CELL and _top(state) & ROWS:
            _push(state, 0, ROW | SPECIAL | _FIRM, 0)
        return place >= 0
    if traits & (LI | DD):
        _pop_to(state, _nearest(state, 0, traits & (LI | DD), _FIRM | _HTML_POINT))
    if traits & CLOSES_P and state.num[PARAGRAPHS]:
        _pop_to(state, _nearest(state, 0, P, _SCOPE | BUTTON))
    if traits & BUTTON:
        _pop_to(state, _nearest(state, 0, BUTTON, _SCOPE))
    if traits & ANCHOR:
        _end_formatting(state, name, MARKED)
    if traits & HEADING and _top(state) & HEADING:
        _pop_to(state, state.num[DEPTH] - 1)
    if traits & RUBY_TEXT and _nearest(state, 0, RUBY, _SCOPE) >= 0:
        _pop_while(state, _IMPLIED | OPTGROUP)
    if traits & TABLE:
        _pop_to(state, _nearest(state, 0, TABLE, CELL | CAPTION | TEMPLATE))
    if traits & (OPTION | OPTGROUP | SELECT | INPUT):
        select = _nearest(state, 0, SELECT, _SCOPE & ~SELECT)
        if traits & SELECT:
            state.num[SELECT_START] = state.num[TAGS]
            _pop_to(state, select)
            return select < 0
        if traits & INPUT:
            _pop_to(state, select)
            return True
        _pop_while(state, _IMPLIED | (traits & OPTGROUP) if select >= 0 else OPTION)
        state.num[CHOICES] += state.num[TAGS] - state.num[SELECT_START] if select >= 0 else 0
    return True


@lean_helper
def end_tag(state: OpenTags, name: int, traits: int) -> None:
    """Process one end tag; it closes nothing if no element of its name can be reached. `</p>` then makes one."""
    if _ended_foreign(state, name, traits):
        return
    if traits & FORMATTING:
        _end_formatting(state, name, _SCOPE)
        return
    if traits & FORM:
        _end_form(state)
        return
    if traits & BR:
        _reopen(state)
    if traits & TEMPLATE:
        barrier = 0
    elif traits & (TABLE | _TABLE_PART):
        barrier = _TABLE_SCOPE
    elif traits & (SPECIAL | CLOSES_P):
        barrier = _SCOPE | (LIST if traits & LI else 0) | (BUTTON if traits & P else 0)
    else:
        barrier = SPECIAL | _HTML_POINT
    place = _nearest(state, name, traits & HEADING, barrier)
    if traits & (P | BR) and place < 0:
        add_node(state)
    else:
        _pop_to(state, place)


@lean_helper
def _ended_foreign(state: OpenTags, name: int, traits: int) -> bool:
    """Close an element of SVG or MathML; return False if the tag must be read as HTML."""
    if traits & (P | BR):
        _leave_foreign(state)
    at = state.num[DEPTH] - 1
    while at >= 0 and state.stack[at, TRAITS] & _FOREIGN:
        if state.stack[at, NAME] == name:
            _pop_to(state, at)
            return True
        at -= 1
    return False


@lean_helper
def _end_form(state: OpenTags) -> None:
    """Take a form out, and leave what was opened within it. A form around a cell stays, and another may begin."""
    place = _nearest(state, 0, FORM, 0)
    if place >= 0 and _nearest(state, 0, FORM, _SCOPE) >= 0:
        _pop_while(state, _IMPLIED | OPTGROUP)
        _take_out(state, place)
    elif place >= 0:
        state.stack[place, TRAITS] &= ~FORM


@lean_helper
def _end_formatting(state: OpenTags, name: int, barrier: int) -> None:
    """End a formatting element, which waits or is open; blocks that were opened within it stay open."""
    last = state.num[WAITING] - 1
    for i in range(state.num[OUTSIDE], last + 1):
        if state.waiting[i, NAME] == name:
            for j in range(i, last):
                for field in range(2):
                    state.waiting[j, field] = state.waiting[j + 1, field]
            state.num[WAITING] = last
            return
    place = _nearest(state, name, 0, barrier)
    if place >= 0:
        if _nearest(state, 0, SPECIAL | _HTML_POINT, 0) < place:
            _pop_to(state, place + 1)
        _take_out(state, place)
