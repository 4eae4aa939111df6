"""The check of UTF-8, and its mending, beside Python's own decoder."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from simstream.kernels.text.utf8 import is_utf8, mend_utf8

BROKEN = (
    b"\xff",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xed\xa0\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xe4\xb8",
)
WHOLE = ("a", "aaaaaaaaa", "é", "中", "\ufffd", "\ud7ff", "\ue000", "𠮷", "\U0010ffff", "\x00")
PARTS = st.one_of(st.sampled_from(BROKEN), st.sampled_from(WHOLE).map(str.encode), st.binary(max_size=4))


@given(st.lists(PARTS, max_size=12).map(b"".join))
@example(b"")
@example("中\ufffd文".encode())
def test_bytes_are_utf8_exactly_where_python_decodes_them(raw: bytes) -> None:
    assert is_utf8(raw) == _decodes(raw)


@given(st.text())
def test_every_text_is_utf8_and_its_beginning_up_to_a_character(text: str) -> None:
    raw = text.encode("utf-8", "replace")
    assert is_utf8(raw)
    assert [is_utf8(raw[:end]) for end in range(len(raw))] == [_decodes(raw[:end]) for end in range(len(raw))]


@given(st.lists(st.one_of(PARTS, st.just(b"a" * 70)), max_size=12).map(b"".join))
@example(b"")
def test_mended_bytes_are_what_python_reads_leniently(raw: bytes) -> None:
    assert mend_utf8(raw) == raw.decode("utf-8", "replace").encode()


def test_every_pair_and_beginning_of_bytes_is_mended_as_python_does() -> None:
    for lead in range(0x80, 0x100):
        for second in range(0x100):
            raw = bytes((lead, second))
            for behind in (b"", b"\x80", b"\x80\x80", b"a"):
                assert mend_utf8(raw + behind) == (raw + behind).decode("utf-8", "replace").encode()


def _decodes(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
