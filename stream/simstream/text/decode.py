"""Decodes fetched bytes as browsers do: finds their character set.

The order is that of the WHATWG standards (encoding.spec.whatwg.org, "encoding sniffing" in the HTML standard):
byte-order mark, HTTP charset, `meta` within the first 1,024 bytes, detection. Labels mean what they mean on the
web: `gb2312` is GB18030, `latin1` is windows-1252. Two rules go beyond the standard, because pages lie. If the
bytes are invalid in the declared charset and valid as UTF-8, they are read as UTF-8. And a page full of invalid
UTF-8 is not read as UTF-8, even if it declares it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal, NamedTuple

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from simstream.charset_codecs import EAST_ASIAN_CODECS, single_byte_characters

PRESCAN_BYTES = 1024
_LATE_META_BYTES = 1 << 16
_MAX_METAS = 16
"""The most metas of a charset that are read. Real pages have one or two."""
_MAX_DETECTED_BYTES = 1 << 17
_MAX_NON_ASCII_BYTES = 1 << 13
"""The most bytes beyond ASCII that detection reads. Each takes it .1 to .7 us."""
_MAX_PAIRS = 512
"""The most pairs of bytes by which short Chinese is told."""
_ASCII = bytes(range(128))
_DENSE = 16
"""A page with this many faults, and fewer characters beyond ASCII, is not what it declares."""

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF16_LE, "utf-16-le"))
# Python's codecs with these names accept less than the web's charsets.
_WIDER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "iso8859-11": "cp874",
    "ascii": "cp1252",
}
_LATIN = frozenset({"cp1250", "cp1252", "cp1254", "cp1257", "cp437", "cp850", "cp852", "cp858", "cp865"}) | {
    f"iso8859-{part}" for part in (1, 2, 3, 4, 9, 10, 13, 14, 15, 16)
}
_PAIR = re.compile(rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]")
_GB_COMMON = re.compile(rb"[\xa1-\xa3\xb0-\xd7][\xa1-\xfe]")
_BIG5_COMMON = re.compile(rb"[\xa1-\xc6][\x40-\x7e\xa1-\xfe]")

_TAG = re.compile(rb"<!--.*?(?:-->|\Z)|<(meta)(?=[\s/])|</?[a-zA-Z]|<[!/?][^>]*(?:>|\Z)", re.S | re.I)
_ATTRIBUTE = re.compile(rb"""[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']*)))?""", re.S)
_IN_CONTENT = re.compile(rb"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))""", re.I)
_XML_ENCODING = re.compile(rb"""<\?xml\s[^>]*?encoding\s*=\s*["']([^"']+)["']""", re.I)
_HTTP_CHARSET = re.compile(r"""charset\s*=\s*(?:["']\s*)?([^\s;"']+)""", re.I)

MetaLabels = tuple[bytes | None, bytes | None]
"""The values of `charset`, and of `content` if the `http-equiv` is "content-type". At least one is set."""
MetaFinder = Callable[[bytes, int], list[MetaLabels]]
"""Takes the head of a page and a limit, and returns the labels of at most that many metas."""


class ByteChecks(NamedTuple):
    """What the search for a codec asks of bytes. `html_bytes` hands in kernels, which give the same answers."""

    metas: MetaFinder
    count_beyond_ascii: Callable[[bytes], tuple[int, int]]
    """The number of U+FFFD in a lenient UTF-8 decoding, and of other characters beyond ASCII."""
    is_valid: Callable[[bytes, str], bool]
    """Whether a codec reads the bytes without a fault."""


class ExpectedCodec(NamedTuple):
    """The codec that a page is tried with first."""

    codec: str
    """The name of a Python codec."""
    mark_bytes: int
    """The length of the byte-order mark, which is no part of the text."""
    origin: Literal["seen", "declared", "assumed"]
    """`seen`: the bytes themselves show it, and no fault changes it. `assumed`: UTF-8, as nothing is declared."""


def charset_metas(head: bytes, most: int) -> list[MetaLabels]:
    """Return the first `most` metas that can name a charset."""
    every = ((one.get(b"charset"), _content_of(one)) for one in _metas(head))
    return list(islice((labels for labels in every if labels != (None, None)), most))


def _content_of(meta: dict[bytes, bytes]) -> bytes | None:
    is_type = meta.get(b"http-equiv", b"").lower() == b"content-type"
    return meta.get(b"content") if is_type else None


def _metas(head: bytes) -> Iterator[dict[bytes, bytes]]:
    """Yield the attributes of each `meta` tag, in order. Tags in comments and quoted attributes do not count."""
    at = 0
    while (tag := _TAG.search(head, at)) is not None:
        at = tag.end()
        if tag[0].startswith((b"<!", b"<?")) or tag[0].endswith(b">"):
            continue
        attributes: dict[bytes, bytes] = {}
        while (found := _ATTRIBUTE.match(head, at)) is not None:
            at = found.end()
            value = next((part for part in found.groups()[1:] if part is not None), b"")
            attributes.setdefault(found[1].lower(), value)
        if tag[1]:
            yield attributes


def decode(raw: bytes, http_charset: str | None, is_html: bool) -> tuple[str, str]:
    """Return the text of `raw`, and the name of the Python codec that decoded it; unknown bytes become U+FFFD.

    `http_charset` is the label from the HTTP header, if there was one; an unknown label is ignored. Only HTML is
    searched for a `meta`. Never raises. Cost: one or two passes of the codec. Without a declaration, bytes that are
    not UTF-8 also cost a detection over at most 128 KB.
    """
    expected = expected_codec(raw, http_charset, is_html)
    body = raw[expected.mark_bytes :]
    text = decode_strictly(body, expected.codec)
    if text is not None:
        return text, expected.codec
    codec = codec_despite_faults(raw, expected, is_html)
    return decode_with_replacements(body, codec), codec


def expected_codec(
    raw: bytes, http_charset: str | None, is_html: bool, metas: MetaFinder = charset_metas
) -> ExpectedCodec:
    """Return the codec that `decode` keeps if it reads these bytes without a fault; the arguments are the same.

    Without `metas`, no kernel is needed.
    """
    for bom, name in _BOMS:
        if raw.startswith(bom):
            return ExpectedCodec(name, len(bom), "seen")
    declared = codec_of(http_charset)
    if declared is None and is_html:
        declared = _from_meta(raw[:PRESCAN_BYTES], metas)
    if declared is not None:
        return ExpectedCodec(declared, 0, "declared")
    wide = _utf16_without_mark(raw)
    return ExpectedCodec(wide, 0, "seen") if wide else ExpectedCodec("utf-8", 0, "assumed")


def charset_of(content_type: str) -> str | None:
    """Return the charset parameter of a content-type, as it is written."""
    found = _HTTP_CHARSET.search(content_type)
    return found[1] if found else None


def is_ascii_based(raw: bytes, http_charset: str | None) -> bool:
    """Whether `decode` surely reads every byte of `raw` below 64 as ASCII, as in almost all charsets.

    If True, tags can be found in the bytes: a letter's second byte is below 64 only in UTF-16 and after an escape
    of ISO 2022. (HZ has another escape, but no page is read as HZ: it is valid UTF-8.)
    """
    codec = codec_of(http_charset) or ""
    is_wide = codec.startswith("utf-16") or raw.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE))
    return not is_wide and b"\x00" not in raw[:4096] and b"\x1b" not in raw


