"""The kernels for UTF-8 agree with Python's decoder."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from simstream.kernels.text.utf8 import count_beyond_ascii, is_utf8, mend_utf8

BROKEN = (
    b"\xff",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xed\xa0\x80",
    b"\xed\x9f",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xe4\xb8",
)
WHOLE = (
    "a",
    "a" * 9,
    "a" * 63,
    "a" * 64,
    "a" * 130,
    "é",
    "中",
    "\ufffd",
    "\ud7ff",
    "\ue000",
    "𠮷",
    "\U0010ffff",
    "\x00",
)
PARTS = st.one_of(st.sampled_from(BROKEN), st.sampled_from(WHOLE).map(str.encode), st.binary(max_size=4))


@given(st.lists(PARTS, max_size=12).map(b"".join))
@example(b"")
@example("中\ufffd文".encode())
@example(b"a" * 63 + b"\xff")
@example(b"a" * 64 + b"\xff")
@example(b"a" * 65 + b"\xff" + b"a" * 64)
@example(b"a" * 128 + b"\xff")
def test_bytes_are_utf8_exactly_where_python_decodes_them(raw: bytes) -> None:
    assert is_utf8(raw) == _decodes(raw)


@given(st.lists(PARTS, max_size=12).map(b"".join))
@example(b"")
@example(b"\xed\xa0\x80\xed\xa0\x80")
@example(b"\xed\xa0")
@example(b"\xed\x80a")
@example(b"\xed\x9f")
@example(b"a" * 63 + b"\xff" + b"a" * 64)
@example(b"\xff" * 70)
@example(b"\xff" + b"a" * 64)
def test_faults_are_counted_and_mended_as_python_replaces_them(raw: bytes) -> None:
    text = raw.decode("utf-8", "replace")
    assert mend_utf8(raw) == text.encode()
    replaced = text.count("\ufffd")
    assert count_beyond_ascii(raw) == (replaced, sum(sign > "\x7f" for sign in text) - replaced)


@given(st.text())
def test_every_text_is_utf8_and_its_beginning_up_to_a_character(text: str) -> None:
    raw = text.encode("utf-8", "replace")
    assert is_utf8(raw)
    assert [is_utf8(raw[:end]) for end in range(len(raw))] == [_decodes(raw[:end]) for end in range(len(raw))]


def _decodes(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
