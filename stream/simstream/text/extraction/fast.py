"""Extracts the article of HTML by kernels, in the caller's own thread.

They build no tree and read each byte a few times at most, whatever the page. So they need no process of their own,
no limit of time, and no refusal of costly HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from simstream.closing import Closing
from simstream.text import probes
from simstream.text.extraction.article import articles_of
from simstream.text.extraction.extract import (
    OUT_OF_MEMORY,
    ExtractedText,
    extract_one,
    failed_by,
    is_plain,
    refused_binary,
)
from simstream.text.extraction.html_bytes import html_in_utf8
from simstream.utf8_html import Utf8Html

T = TypeVar("T")
CALL_BYTES: Final = 4 << 20
"""A kernel is called as soon as so many bytes of HTML wait."""


class FastExtractor(Closing):
    """Extracts batches of pages as an `ExtractionPool` does, but in the caller's thread. Thread-safe."""

    set_aside = 0
    """No page's host is ever too slow."""

    def __init__(self) -> None:
        self._is_closed = False

    def extract(
        self, items: Sequence[tuple[bytes | str, str]], urls: Sequence[str | None] | None = None
    ) -> list[ExtractedText]:
        """Return the text of each (raw, content_type), in order; `urls` do not matter. Raises ValueError once
        closed."""
        if self._is_closed:
            raise ValueError("the extractor is closed")
        return extract_many(items)

    def close(self) -> None:
        """Refuse further pages. May be called twice."""
        self._is_closed = True


def extract_many(items: Sequence[tuple[bytes | str, str]]) -> list[ExtractedText]:
    """Return what `extract_fast` does for each (raw, content_type), in order.

    One kernel call reads the HTML of many pages. Memory: the parts of the longest page, and about twice CALL_BYTES.
    """
    found: list[ExtractedText] = []
    waiting: list[ExtractedText | bytes] = []
    size = 0
    for raw, content_type in items:
        waiting.append(page := _try_page(partial(_prepare, raw, content_type)))
        size += 0 if isinstance(page, ExtractedText) else len(page)
        if size >= CALL_BYTES:
            found += _read_all(waiting)
            waiting, size = [], 0
    return found + _read_all(waiting)


def _read_all(prepared: Sequence[ExtractedText | bytes]) -> list[ExtractedText]:
    """Return the articles of prepared pages, and the answers that are there already, in order."""
    pages = [page for page in prepared if not isinstance(page, ExtractedText)]
    try:
        articles = iter([_as_extracted(article) for article in articles_of(pages)])
    except Exception:  # noqa: BLE001 - any error: each page is then read alone, and its error costs one page
        articles = (_try_page(partial(_article, page)) for page in pages)
    return [page if isinstance(page, ExtractedText) else next(articles) for page in prepared]


def extract_fast(raw: bytes | str, content_type: str) -> ExtractedText:
    """Extract the article of one page. `content_type` may carry the HTTP charset.

    It only decodes `text/plain`. Never raises. Cost: linear. HTML in UTF-8 is read where it lies; any other is
    turned into UTF-8 first.
    """
    return extract_many([(raw, content_type)])[0]


def _prepare(raw: bytes | str, content_type: str) -> ExtractedText | bytes:
    """Return HTML in UTF-8, or the answer for plain text or a refused page."""
    if is_plain(content_type):
        return extract_one(raw, content_type)
    if not isinstance(raw, str | Utf8Html) and (refused := refused_binary(raw)):
        return refused
    return html_in_utf8(raw, content_type)


def _article(page: bytes) -> ExtractedText:
    return _as_extracted(articles_of([page])[0])


def _as_extracted(article: bytes) -> ExtractedText:
    return ExtractedText(article.decode("utf-8", "replace"))


def _try_page(step: Callable[[], T]) -> T | ExtractedText:
    """Return what a step says of a page, or the answer for its error."""
    try:
        return step()
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:  # noqa: BLE001 - any error costs this page only
        return failed_by(error)


def warm_fast() -> None:
    """Compile every kernel that `extract_fast` may need, or load it."""
    utf8, broken, gb18030 = b"<p>one</p>", b"<p>\xff</p>", probes.HTML
    for page in (utf8, broken, gb18030):
        extract_fast(page, "text/html")  # the second is read as windows-1252
    extract_fast(broken, "text/html; charset=utf-8")
