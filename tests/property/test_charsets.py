"""`to_utf8` gives what Python's decoders give, faults included, or leaves the bytes to Python."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.kernels.text import charsets
from simstream.kernels.text.charsets import EAST_ASIAN_CODECS, to_utf8
from simstream.text.decode import decode
from simstream.text.extraction.html_bytes import html_in_utf8

CHARSETS = {"gb18030": "gbk", "big5hkscs": "big5", "cp949": "euc-kr", "cp932": "shift_jis", "euc_jp": "euc-jp"}
"""The label that a page declares for each."""
TEXTS = {
    "gb18030": "天地玄黄，宇宙洪荒。",
    "big5hkscs": "天地玄黃，宇宙洪荒。",
    "cp949": "하늘과 땅은 검고 누르다.",
    "cp932": "いろはにほへと、ちりぬるを。",
    "euc_jp": "いろはにほへと、ちりぬるを。",
}
PIECES = st.one_of(
    st.binary(max_size=6),
    st.text(st.characters(max_codepoint=127), max_size=200).map(str.encode),
    st.sampled_from(
        [
            b"\x80",
            b"\xff",
            b"\x81\x30\x84\x38",
            b"\x95\x30\x90\x34",
            b"\xa5",
            b"\x8f\xa2\xb7",
            b"\xb1",
            b"\x88\x62",
            b"\0",
            b"\x1b$B",
        ]
    ),
)


def expected(raw: bytes, codec: str) -> bytes | None:
    """Return Python's strict reading; None at a fault."""
    try:
        return raw.decode(codec).encode()
    except UnicodeDecodeError:
        return None


def replaced(raw: bytes, codec: str) -> bytes:
    return raw.decode(codec, "replace").encode()


def strict(raw: bytes, codec: str) -> tuple[bytes | None, bool]:
    """Return our strict reading, None at a fault; and False if the bytes are left to Python."""
    try:
        found = to_utf8(raw, codec)
    except UnicodeDecodeError:
        return None, True
    return found, found is not None


def kind_of_pair(raw: bytes, codec: str) -> int:
    """The code point of two bytes, or their mark, as newlines after them show it."""
    text, alone = ((part + b"\n\n\n").decode(codec, "replace") for part in (raw, raw[:1]))
    text = text[: text.index("\n")]
    if (codec == "gb18030" and raw[1] in range(0x30, 0x3A)) or (codec == "euc_jp" and raw[0] == 0x8F):
        return charsets._TO_PYTHON
    if raw[1] == 0:
        return charsets._INVALID if alone[0] == "\ufffd" else ord(alone[0])
    if len(text) == 1:
        return ord(text) if 0x80 <= ord(text) <= 0xFFFF else charsets._TO_PYTHON
    if text[0] == "\ufffd":
        return charsets._INVALID
    return charsets._SINGLE if text[0] == alone[0] else charsets._TO_PYTHON


@pytest.mark.parametrize("codec", EAST_ASIAN_CODECS)
def test_the_table_of_pairs_has_what_python_reads_pair_by_pair(codec: str) -> None:
    pairs = charsets._make_pairs(codec)
    for lead, trail in product(range(128, 256), range(256)):
        raw = bytes((lead, 11 if trail == 10 else trail))  # neither is a second byte
        assert pairs[lead - 128, trail] == kind_of_pair(raw, codec)


@pytest.mark.parametrize("codec", EAST_ASIAN_CODECS)
def test_every_pair_is_what_python_reads_or_is_left(codec: str) -> None:
    assert to_utf8(bytes(range(128)), codec) == bytes(range(128))
    done = 0
    for pair in range(0x8000, 0x10000):
        raw = pair.to_bytes(2, "big")
        found, is_read = strict(raw, codec)
        if is_read:
            assert found == expected(raw, codec)
        assert to_utf8(raw, codec, "replace") in (replaced(raw, codec), None)
        done += found is not None
        assert (found is not None) == _is_known(raw, codec)
    assert done > 6_800


@pytest.mark.parametrize("codec", EAST_ASIAN_CODECS)
def test_only_what_the_tables_cannot_hold_is_left_to_python(codec: str) -> None:
    for pair in range(0x8000, 0x10000):
        raw = pair.to_bytes(2, "big") + b"xx"
        if to_utf8(raw, codec, "replace") is None:
            text = raw.decode(codec, "replace")[:-2]
            assert codec != "euc_jp"
            assert len(text) == 2 or text > "\uffff" or text == "\ufffd"  # the second byte begins such a pair


def test_every_three_bytes_of_euc_jp_are_what_python_reads() -> None:
    seen = 0
    for second, third in product(range(256), range(256)):
        for raw in (bytes((0x8F, second, third)), bytes((0x8F, second, third, 0x61))):
            assert strict(raw, "euc_jp") == (expected(raw, "euc_jp"), True)
            assert to_utf8(raw, "euc_jp", "replace") == replaced(raw, "euc_jp")
            seen += expected(raw, "euc_jp") is not None
    assert seen > 12_000
    for damaged in (b"\x8f", b"\x8f\0", b"\x8f\xa2", b"\x8fx"):
        assert to_utf8(damaged, "euc_jp", "replace") == replaced(damaged, "euc_jp")


