"""Counts the work that HTML gives a tree builder, in one pass over its bytes.

A tree builder's cost grows with the square of some of these counts: nested elements, formatting that opens again in
every block, attributes of one tag, options of one list. Source of the rules: the HTML standard
(html.spec.whatwg.org, "tokenization").
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.element_names import (
    BREAKOUT,
    ENDLESS,
    FORMATTING,
    MATH_POINT,
    RAW,
    SCRIPT,
    ElementNames,
    signed_hash_of,
    traits_of,
)
from simstream.kernels.html.open_tags import (
    ANNOTATION,
    TAGS,
    OpenTags,
    add_node,
    add_text,
    end_tag,
    is_foreign,
    start_tag,
)
from simstream.kernels.html.tags import (
    ANY_NAME,
    BANG,
    LETTER,
    LT,
    PRIME,
    QUESTION,
    SLASH,
    HtmlBytes,
    declaration_end,
    find,
    is_kind,
    next_attribute,
    raw_end,
    script_end,
    tag_end,
    tag_name,
    text_hash,
)
from simstream.kernels.jit import lean_helper, sealed_kernel

_CHECK_EVERY: Final = 64
_FONT, _COLOR, _FACE, _SIZE = (signed_hash_of(name) for name in ("font", "color", "face", "size"))
_ANNOTATION, _ENCODING = signed_hash_of("annotation-xml"), signed_hash_of("encoding")
_HTML, _XHTML = signed_hash_of("text/html"), signed_hash_of("application/xhtml+xml")
_SUP: Final = signed_hash_of("sup")
"""The standard ends SVG and MathML at `sup`, and the parser does not."""


@sealed_kernel
def survey(
    html: HtmlBytes, names: ElementNames, limits: NDArray[np.int64], slopes: NDArray[np.int64], state: OpenTags
) -> None:
    """Count into `state.num`; stop soon after a count i passes `limits[i] + slopes[i] * tags / 1000`.

    `html.bytes` is UTF-8, or any character set in which bytes below 64 are always ASCII. `state` is fresh. Cost:
    0.2 ns a byte of text, 1 ns a byte of attributes, 40 ns a tag, in the worst case a walk over the open elements
    for each tag.
    """
    at, size, check = 0, html.bytes.size, 0
    while at < size:
        start = at
        at = find(html, at, LT)
        add_text(state, html, start, at)
        if at + 1 >= size:
            return
        follows = html.bytes[at + 1]
        if is_kind(follows, LETTER):
            at = _start(html, at + 1, names, state)
        elif follows == SLASH and at + 2 < size and is_kind(html.bytes[at + 2], LETTER):
            at = _end(html, at + 2, names, state)
        elif follows in (BANG, QUESTION, SLASH):
            state.num[TAGS] += 1
            add_node(state)
            at = declaration_end(html, at, is_foreign(state))
        else:
            at += 1
            add_text(state, html, at - 1, at)
        if state.num[TAGS] >= check:
            if _is_over(state.num, limits, slopes):
                return
            check = state.num[TAGS] + _CHECK_EVERY


@lean_helper
def _is_over(num: NDArray[np.int64], limits: NDArray[np.int64], slopes: NDArray[np.int64]) -> bool:
    over = False
    for i in range(limits.size):
        over |= num[i] > limits[i] + slopes[i] * num[TAGS] // 1000
    return over


@lean_helper
def _start(html: HtmlBytes, begin: int, names: ElementNames, state: OpenTags) -> int:
    """Read a start tag and the raw text behind it, and return where reading goes on."""
    at, name = tag_name(html, begin, ANY_NAME)
    end, attributes, empty = tag_end(html, at)
    if end > html.bytes.size:
        return end
    state.num[TAGS] += 1
    traits = traits_of(names, name)
    if is_foreign(state):
        traits = _foreign_traits(html, at, name, traits)
    sign = _sign(html, at, end, name) if traits & FORMATTING else 0
    if start_tag(state, name, traits, attributes, sign, empty):
        if traits & ENDLESS:
            return html.bytes.size
        if traits & SCRIPT:
            return script_end(html, end, name)
        if traits & RAW:
            return raw_end(html, end, name)
    return end


@lean_helper
def _foreign_traits(html: HtmlBytes, at: int, name: int, traits: int) -> int:
    """Return a name's traits within SVG and MathML. Some depend on the attributes, which begin at `at`."""
    if name == _SUP:
        return traits & ~BREAKOUT
    if name not in (_FONT, _ANNOTATION):
        return traits
    traits = ANNOTATION if name == _ANNOTATION else traits & ~BREAKOUT
    while True:
        at, start, end, value, value_end = next_attribute(html, at)
        if start < 0:
            return traits
        word = text_hash(html, start, end)
        if name == _FONT and word in (_COLOR, _FACE, _SIZE):
            traits |= BREAKOUT
        if name == _ANNOTATION and word == _ENCODING and text_hash(html, value, value_end) in (_HTML, _XHTML):
            traits |= MATH_POINT


@lean_helper
def _sign(html: HtmlBytes, at: int, end: int, name: int) -> int:
    """Return a hash of the name and the attributes as they are written."""
    value = np.uint64(name)
    for i in range(at, end):
        value = (value ^ np.uint64(html.bytes[i])) * PRIME
    return np.int64(value)  # type: ignore[return-value]  # numba's int is this one


@lean_helper
def _end(html: HtmlBytes, begin: int, names: ElementNames, state: OpenTags) -> int:
    at, name = tag_name(html, begin, ANY_NAME)
    end, _, _ = tag_end(html, at)
    if end <= html.bytes.size:
        state.num[TAGS] += 1
        end_tag(state, name, traits_of(names, name))
    return end
