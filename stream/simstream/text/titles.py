"""Finds the title of a page, and writes titles in one line."""

from __future__ import annotations

import unicodedata
from typing import Final

from simstream.kernels.html.page_parts import BLOCKS, OG_TITLE, TEXT_END, TEXT_START, TITLE, PageParts
from simstream.text.extraction.article import parts_of

MAX_CHARACTERS: Final = 200
"""A longer title is cut."""
_MAX_BYTES: Final = 20 * MAX_CHARACTERS
_LONGEST_REFERENCE: Final = 40
_JOINERS: Final = "\u200c\u200d"
"""They shape the letters and emoji around them."""
_FILLERS: Final = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that are blank."""


def tidy(text: str) -> str:
    """Return a title in one line: runs of space become one space, control characters and direction marks go.

    It is empty if nothing of it can be seen. Reads only the beginning of a longer text: at most some 2 ms.
    """
    beginning = text[: 20 * MAX_CHARACTERS]
    kept = "".join(" " if _is_blank(char) else char for char in beginning if not _is_control(char))
    line = " ".join(word for word in kept.split() if word.strip(_JOINERS))
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1].rstrip() + "…"


def _is_blank(char: str) -> bool:
    return char.isspace() or char in _FILLERS


def _is_control(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") and char not in _JOINERS and not char.isspace()
    )


def html_title(html: bytes, parts: PageParts) -> str:
    """Return `og:title`, else `<title>`, else the first line of a page in UTF-8."""
    for noted in (OG_TITLE, TITLE):
        said = html[parts.num[noted] : parts.num[noted + 1]]
        if said and (found := _plain_text(said)):
            return found
    return _line(parts)


def _plain_text(html: bytes) -> str:
    """Return text whose character references are not resolved yet as one line. Only its beginning is read, which
    leaves room for references and spaces."""
    html = html.lstrip()
    beginning = html[:_MAX_BYTES]
    if len(html) > _MAX_BYTES:
        cut = beginning.rfind(b"&", -_LONGEST_REFERENCE)
        if cut >= 0 and b";" not in beginning[cut:]:
            beginning = beginning[:cut]
        beginning = beginning.decode("utf-8", "ignore").encode()
    return _line(parts_of(beginning.replace(b"<", b"&lt;")))


def _line(parts: PageParts) -> str:
    """Return the first block of text in one line."""
    if not parts.num[BLOCKS]:
        return ""
    start, end = parts.blocks[0, TEXT_START], parts.blocks[0, TEXT_END]
    return tidy(parts.text[start : min(end, start + 80 * MAX_CHARACTERS)].tobytes().decode("utf-8", "replace"))
