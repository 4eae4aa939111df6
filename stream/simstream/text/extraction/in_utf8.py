"""Turns HTML into the UTF-8 that the kernels read. Nearly all of it is done by kernels, too."""

from __future__ import annotations

from typing import Final

from simstream.kernels.html.meta_charsets import charset_metas
from simstream.kernels.text import legacy_encodings
from simstream.kernels.text.utf8 import count_beyond_ascii, is_utf8, mended
from simstream.text.decode import (
    ByteReaders,
    charset_of,
    codec_despite_faults,
    decode_strictly,
    decode_with_replacements,
    expected_codec,
)
from simstream.text.extraction.extract import without_lone_surrogates
from simstream.utf8_html import Utf8Html

_REPLACEMENT: Final = "\ufffd".encode()


def html_in_utf8(raw: bytes | str, content_type: str) -> bytes:
    """Return HTML as the kernels read it: the text that `decode` finds, the bytes themselves if they are UTF-8.

    NUL becomes U+FFFD. Pages in UTF-8, and in encodings that keep ASCII, cost a pass or two of a kernel; UTF-16,
    encodings with escapes, and a few rare characters are left to Python.
    """
    if isinstance(raw, str):
        html = _encode(raw)
    else:
        html = raw if isinstance(raw, Utf8Html) else _bytes_in_utf8(raw, charset_of(content_type))
    return html.replace(b"\x00", _REPLACEMENT) if b"\x00" in html else html  # `replace` copies subclasses


def _bytes_in_utf8(raw: bytes, http_charset: str | None) -> bytes:
    expected = expected_codec(raw, http_charset, True, charset_metas)
    body = raw[expected.mark_bytes :]
    html = _read(body, expected.codec)
    return (
        _read_with_replacements(body, codec_despite_faults(raw, expected, True, _READERS)) if html is None else html
    )


def _read(raw: bytes, codec: str) -> bytes | None:
    """Return the text in UTF-8 if the codec reads the bytes without a fault, else None."""
    if codec == "utf-8":
        return raw if is_utf8(raw) else None
    try:
        html = legacy_encodings.to_utf8(raw, codec)
    except UnicodeDecodeError:
        return None
    if html is not None:
        return html
    text = decode_strictly(raw, codec)
    return None if text is None else _encode(text)


def _read_with_replacements(raw: bytes, codec: str) -> bytes:
    if codec == "utf-8":
        return raw if is_utf8(raw) else mended(raw)  # whole where another charset is declared
    html = legacy_encodings.to_utf8(raw, codec, "replace")
    return _encode(decode_with_replacements(raw, codec)) if html is None else html


def _is_whole(raw: bytes, codec: str) -> bool:
    return _read(raw, codec) is not None


def _encode(html: str) -> bytes:
    try:
        return html.encode()
    except UnicodeEncodeError:
        return without_lone_surrogates(html).encode()


_READERS: Final = ByteReaders(charset_metas, count_beyond_ascii, _is_whole)
