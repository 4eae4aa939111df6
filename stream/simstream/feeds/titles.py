"""Reads what the news page shows of a page's record: title and time, whether it is gone or a list of links."""

from __future__ import annotations

import time

import msgspec
import numpy as np

from simstream.feeds.records import PageSheet
from simstream.kernels.html.page_parts import (
    BLOCKS,
    HEADLINES,
    HEADLINES_WIDTH,
    LINKED,
    MARKS,
    TEXT_END,
    TEXT_START,
    WIDTH,
    PageParts,
)
from simstream.kernels.html.sentences import MIN_LINE_WIDTH
from simstream.model import Page, PageKind, Record
from simstream.text.extraction.article import parts_of
from simstream.text.extraction.html_bytes import html_in_utf8
from simstream.text.titles import html_title, tidy
from simstream.wire.page import PageLimits, decode, title_at

HEAD_CHARACTERS = 64 << 10
"""So many bytes or characters of plain text are searched for its first line."""
HTML_CHARACTERS = 256 << 10
"""So many bytes or characters of HTML are read."""
MIN_HEADLINES = 20
"""The fewest linked headlines of a list."""
MIN_LINKS_TO_PROSE = 8
"""The headlines of a list are at least so many times as wide as its sentences outside links."""


class _TitleFields(msgspec.Struct, gc=False):
    title: str | None = None
    status: int | None = None


_decode_fields = msgspec.json.Decoder(_TitleFields).decode


def sheet_of(record: Record, limits: PageLimits) -> PageSheet | None:
    """Return what the news page needs of a page's record; None if the record is withdrawn or unreadable.

    The title is the JSON field of that name or at its path, else `og:title` or `<title>`, else the first line of
    the text. Its time is the page's own, but never later than the record's. A record without a time is of now.
    Never raises because of the record.
    """
    if record.timestamp == 0:
        record = msgspec.structs.replace(record, timestamp=int(time.time() * 1000))
    page = decode(record, limits)
    time_ms = min(page.time, record.timestamp)
    if page.kind in (PageKind.UNREADABLE, PageKind.WITHDRAWN):
        return None
    if page.kind is not PageKind.READABLE:
        return PageSheet("", time_ms, gone=page.kind is PageKind.TOO_SHORT, page_id=page.id)
    title = _own_title(record, limits)
    if page.text is not None or not page.content_type.startswith("text/html"):
        return PageSheet(title or _first_line(page), time_ms, page_id=page.id)
    html = html_in_utf8((page.raw or b"")[:HTML_CHARACTERS], page.content_type)
    parts = parts_of(html)
    return PageSheet(title or html_title(html, parts), time_ms, is_list=is_list_of_links(parts), page_id=page.id)


def is_list_of_links(parts: PageParts) -> bool:
    """Return whether a page has many linked headlines, and hardly a sentence outside links."""
    blocks = parts.blocks[: parts.num[BLOCKS]].astype(np.int64)  # a product of two widths is beyond 32 bits
    size = blocks[:, TEXT_END] - blocks[:, TEXT_START]
    width = (blocks[:, WIDTH] >> 1) * (size - blocks[:, LINKED]) // size
    said = int(width[(blocks[:, MARKS] > 0) & (width >= MIN_LINE_WIDTH)].sum())
    # HEADLINES_WIDTH is twice a width.
    return bool(
        parts.num[HEADLINES] >= MIN_HEADLINES and parts.num[HEADLINES_WIDTH] >= 2 * MIN_LINKS_TO_PROSE * said
    )


def _own_title(record: Record, limits: PageLimits) -> str:
    """Return the JSON field `title`, if the value is JSON and has it."""
    if (record.value or b"").lstrip()[:1] != b"{":
        return ""
    if limits.paths is not None:
        return tidy(title_at(record.value or b"", limits))
    try:
        return tidy(_decode_fields(record.value or b"").title or "")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _first_line(page: Page) -> str:
    text = page.text if page.text is not None else _plain_text(page)
    return next(filter(None, (tidy(line) for line in text[:HEAD_CHARACTERS].lstrip().splitlines()[:1000])), "")


def _plain_text(page: Page) -> str:
    """Return the beginning of the page's raw bytes as text."""
    if isinstance(page.raw, str):
        return page.raw[:HEAD_CHARACTERS]
    from simstream.text.decode import charset_of
    from simstream.text.decode import decode as decode_bytes

    return decode_bytes((page.raw or b"")[:HEAD_CHARACTERS], charset_of(page.content_type), is_html=False)[0]
