"""Finds the `meta` tags that name a page's character set, in the bytes as they came.

The result equals `charset_metas` in `text/decode`, whose regular expressions hold the GIL and take 1 us an
attribute. The tokenizer's own attributes and comments (`tags`) follow the standard, which differs in odd cases.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simstream.kernels.html.tags import BANG, GT, LT, QUESTION, SLASH, Bytes, HtmlBytes, find, make_html
from simstream.kernels.jit import inlined, lean_helper, quick_kernel

_EQUALS, _DASH, _DOUBLE, _SINGLE = 61, 45, 34, 39
_META: Final = np.frombuffer(b"meta", np.uint8)
_CHARSET: Final = np.frombuffer(b"charset", np.uint8)
_HTTP_EQUIV: Final = np.frombuffer(b"http-equiv", np.uint8)
_CONTENT: Final = np.frombuffer(b"content", np.uint8)
_CONTENT_TYPE: Final = np.frombuffer(b"content-type", np.uint8)


def charset_metas(head: bytes, most: int) -> list[tuple[bytes | None, bytes | None]]:
    """Return the values of `charset` and `content` of the first `most` metas that can name a charset.

    A meta counts if it has a `charset`, or a `content` and the `http-equiv` "content-type". A value is None if its
    attribute is absent; `content` is also None without that `http-equiv`. Cost: 1 to 2 ns a byte.
    """
    spans = np.empty((most, 4), np.int64)
    n = _charset_metas(make_html(head), spans)
    return [
        (head[start:end] if start >= 0 else None, head[begin:stop] if begin >= 0 else None)
        for start, end, begin, stop in spans[:n].tolist()
    ]


@inlined
def _is_space(byte: int) -> bool:
    return byte == 32 or 9 <= byte <= 13  # as Python's \s for bytes


@inlined
def _is_letter(byte: int) -> bool:
    return 97 <= byte | 32 <= 122


@inlined
def _ends_name(byte: int) -> bool:
    return _is_space(byte) or byte in (SLASH, GT, _EQUALS)


@lean_helper
def _is_word(html: Bytes, start: int, end: int, word: Bytes) -> bool:
    """Whether `html[start:end]` is this word of small letters and dashes, in any case of letters."""
    if end - start != word.size:
        return False
    for i in range(word.size):
        byte = html[start + i]
        if (byte | 32 if _is_letter(byte) else byte) != word[i]:
            return False
    return True


@lean_helper
def _behind_comment(html: Bytes, at: int) -> int:
    """Return the place behind the next `-->`, or the end."""
    while at + 2 < html.size:
        if html[at] == _DASH and html[at + 1] == _DASH and html[at + 2] == GT:
            return at + 3
        at += 1
    return html.size


@lean_helper
def _behind_bang(html: HtmlBytes, at: int) -> int:
    """Return the place behind the comment, declaration or bogus end tag at `at`."""
    page = html.bytes
    if at + 3 < page.size and page[at + 1] == BANG and page[at + 2] == _DASH and page[at + 3] == _DASH:
        return _behind_comment(page, at + 4)
    return min(find(html, at + 2, GT) + 1, page.size)


@lean_helper
def _attribute(html: Bytes, at: int) -> tuple[int, int, int, int, int]:
    """Return the bounds of the next attribute's name, the bounds of its value, and the place behind it.

    The name is empty if there is none. A value whose quote is never closed is empty, and ends before the quote.
    """
    end = html.size
    while at < end and (_is_space(html[at]) or html[at] == SLASH):
        at += 1
    start = at
    while at < end and not _ends_name(html[at]):
        at += 1
    behind = at
    while at < end and _is_space(html[at]):
        at += 1
    if at >= end or html[at] != _EQUALS:
        return start, behind, behind, behind, behind
    at += 1
    while at < end and _is_space(html[at]):
        at += 1
    if at < end and (html[at] == _DOUBLE or html[at] == _SINGLE):
        close = at + 1
        while close < end and html[close] != html[at]:
            close += 1
        if close < end:
            return start, behind, at + 1, close, close + 1
        return start, behind, at, at, at
    value = at
    while at < end and not (_is_space(html[at]) or html[at] == GT or html[at] == _DOUBLE or html[at] == _SINGLE):
        at += 1
    return start, behind, value, at, at


@quick_kernel
def _charset_metas(page: HtmlBytes, spans: NDArray[np.int64]) -> int:
    """Write the bounds of the values of `charset` and `content` to `spans` (most, 4), -1 for none.

    Returns the number of metas.
    """
    html = page.bytes
    n, i, end = 0, 0, html.size
    while i + 1 < end and n < len(spans):
        if html[i] != LT:
            i = find(page, i, LT)
            continue
        first = i + 2 if html[i + 1] == SLASH else i + 1
        if first >= end or not _is_letter(html[first]):
            signs = html[i + 1] == SLASH or html[i + 1] == BANG or html[i + 1] == QUESTION
            i = _behind_bang(page, i) if signs else i + 1
            continue
        is_meta = first + 4 < end and first == i + 1 and _is_word(html, first, first + 4, _META)
        is_meta = is_meta and (_is_space(html[first + 4]) or html[first + 4] == SLASH)
        i = first + 4 if is_meta else first + 1
        charset, charset_end, content, content_end, equiv, equiv_end = -1, -1, -1, -1, -1, -1
        while True:
            name, name_end, value, value_end, behind = _attribute(html, i)
            if name == name_end:
                break
            i = behind
            if is_meta:
                if charset < 0 and _is_word(html, name, name_end, _CHARSET):
                    charset, charset_end = value, value_end
                elif content < 0 and _is_word(html, name, name_end, _CONTENT):
                    content, content_end = value, value_end
                elif equiv < 0 and _is_word(html, name, name_end, _HTTP_EQUIV):
                    equiv, equiv_end = value, value_end
        if not _is_word(html, equiv, equiv_end, _CONTENT_TYPE):
            content = content_end = -1
        if charset >= 0 or content >= 0:
            spans[n, 0], spans[n, 1], spans[n, 2], spans[n, 3] = charset, charset_end, content, content_end
            n += 1
    return n