def codec_of(label: str | None) -> str | None:
    """Return Python's codec for a label as the web understands it; None for an unknown label."""
    if not label or not label.isascii():  # the parser cannot take lone surrogates, and no label has other signs
        return None
    name = map_encoding_to_html5(label.strip("\t\n\x0c\r ").lower(), fallback_utf8=False)
    return _WIDER.get(name, name) if name else None


def codec_despite_faults(
    raw: bytes, expected: ExpectedCodec, is_html: bool, checks: ByteChecks | None = None
) -> str:
    """Return the codec by which `decode` reads bytes in which the expected codec finds a fault.

    Without `checks`, no kernel is needed.
    """
    checks = checks or ByteChecks(charset_metas, _count_beyond_ascii, _is_valid)
    if expected.origin == "seen":
        return expected.codec
    if expected.origin == "declared" and expected.codec == "utf-8":
        return _codec_if_utf8_fails(raw, checks)
    if _is_utf8_but_for_its_end(raw, checks):
        return "utf-8"
    return expected.codec if expected.origin == "declared" else _undeclared(raw, is_html, checks)


def _undeclared(raw: bytes, is_html: bool, checks: ByteChecks) -> str:
    """Return the codec of bytes that are not UTF-8 and declare nothing in the part that a browser searches."""
    late = _from_meta(raw[:_LATE_META_BYTES], checks.metas) if is_html else None
    if late and late != "utf-8":
        return late
    faults, others = checks.count_beyond_ascii(raw)
    if faults * 8 < others:  # UTF-8 with a few bytes lost
        return "utf-8"
    name = _detected(raw)
    if name is None or name in _LATIN:
        return _short_chinese(raw, checks) or name or "cp1252"
    return name


def decode_with_replacements(raw: bytes, codec: str) -> str:
    """Return `raw.decode(codec, "replace")`.

    In a charset of single bytes Python takes 100 ns for each byte without a character. Here it has U+FFFD.
    """
    table = single_byte_characters(codec)
    return raw.decode(codec, "replace") if table is None else codecs.charmap_decode(raw, "strict", table)[0]


