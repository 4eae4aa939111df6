"""HTML's rules for what a start tag closes before a new element of a page, as far as `page_parts` keeps elements.

Source of the rules: the HTML standard (html.spec.whatwg.org, "the stack of open elements"), with three
differences: formatting that a block closes is not opened again, a form is no element, and text between the parts of
a table stays there.
"""

from __future__ import annotations

import numpy as np

from simstream.kernels.html.element_names import (
    BUTTON_KIND,
    CELL_KIND,
    DD_KIND,
    HEADING_KIND,
    LI_KIND,
    MATH_KIND,
    MATH_POINT,
    P_KIND,
    POINT_KIND,
    ROW_KIND,
    ROWS_KIND,
    SELECT_KIND,
    SVG_KIND,
    SVG_POINT,
    TABLE_KIND,
    TEMPLATE_KIND,
)
from simstream.kernels.html.page_parts import DEPTH, FIRM, OPEN_KIND, SEARCH_END, PageParts, pop_to, push
from simstream.kernels.jit import lean_helper


@lean_helper
def kind_at(parts: PageParts, place: int) -> int:
    """Return the kind of the open element at this place."""
    return int(parts.stack[np.uint64(place), OPEN_KIND])


@lean_helper
def is_foreign(parts: PageParts) -> bool:
    """Whether tags here belong to SVG or MathML."""
    return kind_at(parts, parts.num[DEPTH] - 1) in (SVG_KIND, MATH_KIND)


@lean_helper
def open_foreign(parts: PageParts, kind: int, traits: int) -> None:
    """Open an element within SVG or MathML, if it matters: one of these, or one that contains HTML."""
    space = kind_at(parts, parts.num[DEPTH] - 1)
    if kind == space:
        push(parts, kind, 0, True, False, False)
    elif (space == SVG_KIND and traits & SVG_POINT) or (space == MATH_KIND and traits & MATH_POINT):
        push(parts, POINT_KIND, 0, True, True, True)


@lean_helper
def close_p(parts: PageParts) -> None:
    """Close the open paragraph, if it can be reached."""
    place = parts.last[P_KIND]
    if place >= 0:
        barrier = parts.stack[np.uint64(parts.num[DEPTH] - 1), SEARCH_END]
        if place > barrier and place > parts.last[BUTTON_KIND]:
            pop_to(parts, place)


@lean_helper
def clear_table(parts: PageParts, kind: int) -> bool:
    """Close what a part of a table ends; return False if no table is open."""
    last = parts.last
    table, outside = last[TABLE_KIND], last[TEMPLATE_KIND]
    if table <= outside:
        return False
    place = table
    if kind in (ROW_KIND, CELL_KIND):
        place = max(place, last[ROWS_KIND])
    if kind == CELL_KIND:
        place = max(place, last[ROW_KIND])
    pop_to(parts, place + 1)
    return True


@lean_helper
def clear(parts: PageParts, kind: int) -> bool:
    """Close what an element of this kind ends; return False if it is not opened."""
    top = parts.num[DEPTH] - 1
    if kind in (LI_KIND, DD_KIND):
        place = parts.stack[top, FIRM]
        if parts.stack[place, OPEN_KIND] == kind:
            pop_to(parts, place)
        close_p(parts)
    elif kind == HEADING_KIND:
        if parts.stack[top, OPEN_KIND] == HEADING_KIND:
            pop_to(parts, top)
    elif kind == BUTTON_KIND:
        if parts.last[BUTTON_KIND] > parts.stack[top, SEARCH_END]:
            pop_to(parts, parts.last[BUTTON_KIND])
    elif kind == SELECT_KIND:
        place = parts.last[SELECT_KIND]
        if place >= 0 and place >= parts.stack[top, SEARCH_END]:
            pop_to(parts, place)
            return False
    return True
