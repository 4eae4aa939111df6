"""The table of HTML elements: what a tree builder does with each, as bits by name.

The rules come from the HTML standard (html.spec.whatwg.org, "tree construction"), as far as they decide which
elements are open at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.jit import lean_helper

# Traits of an element's name, which hold while it is open. Ids of recipes depend on all, also on unused ones.
P: Final = 1 << 0
LI: Final = 1 << 1
DD: Final = 1 << 2
"""`dd` and `dt`."""
OPTION: Final = 1 << 3
OPTGROUP: Final = 1 << 4
BUTTON: Final = 1 << 5
HEADING: Final = 1 << 6
RUBY_TEXT: Final = 1 << 7
RUBY: Final = 1 << 8
CELL: Final = 1 << 9
CAPTION: Final = 1 << 10
ROW: Final = 1 << 11
ROWS: Final = 1 << 12
"""`tbody`, `thead` and `tfoot`."""
COLGROUP: Final = 1 << 13
TABLE: Final = 1 << 14
TEMPLATE: Final = 1 << 15
BARRIER: Final = 1 << 16
"""Ends the search for an open element, as cells, captions, tables, templates and selects do."""
LIST: Final = 1 << 17
SELECT: Final = 1 << 18
FORM: Final = 1 << 19
SPECIAL: Final = 1 << 20
"""End tags with unknown names do not reach beyond it."""
SOFT: Final = 1 << 21
"""Special, but does not end the search for an open list item."""
FORMATTING: Final = 1 << 22
"""Formatting: opens again in the next block if its block closed before it."""
ANCHOR: Final = 1 << 23
NOBR: Final = 1 << 24
ROOT: Final = 1 << 25
"""A page has one such element, which takes the attributes of all further tags."""
VOID: Final = 1 << 26
RAW: Final = 1 << 27
"""Contains text and no tags."""
SCRIPT: Final = 1 << 28
ENDLESS: Final = 1 << 29
"""Contains the rest of the page as text."""
CLOSES_P: Final = 1 << 30
INLINE: Final = 1 << 31
"""Opens formatting again that was closed too early."""
MARKED: Final = 1 << 32
"""Formatting from outside does not reach into it, and ends with it."""
BREAKOUT: Final = 1 << 33
"""Ends SVG and MathML."""
CONTAINER: Final = 1 << 34
"""A container. The extractor visits its whole content once more, to tell main content from the rest."""
SVG: Final = 1 << 35
MATH: Final = 1 << 36
SVG_POINT: Final = 1 << 37
"""An element of SVG or MathML that contains HTML."""
MATH_POINT: Final = 1 << 38
INPUT: Final = 1 << 39
BR: Final = 1 << 40
COLUMN: Final = 1 << 41


# Kinds of elements for `page_reader`, one number each: only these end a line of text. Other names are inline. The
# text of kinds from TEMPLATE_KIND to MATH_KIND is hidden, too.
LINE_KIND: Final = 1
"""Ends a line, and contains nothing that matters."""
P_KIND: Final = 2
LI_KIND: Final = 3
DD_KIND: Final = 4
HEADING_KIND: Final = 5
CELL_KIND: Final = 6
CAPTION_KIND: Final = 7
ROW_KIND: Final = 8
ROWS_KIND: Final = 9
TABLE_KIND: Final = 10
TEMPLATE_KIND: Final = 11
BUTTON_KIND: Final = 12
SELECT_KIND: Final = 13
SVG_KIND: Final = 14
MATH_KIND: Final = 15
POINT_KIND: Final = 16
"""HTML within SVG or MathML; no name has this kind."""
OBJECT_KIND: Final = 17
HIDDEN_KIND: Final = 18
"""`noscript`: a browser that runs scripts shows none of its text."""
MEDIA_KIND: Final = 19
"""A browser shows its text only if it cannot show the medium."""
DIV_KIND: Final = 20
ARTICLE_KIND: Final = 21
SECTION_KIND: Final = 22
MAIN_KIND: Final = 23
ASIDE_KIND: Final = 24
NAV_KIND: Final = 25
HEADER_KIND: Final = 26
FOOTER_KIND: Final = 27
LIST_KIND: Final = 28
BLOCKQUOTE_KIND: Final = 29
PRE_KIND: Final = 30
FIGURE_KIND: Final = 31
OTHER_KIND: Final = 32
"""The first of the kinds that have no rule of their own, one for each name."""

_KINDS: Final = (
    "form hr br option optgroup legend col colgroup frameset",
    "p",
    "li",
    "dd dt",
    "h1 h2 h3 h4 h5 h6",
    "td th",
    "caption",
    "tr",
    "tbody tfoot thead",
    "table",
    "template",
    "button",
    "select",
    "svg",
    "math",
    "",
    "applet marquee object",
    "noscript",
    "audio canvas video",
    "div",
    "article",
    "section",
    "main",
    "aside",
    "nav",
    "header",
    "footer",
    "ol ul",
    "blockquote",
    "pre listing",
    "figure",
    *("address", "center", "details", "dialog", "dir", "dl", "fieldset", "figcaption", "hgroup", "menu"),
    *("search", "summary"),
)
KINDS: Final = len(_KINDS) + 1


class ElementNames(NamedTuple):
    """An open-addressing table by the hashes of names, probed linearly; hash 0 marks a free place."""

    hashes: NDArray[np.int64]  # (2^p,)
    traits: NDArray[np.int64]  # (2^p,)
    kinds: NDArray[np.int64]  # (2^p,)


FNV_BASIS: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3
_PLACES: Final = 512

_LISTS: Final = (
    (P, "p"),
    (LI, "li"),
    (DD, "dd dt"),
    (OPTION, "option"),
    (OPTGROUP, "optgroup"),
    (BUTTON, "button"),
    (HEADING, "h1 h2 h3 h4 h5 h6"),
    (RUBY_TEXT, "rb rp rt rtc"),
    (RUBY, "ruby"),
    (CELL, "td th"),
    (CAPTION, "caption"),
    (ROW, "tr"),
    (ROWS, "tbody tfoot thead"),
    (COLGROUP, "colgroup"),
    (COLUMN, "col"),
    (TABLE, "table"),
    (TEMPLATE, "template"),
    (BARRIER, "applet marquee object"),
    (LIST, "ol ul"),
    (SELECT, "select"),
    (FORM, "form"),
    (SOFT, "address div p"),
    (
        SPECIAL,
        "address applet article aside blockquote button caption center colgroup dd details dir div dl dt fieldset"
        " figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup li listing main marquee menu nav noscript"
        " object ol p pre search section select summary table tbody td template tfoot th thead tr ul",
    ),
    (FORMATTING, "a b big code em font i nobr s small strike strong tt u"),
    (ANCHOR, "a"),
    (NOBR, "nobr"),
    (ROOT, "html head body"),
    (
        VOID,
        "area base basefont bgsound br col embed frame frameset hr image img input keygen link meta param source"
        " track wbr",
    ),
    (RAW, "iframe noembed noframes script style textarea title xmp"),
    (SCRIPT, "script"),
    (ENDLESS, "plaintext"),
    (
        CLOSES_P,
        "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure footer"
        " form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre search section"
        " summary ul xmp",
    ),
    (
        INLINE,
        "applet area br button embed image img input keygen marquee math noscript object optgroup option select svg"
        " wbr xmp",
    ),
    (MARKED, "applet caption marquee object td template th"),
    (
        BREAKOUT,
        "b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 h6 head hr i img li listing"
        " menu meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var",
    ),
    (
        CONTAINER,
        "address article aside blockquote center details dialog dir div dl fieldset figure footer form header"
        " hgroup main menu nav ol pre search section ul",
    ),
    (SVG, "svg"),
    (MATH, "math"),
    (SVG_POINT, "desc foreignobject title"),
    (MATH_POINT, "mi mn mo ms mtext"),
    (INPUT, "input"),
    (BR, "br"),
)
_RULED: Final = SPECIAL | CLOSES_P | ROOT | VOID | RAW | RUBY_TEXT
"""A name without any of these traits is inline, as all unknown names are."""


def hash_of(name: str) -> int:
    """Return FNV-1a of 64 bits over the name in lower case, as the kernel computes it."""
    value = FNV_BASIS
    for byte in name.lower().encode():
        value = (value ^ byte) * FNV_PRIME & (1 << 64) - 1
    return value


def signed_hash_of(name: str) -> int:
    """Return `hash_of` as the kernel holds it."""
    value = hash_of(name)
    return value - (value >> 63 << 64)


def traits_by_name() -> dict[str, int]:
    """Return the traits of every name that has any."""
    found: dict[str, int] = {}
    for trait, names in _LISTS:
        for name in names.split():
            found[name] = found.get(name, 0) | trait
    return {name: traits if traits & _RULED else traits | INLINE for name, traits in found.items()}


def kinds_by_name() -> dict[str, int]:
    """Return the kind of every name that is not inline."""
    return {name: kind for kind, group in enumerate(_KINDS, LINE_KIND) for name in group.split()}


def _table() -> ElementNames:
    names = ElementNames(*(np.zeros(_PLACES, np.int64) for _ in ElementNames._fields))
    kinds = kinds_by_name()
    traits_of_all = dict.fromkeys(kinds, INLINE) | traits_by_name()
    for name, traits in traits_of_all.items():
        value = hash_of(name)
        at = (value ^ value >> 32) % _PLACES
        while names.hashes[at]:
            at = (at + 1) % _PLACES
        names.hashes[at], names.traits[at] = signed_hash_of(name), traits
        names.kinds[at] = kinds.get(name, 0)
    return names


NAMES: Final = _table()


@lean_helper
def traits_of(names: ElementNames, name: int) -> int:
    """Return the traits of the name with this hash; an unknown one is inline."""
    at = place_of(names, name)
    return int(names.traits[at]) if at >= 0 else INLINE


@lean_helper
def place_of(names: ElementNames, name: int) -> int:
    """Return where the table has the name with this hash, or -1."""
    mask = np.uint64(names.hashes.size - 1)
    at = (np.uint64(name) ^ (np.uint64(name) >> np.uint64(32))) & mask
    while names.hashes[at]:
        if names.hashes[at] == name:
            return np.int64(at)  # type: ignore[return-value]  # numba's int is this one
        at = (at + np.uint64(1)) & mask
    return -1
