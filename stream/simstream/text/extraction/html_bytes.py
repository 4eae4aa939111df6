"""Turns fetched HTML into the UTF-8 that the kernels read."""

from __future__ import annotations

from typing import Final

from simstream.kernels.html.meta_charsets import charset_metas
from simstream.kernels.text import charsets
from simstream.kernels.text.utf8 import count_beyond_ascii, is_utf8, mend_utf8
from simstream.text.decode import (
    ByteChecks,
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

    NUL becomes U+FFFD. Kernels read UTF-8 and the charsets of `kernels/text/charsets` in a pass or two, Python all
    others. Bytes that declare nothing and are not UTF-8 also cost a detection over at most 128 KB.
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
        _read_with_replacements(body, codec_despite_faults(raw, expected, True, _CHECKS)) if html is None else html
    )


def _read(raw: bytes, codec: str) -> bytes | None:
    """Return the text in UTF-8 if the codec reads the bytes without a fault, else None."""
    if codec == "utf-8":
        return raw if is_utf8(raw) else None
    try:
        html = charsets.to_utf8(raw, codec)
    except UnicodeDecodeError:
        return None
    if html is not None:
        return html
    text = decode_strictly(raw, codec)
    return None if text is None else _encode(text)


def _read_with_replacements(raw: bytes, codec: str) -> bytes:
    if codec == "utf-8":
        return raw if is_utf8(raw) else mend_utf8(raw)  # valid if the page declares another charset
    html = charsets.to_utf8(raw, codec, "replace")
    return _encode(decode_with_replacements(raw, codec)) if html is None else html


def _is_valid(raw: bytes, codec: str) -> bool:
    return _read(raw, codec) is not None


def _encode(html: str) -> bytes:
    try:
        return html.encode()
    except UnicodeEncodeError:
        return without_lone_surrogates(html).encode()


_CHECKS: Final = ByteChecks(charset_metas, count_beyond_ascii, _is_valid)