def _codec_if_utf8_fails(raw: bytes, checks: ByteChecks) -> str:
    """Return the codec of bytes that are declared as UTF-8 and are not. Nearly always it is UTF-8, as in browsers.

    The exception is a page full of invalid bytes that an East Asian charset reads without a fault.
    """
    faults, others = checks.count_beyond_ascii(raw)
    if faults >= _DENSE and faults > others:
        name = _detected(raw)
        if name in EAST_ASIAN_CODECS and checks.is_valid(raw, name):
            return name
    return "utf-8"


def _count_beyond_ascii(raw: bytes) -> tuple[int, int]:
    text = raw.decode("utf-8", "replace")
    faults = text.count("\ufffd")
    return faults, len(text) - len(text.encode("ascii", "ignore")) - faults


def _is_valid(raw: bytes, codec: str) -> bool:
    return decode_strictly(raw, codec) is not None


def decode_strictly(raw: bytes, codec: str) -> str | None:
    """Return the text if the codec reads the bytes without a fault, else None."""
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None


def _is_utf8_but_for_its_end(raw: bytes, checks: ByteChecks) -> bool:
    """Whether the bytes are UTF-8, apart from a character that the end cuts off. Three are too few to tell."""
    for cut in range(1, 4 if len(raw) > 3 else 1):
        try:
            raw[-cut:].decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data" and error.start == 0:
                return checks.is_valid(raw[:-cut], "utf-8")
    return checks.is_valid(raw, "utf-8")


def _utf16_without_mark(raw: bytes) -> str | None:
    """Return the UTF-16 codec of these bytes, if any. Text with some ASCII has NULs in every other place, and
    nearly none between."""
    head = raw[:4096]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    enough = max(2, len(head) // 20)
    if odd >= enough and even * 20 <= odd:
        return "utf-16-le"
    if even >= enough and odd * 20 <= even:
        return "utf-16-be"
    return None


def _detected(raw: bytes) -> str | None:
    """Return the codec that the bytes look like (uchardet's statistics, over the two ends of a long page)."""
    found = detect_encoding(raw, max_len=_detected_bytes(raw), html5_compatible=False)
    if not found:
        return None
    name = codec_of(found) or found.lower()
    try:
        codecs.lookup(name)
    except LookupError:
        return None
    return "cp1252" if name == "utf-8" else _WIDER.get(name, name)


def _detected_bytes(raw: bytes) -> int:
    """Return how many bytes of the two ends detection reads: at most _MAX_DETECTED_BYTES, halved until at most
    _MAX_NON_ASCII_BYTES of them are beyond ASCII."""
    most = min(len(raw), _MAX_DETECTED_BYTES)
    while most > _MAX_NON_ASCII_BYTES:
        ends = raw[: most // 2] + raw[len(raw) - most // 2 :]
        if len(ends.translate(None, _ASCII)) <= _MAX_NON_ASCII_BYTES:
            break
        most //= 2
    return most


def _short_chinese(raw: bytes, checks: ByteChecks) -> str | None:
    """Return the codec of Chinese that is too short for statistics: pairs of bytes, most of the first ones in the
    common rows.

    Western text has single bytes beyond ASCII, so it is hardly ever valid in pairs.
    """
    for codec, common in (("gb18030", _GB_COMMON), ("big5hkscs", _BIG5_COMMON)):
        is_valid = checks.is_valid(raw, codec)
        pairs = [pair[0] for pair in islice(_PAIR.finditer(raw), _MAX_PAIRS)] if is_valid else []
        if len(pairs) >= 2 and sum(map(bool, map(common.fullmatch, pairs))) * 10 >= len(pairs) * 8:
            return codec
    return None


def _from_meta(head: bytes, metas: MetaFinder) -> str | None:
    """Return the codec that the first fitting `meta` names, else the one of an XML declaration."""
    for label, content in metas(head, _MAX_METAS):
        if label is None:
            found = _IN_CONTENT.search(content or b"")
            label = next((part for part in found.groups() if part is not None), None) if found else None
        codec = _meta_codec(label)
        if codec:
            return codec
    found = _XML_ENCODING.match(head[:PRESCAN_BYTES])
    return _meta_codec(found[1]) if found else None


def _meta_codec(label: bytes | None) -> str | None:
    """Return the codec of a label inside the page. A page whose label could be read as ASCII is not UTF-16."""
    name = label.decode("latin-1").strip().lower() if label else ""
    if name == "x-user-defined":
        return "cp1252"
    codec = codec_of(name)
    return "utf-8" if codec and codec.startswith("utf-16") else codec
