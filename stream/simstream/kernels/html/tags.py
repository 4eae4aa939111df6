"""Finds tags, attributes, comments and raw text in the bytes of a page.

Source of the rules: the HTML standard (html.spec.whatwg.org, "tokenization"), as far as they decide where tags and
texts begin and end.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.addresses import bytes_and_words
from simstream.kernels.bits import lowest
from simstream.kernels.html.element_names import FNV_BASIS, FNV_PRIME
from simstream.kernels.jit import inlined, lean_helper

PRIME: Final = np.uint64(FNV_PRIME)
LT, GT, SLASH, BANG, QUESTION = 60, 62, 47, 33, 63
LETTER, SPACE = 1, 2
_BASIS: Final = np.uint64(FNV_BASIS)
_EQUALS, _DASH, _DOUBLE, _SINGLE, _OPENING, _CLOSING = 61, 45, 34, 39, 91, 93
_CLOSER, _EQUAL = 4, 8
_ONES: Final = np.uint64(0x0101010101010101)
_HIGHS: Final = np.uint64(0x8080808080808080)
ANY_NAME: Final = 1 << 40
"""As `most` of `tag_name`: the name is read to its end, however long."""
_MAX_RAW_NAME_BYTES: Final = 16
"""More bytes than the longest name of an element with raw text: a text of `<a<a<a` is one long name at each `<`."""
_CDATA: Final = np.frombuffer(b"<![CDATA[", np.uint8)

Bytes = NDArray[np.uint8]


class HtmlBytes(NamedTuple):
    """A page as bytes, and the same memory as words of 8 bytes; made by `make_html`."""

    bytes: Bytes  # (n,)
    words: NDArray[np.uint64]  # (n // 8,)


def make_html(page: bytes) -> HtmlBytes:
    """Return the page as the kernels take it, without a copy."""
    return HtmlBytes(*bytes_and_words(page))


def _kinds() -> Bytes:
    """Return the kind of each byte as bits: a letter, a space, the end of a tag's name, the end of an attribute's
    name."""
    kinds = np.zeros(256, np.uint8)
    for byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        kinds[byte] = LETTER
    for byte in b" \t\n\f\r":
        kinds[byte] = SPACE
    for byte, kind in ((SLASH, _CLOSER), (GT, _CLOSER), (_EQUALS, _EQUAL)):
        kinds[byte] = kind
    return kinds


_KINDS: Final = _kinds()


@inlined
def is_kind(byte: np.uint8, kinds: int) -> bool:
    """Whether a byte has one of these kinds."""
    return bool(_KINDS[np.uint64(byte)] & kinds)


@inlined
def byte_at(html: HtmlBytes, at: int) -> np.uint8:
    """Return the byte here. An index without a sign saves the test for places counted from the end."""
    return html.bytes[np.uint64(at)]


@lean_helper
def find(html: HtmlBytes, at: int, byte: int) -> int:
    """Return the next place of this byte, or the end of the page. Compares eight bytes at once.

    Source of the method: Alan Mycroft's test for a zero byte, 1987. Only the lowest byte that it finds is certain.
    """
    words, word, pattern = html.words, np.uint64(at >> 3), np.uint64(byte) * _ONES
    count = np.uint64(words.size)  # numba compares numbers with and without a sign as floats
    if word < count:
        before = (np.uint64(1) << np.uint64((at & 7) << 3)) - np.uint64(1)
        x = (words[word] ^ pattern) | before
        while True:
            zeros = (x - _ONES) & ~x & _HIGHS
            if zeros:
                return int((word << np.uint64(3)) + (lowest(zeros) >> np.uint64(3)))
            word += np.uint64(1)
            if word >= count:
                break
            x = words[word] ^ pattern
        at = words.size << 3
    while at < html.bytes.size and byte_at(html, at) != byte:
        at += 1
    return at


@lean_helper
def tag_name(html: HtmlBytes, at: int, most: int) -> tuple[int, int]:
    """Return where the name of a tag ends, and the hash of the name in lower case. Reads at most so many bytes."""
    value, end = _BASIS, min(html.bytes.size, at + most)
    while at < end:
        byte = byte_at(html, at)
        if is_kind(byte, SPACE | _CLOSER):
            break
        lower = byte | np.uint8(32) if is_kind(byte, LETTER) else byte
        value = (value ^ np.uint64(lower)) * PRIME
        at += 1
    return at, np.int64(value)  # type: ignore[return-value]  # numba's int is this one


@lean_helper
def text_hash(html: HtmlBytes, start: int, end: int) -> int:
    """Return the hash of some bytes, with ASCII letters in lower case."""
    value = _BASIS
    for at in range(start, end):
        byte = byte_at(html, at)
        lower = byte | np.uint8(32) if is_kind(byte, LETTER) else byte
        value = (value ^ np.uint64(lower)) * PRIME
    return np.int64(value)  # type: ignore[return-value]  # numba's int is this one


@lean_helper
def next_attribute(html: HtmlBytes, at: int) -> tuple[int, int, int, int, int]:
    """Return where the next attribute of a tag ends, where its name begins and ends, and its value, without quotes.

    A name that begins at -1 says that there is none: the tag ends there, beyond the page if the page cuts it off.
    """
    size = html.bytes.size
    while at < size and is_kind(byte_at(html, at), SPACE | _CLOSER):
        if byte_at(html, at) == GT:
            return at + 1, -1, at, at, at
        at += 1
    if at == size:
        return size + 1, -1, at, at, at
    name = at
    at += 1
    while at < size and not is_kind(byte_at(html, at), SPACE | _CLOSER | _EQUAL):
        at += 1
    name_end = at
    while at < size and is_kind(byte_at(html, at), SPACE):
        at += 1
    if at == size or byte_at(html, at) != _EQUALS:
        return at, name, name_end, at, at
    at += 1
    while at < size and is_kind(byte_at(html, at), SPACE):
        at += 1
    if at == size or byte_at(html, at) == GT:
        return at, name, name_end, at, at
    quote = byte_at(html, at)
    if quote in (_DOUBLE, _SINGLE):
        end = find(html, at + 1, quote)
        return min(end + 1, size), name, name_end, at + 1, end
    value = at
    while at < size and not (is_kind(byte_at(html, at), SPACE) or byte_at(html, at) == GT):
        at += 1
    return at, name, name_end, value, at


@lean_helper
def tag_end(html: HtmlBytes, at: int) -> tuple[int, int, bool]:
    """Return where the tag ends, how many attributes it has, and whether it ends with `/>`.

    If the page cuts the tag off, the end is beyond the page, and there is no tag.
    """
    if at < html.bytes.size and byte_at(html, at) == GT:
        return at + 1, 0, False
    count = 0
    while True:
        end, name, _, _, _ = next_attribute(html, at)
        if name < 0:
            slash = end <= html.bytes.size and end - 2 >= at and byte_at(html, end - 2) == SLASH
            return end, count, slash
        at = end
        count += 1


@lean_helper
def _closes(html: HtmlBytes, at: int, name: int) -> bool:
    """Whether an end tag of this name begins at `at`, at its `<`."""
    if at + 2 >= html.bytes.size or byte_at(html, at + 1) != SLASH or not is_kind(byte_at(html, at + 2), LETTER):
        return False
    end, found = tag_name(html, at + 2, _MAX_RAW_NAME_BYTES)
    return found == name and end < html.bytes.size


@lean_helper
def raw_end(html: HtmlBytes, at: int, name: int) -> int:
    """Return where the end tag of raw text begins, or the end of the page."""
    at = find(html, at, LT)
    while at < html.bytes.size and not _closes(html, at, name):
        at = find(html, at + 1, LT)
    return at


@lean_helper
def script_end(html: HtmlBytes, at: int, name: int) -> int:
    """Do what `raw_end` does for a script: a script in a comment of a script hides one end tag."""
    size, escaped, doubly = html.bytes.size, False, False
    while at < size:
        at = at if escaped else find(html, at, LT)
        if at == size:
            break
        byte = byte_at(html, at)
        if byte == LT:
            if not escaped and at + 3 < size and byte_at(html, at + 1) == BANG:
                escaped = byte_at(html, at + 2) == _DASH and byte_at(html, at + 3) == _DASH
                at += 2 if escaped else 1  # these dashes may also belong to the end
                continue
            if _closes(html, at, name):
                if not doubly:
                    return at
                doubly = False
            elif escaped and at + 1 < size and is_kind(byte_at(html, at + 1), LETTER):
                end, found = tag_name(html, at + 1, _MAX_RAW_NAME_BYTES)
                doubly = doubly or (found == name and end < size)
        elif byte == _DASH and at + 2 < size and byte_at(html, at + 1) == _DASH and byte_at(html, at + 2) == GT:
            escaped = doubly = False
        at += 1
    return at


@lean_helper
def declaration_end(html: HtmlBytes, at: int, foreign: bool) -> int:
    """Return where a comment, a doctype, CDATA, or markup that counts as a comment ends; `at` is at its `<`."""
    size = html.bytes.size
    is_bang = byte_at(html, at + 1) == BANG
    if is_bang and at + 3 < size and byte_at(html, at + 2) == _DASH and byte_at(html, at + 3) == _DASH:
        return _comment_end(html, at + 4)
    if is_bang and foreign and is_cdata(html, at):
        return cdata_end(html, at + _CDATA.size) + 3
    return find(html, at, GT) + 1


@lean_helper
def is_cdata(html: HtmlBytes, at: int) -> bool:
    """Whether CDATA begins here."""
    same = at + _CDATA.size <= html.bytes.size
    for i in range(_CDATA.size if same else 0):
        same &= byte_at(html, at + i) == _CDATA[i]
    return same


@lean_helper
def cdata_end(html: HtmlBytes, at: int) -> int:
    """Return where the `]]>` after CDATA begins, or the end of the page; its text begins at `at`."""
    size = html.bytes.size
    at = find(html, at, _CLOSING)
    while at < size and not (at + 2 < size and byte_at(html, at + 1) == _CLOSING and byte_at(html, at + 2) == GT):
        at = find(html, at + 1, _CLOSING)
    return at


@lean_helper
def _comment_end(html: HtmlBytes, at: int) -> int:
    """Return where a comment ends; its text begins at `at`. It ends with `-->` or `--!>`, or at once with `>` or
    `->`."""
    start, at = at, find(html, at, GT)
    while at < html.bytes.size:
        if (byte_at(html, at - 1) == _DASH and byte_at(html, at - 2) == _DASH) or at == start:
            return at + 1
        if (
            at >= start + 3
            and byte_at(html, at - 1) == BANG
            and byte_at(html, at - 2) == _DASH
            and byte_at(html, at - 3) == _DASH
        ):
            return at + 1
        at = find(html, at + 1, GT)
    return at
