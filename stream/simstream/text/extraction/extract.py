"""Extracts the main content of one HTML page, as the text that is compared.

HTML goes through resiliparse. Its parser holds the GIL and reads text from strangers. So `extraction/pool` runs it
in other processes: a page that kills or hangs its process costs only itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from simstream.utf8_html import Utf8Html

MIN_MAIN_CHARACTERS = 64
"""If the main content has fewer characters than this, without spaces, the text of the whole page counts."""

_MAGIC = (
    (b"%PDF-", "PDF"),
    (b"\x89PNG", "PNG"),
    (b"PK\x03\x04", "ZIP"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x7fELF", "ELF"),
    (b"Rar!\x1a", "RAR"),
    (b"7z\xbc\xaf", "7z"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
    (b"\x00\x00\x01\x00", "an icon"),
)
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\f\r\x1b") + b"\x7f"


class ExtractedText(NamedTuple):
    """The text of a page. If `text` is None, `reason` (one of REASONS) and `detail` say why."""

    text: str | None
    reason: str = ""
    detail: str = ""


OUT_OF_MEMORY: Final = ExtractedText(None, "extract_failed", "there was not enough memory for the page")


def extract_one(raw: bytes | str, content_type: str) -> ExtractedText:
    """Extract the text of one page, in this process. `content_type` may carry the HTTP charset.

    It only decodes `text/plain`. Raises MemoryError and nothing else. Cost: about 1 ms for 100 KB of HTML.
    """
    is_html = not is_plain(content_type)
    if isinstance(raw, str):
        text = raw
    elif isinstance(raw, Utf8Html):
        text = raw.decode()
    else:
        from simstream.text.decode import charset_of, decode  # an import of 10 ms that JSON text does not need

        if refused := refused_binary(raw):
            return refused
        text, _ = decode(raw, charset_of(content_type), is_html)
    return _main_content(text) if is_html else ExtractedText(text)


def is_plain(content_type: str) -> bool:
    """Whether a page of this type of content is plain text, which is only decoded."""
    return content_type.lower().startswith("text/plain")


def _main_content(html: str) -> ExtractedText:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    try:
        html = html.replace("\x00", "\ufffd")
        try:
            tree = HTMLTree.parse(html)
        except UnicodeEncodeError:
            tree = HTMLTree.parse(without_lone_surrogates(html))
        text = extract_plain_text(tree, main_content=True, comments=False, list_bullets=False, alt_texts=False)
        if _is_nearly_empty(text):
            whole = extract_plain_text(tree, list_bullets=False, alt_texts=False)
            text = max(text, whole, key=len)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - any error of the parser costs this page only
        return failed_by(error)
    return ExtractedText(text)


def failed_by(error: Exception) -> ExtractedText:
    """Return the answer for a page whose extraction raised this error."""
    return ExtractedText(None, "extract_failed", f"the HTML could not be read ({type(error).__name__}: {error})")


def without_lone_surrogates(html: str) -> str:
    """Return the text with U+FFFD for lone surrogates. The halves of a pair become one character."""
    return html.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _is_nearly_empty(text: str) -> bool:
    """Return whether the text has fewer than MIN_MAIN_CHARACTERS, spaces aside. Reads the start of a long text."""
    words = text.split(None, MIN_MAIN_CHARACTERS)
    return len(words) <= MIN_MAIN_CHARACTERS and sum(map(len, words)) < MIN_MAIN_CHARACTERS


def refused_binary(raw: bytes) -> ExtractedText | None:
    """Return why the bytes are refused if they are no text; None for text in any character set."""
    what = binary_kind(raw)
    return ExtractedText(None, "binary", f"the value is not text but {what}") if what else None


def binary_kind(raw: bytes) -> str:
    """Return what the bytes are if they are no text; empty for text in any character set."""
    for magic, name in _MAGIC:
        if raw.startswith(magic):
            return name
    if raw[:4] == b"RIFF" and raw[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return "RIFF media"
    head = raw[:4096]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ""
    nuls = head.count(0)
    controls = len(head) - len(head.translate(None, _CONTROLS)) - nuls
    if controls * 10 > len(head) or (nuls * 10 > len(head) and not _like_utf16(head)):
        return "binary data"
    return ""


def _like_utf16(head: bytes) -> bool:
    """Whether NULs are in every other place only: the high halves of ASCII characters."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    return min(even, odd) * 20 <= max(even, odd)
