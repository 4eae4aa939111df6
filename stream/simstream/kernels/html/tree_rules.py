"""HTML's rules for what a start tag opens and closes, and what an end tag closes.

Some rules depend on more than the open elements (is this the head, are there quirks). Then this module takes the
answer with more open elements.
"""

from __future__ import annotations

from typing import Final

from simstream.kernels.html.element_names import (
    ANCHOR,
    BARRIER,
    BR,
    BREAKOUT,
    BUTTON,
    CAPTION,
    CELL,
    CLOSES_P,
    COLGROUP,
    COLUMN,
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
    NOBR,
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
from simstream.kernels.html.open_elements import (
    ATTRIBUTES,
    BUTTON_SCOPE,
    CHOICES,
    DEPTH,
    FOREIGN,
    FORMS,
    HTML_POINT,
    IMPLIED,
    IN_MATH,
    IN_SVG,
    NAME,
    PARAGRAPHS,
    ROOT_ATTRIBUTES,
    SCOPE,
    SELECT_START,
    SELECTS,
    SERIAL,
    TAGS,
    TRAITS,
    OpenElements,
    add_listed,
    add_node,
    adopt,
    find_listed,
    is_waiting,
    nearest,
    nearest_item,
    nearest_named,
    pop_to,
    pop_until,
    pop_while,
    push,
    remove,
    reopen,
    top,
    unlist,
)
from simstream.kernels.jit import inlined, lean_helper

_TABLE_PART: Final = CAPTION | CELL | COLGROUP | COLUMN | ROW | ROWS
_TABLE_SCOPE: Final = TABLE | TEMPLATE
_CLOSING: Final = ANCHOR | BUTTON | CLOSES_P | DD | HEADING | INPUT | LI | NOBR | OPTGROUP | OPTION | RUBY_TEXT
_UNNAMED: Final = 1
"""The name of an element that no tag has opened."""


@inlined
def is_foreign(traits: int) -> bool:
    """Whether tags within such an element belong to SVG or MathML."""
    return traits & FOREIGN != 0 and traits & HTML_POINT == 0


@lean_helper
def start_tag(state: OpenElements, name: int, traits: int, attributes: int, sign: int, empty: bool) -> bool:
    """Process one start tag; `sign` is a hash of name and attributes, `empty` says that the tag ends with `/>`.

    Returns whether the element belongs to HTML: only then can it hold raw text.
    """
    state.num[ATTRIBUTES] = max(state.num[ATTRIBUTES], attributes)
    if traits & ROOT:
        state.num[ROOT_ATTRIBUTES] += attributes
        state.num[ATTRIBUTES] = max(state.num[ATTRIBUTES], state.num[ROOT_ATTRIBUTES])
        return True
    if is_foreign(top(state)):
        if traits & BREAKOUT == 0:
            _foreign_tag(state, name, traits, empty)
            return False
        depth = state.num[DEPTH]
        while depth and is_foreign(state.stack[depth - 1, TRAITS]):
            depth -= 1
        pop_to(state, depth)
    if traits & _TABLE_PART:
        _table_tag(state, name, traits)
        return True
    if traits & SELECT and state.num[SELECTS]:
        place = nearest(state, SELECT, SCOPE & ~SELECT)
        if place >= 0:
            pop_to(state, place)
            return True
    if traits & _CLOSING:
        _close_before(state, name, traits)
    if traits & INLINE and is_waiting(state):
        reopen(state)
    _open(state, name, traits, sign, empty)
    return True


@lean_helper
def _foreign_tag(state: OpenElements, name: int, traits: int, empty: bool) -> None:
    if empty:
        add_node(state)
        return
    space = top(state) & FOREIGN
    is_point = (space == IN_SVG and traits & SVG_POINT) or (space == IN_MATH and traits & MATH_POINT)
    push(state, name, space | (HTML_POINT | BARRIER if is_point else 0), 0)


@lean_helper
def _table_tag(state: OpenElements, name: int, traits: int) -> None:
    """Process a part of a table: close the parts that cannot hold it, and open the parts that it needs."""
    if nearest(state, TABLE | TEMPLATE, 0) < 0:
        return
    if traits & COLUMN:
        pop_until(state, COLGROUP | _TABLE_SCOPE)
        add_node(state)
        return
    if traits & ROW:
        pop_until(state, ROWS | _TABLE_SCOPE)
    elif traits & CELL:
        pop_until(state, ROW | ROWS | _TABLE_SCOPE)
    else:
        pop_until(state, _TABLE_SCOPE)
    if traits & (ROW | CELL) and top(state) & TABLE:
        push(state, _UNNAMED, ROWS | SPECIAL, 0)
    if traits & CELL and top(state) & ROWS:
        push(state, _UNNAMED, ROW | SPECIAL, 0)
    push(state, name, traits, add_listed(state, 0, 0) if traits & MARKED else 0)


@lean_helper
def _close(state: OpenElements, place: int) -> None:
    """Close the element at `place` and all elements within it; do nothing for -1."""
    if place >= 0:
        pop_to(state, place)


@lean_helper
def _close_before(state: OpenElements, name: int, traits: int) -> None:
    """Close the elements that end where such an element begins."""
    if traits & LI:
        _close(state, nearest_item(state, LI, SOFT))
    if traits & DD:
        _close(state, nearest_item(state, DD, SOFT))
    if traits & CLOSES_P and state.num[PARAGRAPHS]:
        _close(state, nearest(state, P, BUTTON_SCOPE))
    if traits & HEADING:
        pop_while_once(state, HEADING)
    if traits & BUTTON:
        _close(state, nearest(state, BUTTON, SCOPE))
    if traits & INPUT and state.num[SELECTS]:
        _close(state, nearest(state, SELECT, SCOPE & ~SELECT))
    if traits & (OPTION | OPTGROUP):
        if state.num[SELECTS]:
            pop_while(state, IMPLIED & ~OPTGROUP if traits & OPTION else IMPLIED)
        else:
            pop_while_once(state, OPTION)
    if traits & RUBY_TEXT and nearest(state, RUBY, SCOPE) >= 0:
        pop_while(state, IMPLIED)
    if traits & ANCHOR:
        listed = find_listed(state, name)
        if listed >= 0:
            _drop_anchor(state, name, state.listed[listed, SERIAL])
    if traits & NOBR and nearest(state, NOBR, SCOPE) >= 0:
        adopt(state, name)


@lean_helper
def _drop_anchor(state: OpenElements, name: int, serial: int) -> None:
    """Close an anchor where another one begins, even if its end tag would not reach it."""
    adopt(state, name)
    listed = find_listed(state, name)
    if listed >= 0 and state.listed[listed, SERIAL] == serial:
        for i in range(state.num[DEPTH] - 1, -1, -1):
            if state.stack[i, SERIAL] == serial:
                remove(state, i)
                break
        unlist(state, listed)


@lean_helper
def pop_while_once(state: OpenElements, traits: int) -> None:
    """Close the innermost element if it has one of these traits."""
    if top(state) & traits:
        pop_to(state, state.num[DEPTH] - 1)


@lean_helper
def _open(state: OpenElements, name: int, traits: int, sign: int, empty: bool) -> None:
    if traits & FORM:
        if state.num[FORMS]:
            return
        state.num[FORMS] = 1
    if traits & (SVG | MATH):
        if empty:
            add_node(state)
        else:
            push(state, name, IN_SVG if traits & SVG else IN_MATH, 0)
        return
    if traits & VOID or (traits & SELECT and state.num[SELECTS] < 0):
        add_node(state)
        return
    if traits & (OPTION | OPTGROUP) and state.num[SELECTS]:
        state.num[CHOICES] += state.num[TAGS] - state.num[SELECT_START]
    serial = 0
    if traits & FORMATTING:
        serial = add_listed(state, name, sign)
    elif traits & MARKED:
        serial = add_listed(state, 0, 0)
    push(state, name, traits, serial)


@lean_helper
def end_tag(state: OpenElements, name: int, traits: int) -> None:
    """Process one end tag; it closes nothing if no element of its name can be reached."""
    if is_foreign(top(state)) and _ended_foreign(state, name, traits):
        return
    if traits & (ROOT | COLUMN):
        return
    if traits & BR:
        if is_waiting(state):
            reopen(state)
        add_node(state)
    elif traits & FORMATTING:
        if not adopt(state, name):
            _any_other_end(state, name)
    elif traits & P:
        place = nearest(state, P, BUTTON_SCOPE)
        _close(state, place)
        if place < 0:
            add_node(state)
    elif traits & FORM:
        _end_form(state, name)
    elif traits & HEADING:
        _close(state, nearest(state, HEADING, SCOPE))
    elif traits & LI:
        _close(state, nearest(state, LI, SCOPE | LIST))
    elif traits & (_TABLE_PART | TABLE):
        _close(state, nearest_named(state, name, _TABLE_SCOPE))
    elif traits & TEMPLATE:
        _close(state, nearest(state, TEMPLATE, 0))
    elif traits & (SPECIAL | CLOSES_P):
        _close(state, nearest_named(state, name, SCOPE))
    else:
        _any_other_end(state, name)


@lean_helper
def _ended_foreign(state: OpenElements, name: int, traits: int) -> bool:
    """Close an element of SVG or MathML; return False if the tag must be read as HTML."""
    if traits & (P | BR):
        depth = state.num[DEPTH]
        while depth and is_foreign(state.stack[depth - 1, TRAITS]):
            depth -= 1
        pop_to(state, depth)
        return False
    for i in range(state.num[DEPTH] - 1, -1, -1):
        if state.stack[i, TRAITS] & FOREIGN == 0:
            return False
        if state.stack[i, NAME] == name:
            pop_to(state, i)
            return True
    return True


@lean_helper
def _end_form(state: OpenElements, name: int) -> None:
    """Remove a form, but not the elements that were opened within it."""
    state.num[FORMS] = 0
    place = nearest_named(state, name, SCOPE)
    if place >= 0:
        pop_while(state, IMPLIED)
        remove(state, place)


@lean_helper
def _any_other_end(state: OpenElements, name: int) -> None:
    for i in range(state.num[DEPTH] - 1, -1, -1):
        if state.stack[i, NAME] == name and state.stack[i, TRAITS] & FOREIGN == 0:
            pop_to(state, i)
            return
        if state.stack[i, TRAITS] & (SPECIAL | HTML_POINT):
            return
