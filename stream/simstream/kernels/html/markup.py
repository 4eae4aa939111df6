"""Counts the work that HTML gives a tree builder, in one pass over its bytes.

A tree builder's cost grows with the square of some of these counts: nested elements, formatting that opens again in
every block, attributes of one tag, options of one list. Source of the rules: the HTML standard
(html.spec.whatwg.org, "tokenization").
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from simstream.kernels.html.element_names import (
    ENDLESS,
    FNV_BASIS,
    FNV_PRIME,
    FORMATTING,
    INLINE,
    RAW,
    ROW,
    ROWS,
    SCRIPT,
    TABLE,
    ElementNames,
)
from simstream.kernels.html.open_elements import TAGS, OpenElements, add_node, is_waiting, reopen, top
from simstream.kernels.html.tree_rules import end_tag, is_foreign, start_tag
from simstream.kernels.jit import LEAN, lean_kernel

_BASIS: Final = np.uint64(FNV_BASIS)
_PRIME: Final = np.uint64(FNV_PRIME)
_LT, _GT, _SLASH, _EQUALS, _DASH, _BANG, _QUESTION = 60, 62, 47, 61, 45, 33, 63
_DOUBLE, _SINGLE, _OPENING, _CLOSING = 34, 39, 91, 93
_ONES: Final = np.uint64(0x0101010101010101)
_HIGHS: Final = np.uint64(0x8080808080808080)
_CHECK_EVERY: Final = 64
_CDATA: Final = np.frombuffer(b"<![CDATA[", np.uint8)
_TABLE_INNER: Final = TABLE | ROWS | ROW

Bytes = NDArray[np.uint8]


class HtmlBytes(NamedTuple):
    """A page as bytes, and the same memory as words of 8 bytes; made by `make_html`."""

    bytes: Bytes  # (n,)
    words: NDArray[np.uint64]  # (n // 8,)


def make_html(page: bytes) -> HtmlBytes:
    """Return the page as the kernel takes it, without a copy."""
    found = np.frombuffer(page, np.uint8)
    return HtmlBytes(found, found[: len(page) & ~7].view(np.uint64))


def _kinds() -> Bytes:
    """Return the kind of each byte as bits: a letter, a space, the end of a tag's name, the end of an attribute's
    name."""
    kinds = np.zeros(256, np.uint8)
    for byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        kinds[byte] = _LETTER
    for byte in b" \t\n\f\r":
        kinds[byte] = _SPACE
    for byte, kind in ((_SLASH, _CLOSER), (_GT, _CLOSER), (_EQUALS, _EQUAL)):
        kinds[byte] = kind
    return kinds


_LETTER, _SPACE, _CLOSER, _EQUAL = 1, 2, 4, 8
_KINDS: Final = _kinds()


@lean_kernel
def survey(
    html: HtmlBytes, names: ElementNames, limits: NDArray[np.int64], slopes: NDArray[np.int64], state: OpenElements
) -> None:
    """Count into `state.num`; stop soon after a count i passes `limits[i] + slopes[i] * tags / 1000`.

    `html.bytes` is UTF-8, or any character set in which bytes below 64 are always ASCII. `state` is fresh. Cost:
    0.2 ns a byte of text, 1 ns a byte of attributes, 40 ns a tag, in the worst case a walk over the open elements
    for each tag.
    """
    at, size, check = 0, html.bytes.size, 0
    while at < size:
        start = at
        at = _find(html, at, _LT)
        if at > start and is_waiting(state):
            _text(html, start, at, state)
        if at + 1 >= size:
            return
        follows = html.bytes[at + 1]
        if _is(follows, _LETTER):
            at = _start(html, at + 1, names, state)
        elif follows == _SLASH and at + 2 < size and _is(html.bytes[at + 2], _LETTER):
            at = _end(html, at + 2, names, state)
        elif follows in (_BANG, _QUESTION, _SLASH):
            at = _declaration(html, at, state)
        else:
            at += 1
            if is_waiting(state):
                _text(html, at - 1, at, state)
        if state.num[TAGS] >= check:
            if _is_over(state.num, limits, slopes):
                return
            check = state.num[TAGS] + _CHECK_EVERY


@njit(nogil=True, **LEAN)
def _find(html: HtmlBytes, at: int, byte: int) -> int:
    """Return the next place of this byte, or the end of the page. Compares eight bytes at once.

    Source of the method: Alan Mycroft's test for a zero byte, 1987.
    """
    size, pattern = html.bytes.size, np.uint64(byte) * _ONES
    while at < size and html.bytes[np.uint64(at)] != byte:
        at += 1
        if at & 7 == 0:
            word = at >> 3
            while word < html.words.size:
                x = html.words[np.uint64(word)] ^ pattern
                if (x - _ONES) & ~x & _HIGHS:
                    break
                word += 1
            at = word << 3
    return at


@njit(inline="always")
def _is(byte: np.uint8, kinds: int) -> bool:
    return bool(_KINDS[np.uint64(byte)] & kinds)


@njit(nogil=True, **LEAN)
def _is_over(num: NDArray[np.int64], limits: NDArray[np.int64], slopes: NDArray[np.int64]) -> bool:
    over = False
    for i in range(limits.size):
        over |= num[i] > limits[i] + slopes[i] * num[TAGS] // 1000
    return over


@njit(nogil=True, **LEAN)
def _text(html: HtmlBytes, start: int, end: int, state: OpenElements) -> None:
    """Count a text. It opens formatting again, unless it is space between the parts of a table."""
    traits = top(state)
    if is_foreign(traits):
        return
    if traits & _TABLE_INNER:
        while start < end and _is(html.bytes[start], _SPACE):
            start += 1
        if start == end:
            return
    reopen(state)


@njit(nogil=True, **LEAN)
def _name(html: HtmlBytes, at: int) -> tuple[int, int]:
    """Return where the name of a tag ends, and its hash."""
    value = _BASIS
    while at < html.bytes.size:
        byte = html.bytes[at]
        if _is(byte, _SPACE | _CLOSER):
            break
        lower = byte | np.uint8(32) if _is(byte, _LETTER) else byte
        value = (value ^ np.uint64(lower)) * _PRIME
        at += 1
    return at, np.int64(value)  # type: ignore[return-value]  # numba's int is this one


@njit(nogil=True, **LEAN)
def _traits(names: ElementNames, name: int) -> int:
    mask = np.uint64(names.hashes.size - 1)
    at = (np.uint64(name) ^ (np.uint64(name) >> np.uint64(32))) & mask
    while names.hashes[at]:
        if names.hashes[at] == name:
            return int(names.traits[at])
        at = (at + np.uint64(1)) & mask
    return INLINE


@njit(nogil=True, **LEAN)
def _attributes(html: HtmlBytes, at: int) -> tuple[int, int, bool]:
    """Return where the tag ends, how many attributes it has, and whether it ends with `/>`.

    If the page cuts the tag off, the end is beyond the page, and there is no tag.
    """
    count, size, slash = 0, html.bytes.size, False
    while at < size:
        byte = html.bytes[at]
        at += 1
        if byte == _GT:
            return at, count, slash
        slash = byte == _SLASH
        if slash or _is(byte, _SPACE):
            continue
        count += 1
        while at < size and not _is(html.bytes[at], _SPACE | _CLOSER | _EQUAL):
            at += 1
        while at < size and _is(html.bytes[at], _SPACE):
            at += 1
        if at < size and html.bytes[at] == _EQUALS:
            at = _value(html, at + 1)
    return size + 1, count, False


@njit(nogil=True, **LEAN)
def _value(html: HtmlBytes, at: int) -> int:
    """Return where the value of an attribute ends."""
    size = html.bytes.size
    while at < size and _is(html.bytes[at], _SPACE):
        at += 1
    if at == size or html.bytes[at] == _GT:
        return at
    quote = html.bytes[at]
    if quote in (_DOUBLE, _SINGLE):
        return min(_find(html, at + 1, quote) + 1, size)
    while at < size and not (_is(html.bytes[at], _SPACE) or html.bytes[at] == _GT):
        at += 1
    return at


@njit(nogil=True, **LEAN)
def _start(html: HtmlBytes, begin: int, names: ElementNames, state: OpenElements) -> int:
    """Read a start tag and the raw text behind it, and return where reading goes on."""
    at, name = _name(html, begin)
    end, attributes, empty = _attributes(html, at)
    if end > html.bytes.size:
        return end
    state.num[TAGS] += 1
    traits = _traits(names, name)
    sign = _sign(html, at, end, name) if traits & FORMATTING else 0
    if start_tag(state, name, traits, attributes, sign, empty):
        if traits & ENDLESS:
            return html.bytes.size
        if traits & SCRIPT:
            return _script_end(html, end, name)
        if traits & RAW:
            return _raw_end(html, end, name)
    return end


@njit(nogil=True, **LEAN)
def _sign(html: HtmlBytes, at: int, end: int, name: int) -> int:
    """Return a hash of the name and the attributes as they are written."""
    value = np.uint64(name)
    for i in range(at, end):
        value = (value ^ np.uint64(html.bytes[i])) * _PRIME
    return np.int64(value)  # type: ignore[return-value]  # numba's int is this one


@njit(nogil=True, **LEAN)
def _end(html: HtmlBytes, begin: int, names: ElementNames, state: OpenElements) -> int:
    at, name = _name(html, begin)
    end, _, _ = _attributes(html, at)
    if end <= html.bytes.size:
        state.num[TAGS] += 1
        end_tag(state, name, _traits(names, name))
    return end


@njit(nogil=True, **LEAN)
def _closes(html: HtmlBytes, at: int, name: int) -> bool:
    """Whether an end tag of this name begins at `at`, at its `<`."""
    if at + 2 >= html.bytes.size or html.bytes[at + 1] != _SLASH or not _is(html.bytes[at + 2], _LETTER):
        return False
    end, found = _name(html, at + 2)
    return found == name and end < html.bytes.size


@njit(nogil=True, **LEAN)
def _raw_end(html: HtmlBytes, at: int, name: int) -> int:
    """Return where the end tag of raw text begins, or the end of the page."""
    at = _find(html, at, _LT)
    while at < html.bytes.size and not _closes(html, at, name):
        at = _find(html, at + 1, _LT)
    return at


@njit(nogil=True, **LEAN)
def _script_end(html: HtmlBytes, at: int, name: int) -> int:
    """Do what `_raw_end` does for a script: a script in a comment of a script hides one end tag."""
    size, escaped, doubly = html.bytes.size, False, False
    while at < size:
        at = at if escaped else _find(html, at, _LT)
        if at == size:
            break
        byte = html.bytes[at]
        if byte == _LT:
            if not escaped and at + 3 < size and html.bytes[at + 1] == _BANG:
                escaped = html.bytes[at + 2] == _DASH and html.bytes[at + 3] == _DASH
                at += 2 if escaped else 1  # these dashes may also belong to the end
                continue
            if _closes(html, at, name):
                if not doubly:
                    return at
                doubly = False
            elif escaped and at + 1 < size and _is(html.bytes[at + 1], _LETTER):
                end, found = _name(html, at + 1)
                doubly = doubly or (found == name and end < size)
        elif byte == _DASH and at + 2 < size and html.bytes[at + 1] == _DASH and html.bytes[at + 2] == _GT:
            escaped = doubly = False
        at += 1
    return at


@njit(nogil=True, **LEAN)
def _declaration(html: HtmlBytes, at: int, state: OpenElements) -> int:
    """Skip a comment, a doctype, CDATA, or markup that counts as a comment; `at` is at the `<`."""
    size = html.bytes.size
    state.num[TAGS] += 1
    add_node(state)
    if (
        html.bytes[at + 1] == _BANG
        and at + 3 < size
        and html.bytes[at + 2] == _DASH
        and html.bytes[at + 3] == _DASH
    ):
        return _comment_end(html, at + 4)
    if html.bytes[at + 1] == _BANG and is_foreign(top(state)) and _is_cdata(html, at):
        at += 9
        while at < size and not (
            html.bytes[at] == _GT and html.bytes[at - 1] == _CLOSING and html.bytes[at - 2] == _CLOSING
        ):
            at += 1
        return at + 1
    return _find(html, at, _GT) + 1


@njit(nogil=True, **LEAN)
def _is_cdata(html: HtmlBytes, at: int) -> bool:
    same = at + _CDATA.size <= html.bytes.size
    for i in range(_CDATA.size if same else 0):
        same &= html.bytes[at + i] == _CDATA[i]
    return same


@njit(nogil=True, **LEAN)
def _comment_end(html: HtmlBytes, at: int) -> int:
    """Return where a comment ends; its text begins at `at`. It ends with `-->` or `--!>`, or at once with `>` or
    `->`."""
    start, at = at, _find(html, at, _GT)
    while at < html.bytes.size:
        if (html.bytes[at - 1] == _DASH and html.bytes[at - 2] == _DASH) or at == start:
            return at + 1
        if (
            at >= start + 3
            and html.bytes[at - 1] == _BANG
            and html.bytes[at - 2] == _DASH
            and html.bytes[at - 3] == _DASH
        ):
            return at + 1
        at = _find(html, at + 1, _GT)
    return at