def test_four_bytes_of_every_lead_are_what_python_reads() -> None:
    seen = 0
    for first, second, third in product(range(0x81, 0xFF), range(0x30, 0x3A), range(0x81, 0xFF)):
        some = range(0x30, 0x3A) if first < 0x85 or third in (0x81, 0xFE) else range(0x30 + third % 10, 0x3A, 10)
        for fourth in some:
            raw = bytes((first, second, third, fourth))
            assert strict(raw, "gb18030") == (expected(raw, "gb18030"), True)
            seen += expected(raw, "gb18030") is not None
    assert seen > 140_000
    for damaged in (b"\x81\x30", b"\x81\x30\x84", b"\x81\x30\x84\x3a", b"\x81\x30\x30\x38", b"\x80\x30\x84\x38"):
        for raw in (damaged, damaged + b"x", damaged + b"\x81\x30\x84\x36", b"\xff" + damaged):
            assert strict(raw, "gb18030") == (None, True)
            assert to_utf8(raw, "gb18030", "replace") == replaced(raw, "gb18030")


@given(codec=st.sampled_from(EAST_ASIAN_CODECS), data=st.data())
def test_a_page_is_what_python_reads_or_is_left(codec: str, data: st.DataObject) -> None:
    written = st.text(st.sampled_from(TEXTS[codec]), max_size=40).map(lambda text: text.encode(codec))
    raw = b"".join(data.draw(st.lists(st.one_of(written, written, PIECES), max_size=12)))
    (found, is_read), wanted = strict(raw, codec), expected(raw, codec)
    if is_read:
        assert found == wanted
    elif wanted is not None:
        assert not _is_known(raw, codec)
    assert to_utf8(raw, codec, "replace") in (replaced(raw, codec), None)
    html = f'<meta charset="{CHARSETS[codec]}">'.encode() + raw
    assert html_in_utf8(html, "text/html") == decode(html, None, True)[0].replace("\0", "\ufffd").encode()


def _is_known(raw: bytes, codec: str) -> bool:
    """Whether bytes, read one character at a time, are what the tables have: one to four bytes."""
    while raw:
        for length in (1, 2, 3, 4):
            text = (expected(raw[:length], codec) or b"").decode()
            if len(raw) >= length and len(text) == 1 and (ord(text) <= 0xFFFF or length == 4):
                break
        else:
            return False
        raw = raw[length:]
    return True


SINGLE_BYTE_CODECS = [
    *("cp866", "cp874", *(f"cp{number}" for number in range(1250, 1259))),
    *(f"iso8859-{part}" for part in (*range(2, 12), 13, 14, 15, 16)),
    *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "cp037"),
]
"""Charsets of web pages; and EBCDIC, whose first half is not ASCII."""


@pytest.mark.parametrize("codec", SINGLE_BYTE_CODECS)
def test_single_bytes_are_what_python_reads(codec: str) -> None:
    raw = bytes(range(256)) * 2
    if codec == "cp037":
        assert to_utf8(raw, codec) is None
        return
    assert to_utf8(raw, codec, "replace") == replaced(raw, codec)
    for byte in range(256):
        assert strict(bytes([byte, 255 - byte]), codec) == (expected(bytes([byte, 255 - byte]), codec), True)


GROWING = [*((codec, b"\xff\x80") for codec in EAST_ASIAN_CODECS), ("cp1252", b"\x80"), ("iso8859-6", b"\xff")]
"""What grows threefold: a fault, and the euro sign."""


@pytest.mark.parametrize(("codec", "piece"), GROWING)
def test_bytes_that_grow_threefold_have_room(codec: str, piece: bytes) -> None:
    for size in (1, 63, 64, 65, 5_000):
        assert to_utf8(piece * size, codec, "replace") == replaced(piece * size, codec)


@pytest.mark.parametrize(
    "raw", ["8130ff30", "81308030", "e3329a35", "e3329a36", "fe39fe39", "90308130", "8431a436"]
)
def test_four_bytes_at_the_edges_are_what_python_reads(raw: str) -> None:
    page = bytes.fromhex(raw)
    assert strict(page, "gb18030") == (expected(page, "gb18030"), True)
    assert to_utf8(page, "gb18030", "replace") == replaced(page, "gb18030")


@pytest.mark.parametrize(("raw", "codec"), [(b"ab\xff", "gb18030"), ("天地x".encode("gbk") + b"\xffa", "gb18030")])
def test_the_error_says_where_the_first_fault_is(raw: bytes, codec: str) -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        to_utf8(raw, codec)
    assert caught.value.start == raw.index(b"\xff")


def test_the_error_says_where_the_first_byte_without_a_character_is() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        to_utf8("привет".encode("cp1251") * 20 + b"\x98 \x98", "cp1251")
    assert caught.value.start == 120


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-8", "iso2022_jp", "hz", "utf_7"])
def test_other_codecs_are_left_to_python(codec: str) -> None:
    assert to_utf8(b"abc", codec) is None


@pytest.mark.parametrize("codec", EAST_ASIAN_CODECS)
def test_text_of_every_length_and_place_is_read_as_python_reads_it(codec: str) -> None:
    for before in range(70):
        for text in (TEXTS[codec], TEXTS[codec] + "x" * 130):
            raw = (b"a" * before) + text.encode(codec)
            assert to_utf8(raw, codec) == ("a" * before + text).encode()
            assert strict(raw + b"\xff", codec) == (expected(raw + b"\xff", codec), True)
            assert to_utf8(raw + b"\xff", codec, "replace") == replaced(raw + b"\xff", codec)
