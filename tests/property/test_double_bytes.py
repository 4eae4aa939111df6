"""Older East Asian charsets become the UTF-8 that Python's strict decoders make of them, or are left to these."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.kernels.text.double_bytes import DOUBLE_BYTE_CODECS, to_utf8
from simstream.text.extraction.fast import html_in_utf8

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
    try:
        return raw.decode(codec).encode()
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("codec", DOUBLE_BYTE_CODECS)
def test_every_pair_is_what_python_reads_or_is_left(codec: str) -> None:
    assert to_utf8(bytes(range(128)), codec) == bytes(range(128))
    done = 0
    for pair in range(0x8000, 0x10000):
        raw = pair.to_bytes(2, "big")
        found = to_utf8(raw, codec)
        assert found is None or found == expected(raw, codec)
        done += found is not None
        assert (found is not None) == _is_known(raw, codec)
    assert done > 6_800


def test_four_bytes_of_every_lead_are_what_python_reads() -> None:
    seen = 0
    for first, second, third in product(range(0x81, 0xFF), range(0x30, 0x3A), range(0x81, 0xFF)):
        some = range(0x30, 0x3A) if first < 0x85 or third in (0x81, 0xFE) else range(0x30 + third % 10, 0x3A, 10)
        for fourth in some:
            raw = bytes((first, second, third, fourth))
            assert to_utf8(raw, "gb18030") == expected(raw, "gb18030")
            seen += expected(raw, "gb18030") is not None
    assert seen > 140_000
    for damaged in (b"\x81\x30", b"\x81\x30\x84", b"\x81\x30\x84\x3a", b"\x81\x30\x30\x38", b"\x80\x30\x84\x38"):
        assert to_utf8(damaged, "gb18030") is None


@given(codec=st.sampled_from(DOUBLE_BYTE_CODECS), data=st.data())
def test_a_page_is_what_python_reads_or_is_left(codec: str, data: st.DataObject) -> None:
    written = st.text(st.sampled_from(TEXTS[codec]), max_size=40).map(lambda text: text.encode(codec))
    raw = b"".join(data.draw(st.lists(st.one_of(written, written, PIECES), max_size=12)))
    found, wanted = to_utf8(raw, codec), expected(raw, codec)
    assert found is None or found == wanted
    if wanted is not None and found is None:
        assert not _is_known(raw, codec)
    html = f'<meta charset="{CHARSETS[codec]}">'.encode() + raw
    if wanted is not None and b"\0" not in raw:
        assert html_in_utf8(html, "text/html") == html.decode(codec).encode()


def _is_known(raw: bytes, codec: str) -> bool:
    """Whether bytes, read one character at a time, are what the tables have: one, two or GB18030's four bytes."""
    while raw:
        for length in (1, 2, 4):
            text = (expected(raw[:length], codec) or b"").decode()
            if len(raw) >= length and len(text) == 1 and (ord(text) <= 0xFFFF or length == 4):
                break
        else:
            return False
        raw = raw[length:]
    return True


@pytest.mark.parametrize("codec", DOUBLE_BYTE_CODECS)
def test_text_of_every_length_and_place_is_whole(codec: str) -> None:
    for before in range(70):
        for text in (TEXTS[codec], TEXTS[codec] + "x" * 130):
            raw = (b"a" * before) + text.encode(codec)
            assert to_utf8(raw, codec) == ("a" * before + text).encode()
            assert to_utf8(raw + b"\x81", codec) is None
