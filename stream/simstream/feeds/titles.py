"""Reads from a page's record what the feed shows of it: its title and time, or that the page is gone."""

from __future__ import annotations

import html
import re
import unicodedata

import msgspec

from simstream.feeds.link_lists import MAX_CHARACTERS as MAX_OF_A_LIST
from simstream.feeds.link_lists import is_list_of_links
from simstream.feeds.records import PageSheet
from simstream.model import Page, PageKind, Record
from simstream.wire.page import PageLimits, decode

MAX_CHARACTERS = 200
"""A longer title is cut."""
HEAD_CHARACTERS = 64 << 10
"""So many bytes or characters of an HTML page are searched for its title."""
_TITLE = re.compile(r"<title(?:\s[^<>]{0,500})?>([^<]{0,2000})", re.IGNORECASE)
_META = re.compile(r"<meta\s([^<>]{0,3000})>", re.IGNORECASE)
_OG_TITLE = re.compile(r"""(?:property|name)\s*=\s*["']?og:title["'\s/]""", re.IGNORECASE)
_CONTENT = re.compile(r"""\bcontent\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_TAGS = re.compile(r"<(script|style)\b.*?(?:</\1[^<>]*>|\Z)|<!--.*?(?:-->|\Z)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"&#0*([0-9]{1,8})[0-9]*")
"""A character reference by number, without leading zeros.

Eight digits are beyond Unicode; Python reads at most 4,300.
"""


class _TitleFields(msgspec.Struct, gc=False):
    title: str | None = None
    status: int | None = None


_decode_fields = msgspec.json.Decoder(_TitleFields).decode


def sheet_of(record: Record, limits: PageLimits) -> PageSheet | None:
    """Return what the feed needs of a page's record; None if the record is withdrawn or unreadable.

    The title is the JSON field of that name, else `og:title` or `<title>`, else the first line of the text.
    Its time is the page's own, but never later than the record's. Never raises because of the record.
    """
    page = decode(record, limits)
    time = min(page.time, record.timestamp)
    if page.kind in (PageKind.UNREADABLE, PageKind.WITHDRAWN):
        return None
    if page.kind is not PageKind.READABLE:
        return PageSheet("", time, gone=page.kind is PageKind.TOO_SHORT)
    is_html = page.content_type.startswith("text/html")
    title = _own_title(record) or (_html_title(page) if is_html else "")
    is_list = is_html and page.text is None and is_list_of_links(_head(page, MAX_OF_A_LIST))
    return PageSheet(title or _first_line(page), time, is_list=is_list)


def tidy(text: str) -> str:
    """Return a title in one line: runs of space become one space, control characters and direction marks go.

    Reads only the beginning of a longer text, so it costs at most some 2 ms.
    """
    beginning = text[: 20 * MAX_CHARACTERS]
    kept = "".join(" " if char.isspace() else char for char in beginning if not _is_control(char))
    line = " ".join(kept.split())
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1].rstrip() + "…"


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") and not char.isspace()


def _own_title(record: Record) -> str:
    """Return the JSON field `title`, if the value is JSON and has it."""
    if (record.value or b"").lstrip()[:1] != b"{":
        return ""
    try:
        return tidy(_decode_fields(record.value or b"").title or "")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _html_title(page: Page) -> str:
    head = _head(page)
    for meta in _META.finditer(head):
        if _OG_TITLE.search(meta[1]) and (content := _CONTENT.search(meta[1])):
            found = tidy(_unescaped(content[1] or content[2] or content[3] or ""))
            if found:
                return found
    title = _TITLE.search(head)
    return tidy(_unescaped(title[1])) if title else ""


def _unescaped(text: str) -> str:
    """Return the text with character references resolved; a number beyond Unicode is U+FFFD, as in browsers."""
    return html.unescape(_NUMBER.sub(r"&#\1", text))


def _first_line(page: Page) -> str:
    text = page.text if page.text is not None else _head(page)
    if page.content_type.startswith("text/html"):
        text = _unescaped(_TAGS.sub("\n", text))
    return next(filter(None, (tidy(line) for line in text[:HEAD_CHARACTERS].lstrip().splitlines()[:1000])), "")


def _head(page: Page, most: int = HEAD_CHARACTERS) -> str:
    """Return the beginning of the page's raw bytes or HTML as text; at most `most` bytes or characters."""
    if isinstance(page.raw, str):
        return page.raw[:most]
    from simstream.text.decode import charset_of
    from simstream.text.decode import decode as decode_bytes

    raw = (page.raw or b"")[:most]
    return decode_bytes(raw, charset_of(page.content_type), page.content_type.startswith("text/html"))[0]
