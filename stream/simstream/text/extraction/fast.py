"""Extracts the article of HTML by kernels, in the caller's own thread.

They build no tree and read each byte a few times at most, whatever the page. So they need no process of their own,
no limit of time, and no refusal of costly HTML.
"""

from __future__ import annotations

from collections.abc import Sequence

from simstream.closing import Closing
from simstream.kernels.html.meta_charsets import charset_metas
from simstream.kernels.text.double_bytes import DOUBLE_BYTE_CODECS, to_utf8
from simstream.kernels.text.utf8 import is_utf8
from simstream.text import probes
from simstream.text.decode import charset_of, decode, expected_codec
from simstream.text.extraction.article import article_of
from simstream.text.extraction.extract import (
    OUT_OF_MEMORY,
    ExtractedText,
    extract_one,
    failed_by,
    is_plain,
    refused_binary,
    without_lone_surrogates,
)
from simstream.utf8_html import Utf8Html

_REPLACEMENT = "\ufffd".encode()


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
        return [extract_fast(raw, content_type) for raw, content_type in items]

    def close(self) -> None:
        """Refuse further pages. May be called twice."""
        self._is_closed = True


def extract_fast(raw: bytes | str, content_type: str) -> ExtractedText:
    """Extract the article of one page. `content_type` may carry the HTTP charset.

    It only decodes `text/plain`. Never raises. Cost: linear. HTML in UTF-8 is read where it lies; any other is
    turned into UTF-8 first: pages in GBK, Big5 and the like by a kernel, all others by Python.
    """
    try:
        if is_plain(content_type):
            return extract_one(raw, content_type)
        if not isinstance(raw, str | Utf8Html) and (refused := refused_binary(raw)):
            return refused
        return ExtractedText(article_of(html_in_utf8(raw, content_type)).decode("utf-8", "replace"))
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:  # noqa: BLE001 - any error of the kernel costs this page only
        return failed_by(error)


def warm_fast() -> None:
    """Compile every kernel that `extract_fast` may need, or load it: a page in UTF-8 and one in GB18030 run all."""
    for page in (b"<p>one</p>", probes.HTML):
        extract_fast(page, "text/html")


def html_in_utf8(raw: bytes | str, content_type: str) -> bytes:
    """Return HTML as the kernels read it: the text that `decode` finds, the bytes themselves if they are UTF-8."""
    if isinstance(raw, str):
        html = _encode(raw)
    else:
        html = raw if isinstance(raw, Utf8Html) else _as_utf8(raw, charset_of(content_type))
    return html.replace(b"\x00", _REPLACEMENT)


def _as_utf8(raw: bytes, http_charset: str | None) -> bytes:
    expected = expected_codec(raw, http_charset, True, charset_metas)
    body = raw[expected.mark_bytes :]
    if expected.codec == "utf-8" and is_utf8(body):
        return body
    if expected.codec in DOUBLE_BYTE_CODECS and (html := to_utf8(body, expected.codec)) is not None:
        return html
    return _encode(decode(raw, http_charset, True, charset_metas)[0])


def _encode(html: str) -> bytes:
    try:
        return html.encode()
    except UnicodeEncodeError:
        return without_lone_surrogates(html).encode()
