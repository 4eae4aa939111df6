"""The kernel that decodes character references, against `html.unescape`."""

from __future__ import annotations

import html
from html.entities import html5

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simstream.kernels.html.character_references import (
    AMPERSAND,
    REFERENCES,
    CharacterReferences,
    read_reference,
    room_for,
)
from simstream.kernels.html.tags import Bytes, HtmlBytes, make_html
from simstream.kernels.jit import lean_kernel
from tests.naive_references import unescape, unescape_bytes

NAMES = sorted(html5)
AFTER = ["", ";", "a", "z", "Z", "0", "9", "=", " ", "&", "#", "文", ";;", "it;", "in;", "x" * 40]
GUARD, GUARD_BYTES = 0xA5, 16

name = st.sampled_from(NAMES)
cut_name = st.builds(lambda n, size: n[:size], name, st.integers(0, 33))
joined_names = st.builds(lambda a, b: a.rstrip(";") + b, cut_name, name)
number = st.integers(0, 0x120000) | st.integers(0, 300) | st.integers(0, 1 << 80)
numeric = st.builds(
    lambda n, form, zeros, end: f"#{form[0]}{'0' * zeros}{n:{form[-1]}}{end}",
    number, st.sampled_from(["d", "xx", "XX", "xX", "Xx"]).map(lambda form: ("", "d") if form == "d" else form),
    st.integers(0, 9), st.sampled_from(["", ";", "a", "g", " "]),
)  # fmt: skip
broken = st.sampled_from(["", "#", "#;", "#x", "#x;", "#xg", "#a", "x;", "x", "amp", "ampamp;", "文;", "<b>", "&"])
reference = (name | cut_name | joined_names | numeric | broken).map("&".__add__)
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(AFTER)
soup = st.lists(reference | plain, max_size=20).map("".join)


@lean_kernel
def decode_all(page: HtmlBytes, start: int, end: int, references: CharacterReferences, text: Bytes) -> int:
    at, to = start, 0
    while at < end:
        if page.bytes[at] == AMPERSAND:
            at, to = read_reference(page, at, end, references, text, to)
        else:
            text[to] = page.bytes[at]
            at, to = at + 1, to + 1
    return to


def decode(data: bytes, start: int = 0, end: int | None = None) -> bytes:
    """What the kernel writes; fails if it writes more than `room_for` promises."""
    end = len(data) if end is None else end
    room = room_for(end - start)
    text = np.full(room + GUARD_BYTES, GUARD, np.uint8)
    size = decode_all(make_html(data), start, end, REFERENCES, text)
    assert size <= room
    assert (text[size:] == GUARD).all()
    return text[:size].tobytes()


@pytest.mark.parametrize("after", AFTER)
def test_every_name_means_what_python_says(after: str) -> None:
    for name in NAMES:
        page = f"&{name}{after}"
        assert decode(page.encode()) == html.unescape(page).encode(), page


@pytest.mark.parametrize("after", ["", ";", "q", "文"])
def test_every_name_cut_short_means_what_python_says(after: str) -> None:
    for cut in sorted({name[:size] for name in NAMES for size in range(len(name))}):
        page = f"&{cut}{after}"
        assert decode(page.encode()) == html.unescape(page).encode(), page


@pytest.mark.parametrize("form", ["&#{};", "&#{} ", "&#x{:x};", "&#X{:X}g", "&#00{}", "&#x00{:x}"])
def test_every_code_point_means_what_the_standard_says(form: str) -> None:
    points = [*range(0x3000), *range(0xD700, 0xE100), *range(0xFD00, 0x10100), *range(0x10FF00, 0x110100)]
    points += [plane + last for plane in range(0, 0x110000, 0x10000) for last in (0, 0xFFFD, 0xFFFE, 0xFFFF)]
    page = "|".join(form.format(point) for point in points)
    assert decode(page.encode()) == unescape(page)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("&#1;&#x7f;&#xFDD0;&#xffff;", "\x01\x7f\ufdd0\uffff"),
        ("&#13;&#x0B;", "\r\x0b"),
        ("&#128;&#x81;&#150;&#159;", "€\x81–Ÿ"),
        ("&#0;&#xD800;&#xdfff;&#x110000;", "\ufffd" * 4),
    ],
)
def test_invalid_code_points_are_kept_or_replaced_as_in_the_standard(page: str, text: str) -> None:
    assert decode(page.encode()) == text.encode()


@pytest.mark.parametrize(("form", "digits"), [("&#", "9"), ("&#x", "f"), ("&#", "18446744073709551681")])
def test_a_huge_number_does_not_overflow(form: str, digits: str) -> None:
    for count in (1, 10, 100_000):
        page = f"{form}{digits * 10 * count}; "
        assert decode(page.encode()) == "\ufffd ".encode()


def test_leading_zeros_do_not_count() -> None:
    assert decode(b"&#" + b"0" * 100_000 + b"65;&#x" + b"0" * 100_000 + b"41") == b"AA"


@given(soup)
@example("&notit; &notin; &not &no &ampamp;")
@example("&CounterClockwiseContourIntegral; &CounterClockwiseContourIntegral")
@example("&CounterClockwiseContourIntegra" * 5)
@example("&#38;amp; &amp;#38; &#x26amp;")
def test_mixtures_mean_what_the_standard_says(page: str) -> None:
    assert decode(page.encode()) == unescape(page)


@given(st.lists(st.binary(max_size=8) | reference.map(str.encode), max_size=20).map(b"".join))
def test_bytes_that_are_not_utf_8_stay_as_they_are(data: bytes) -> None:
    page = data.decode("latin-1")
    assert decode(data) == unescape_bytes(page).encode("latin-1")


@given(soup, st.data())
def test_no_byte_outside_the_range_is_read(page: str, data: st.DataObject) -> None:
    whole = page.encode()
    end = data.draw(st.integers(0, len(whole)))
    start = data.draw(st.integers(0, end))
    assert decode(whole, start, end) == decode(whole[start:end])


@given(st.lists(reference, max_size=20).map("".join))
def test_the_text_has_room(page: str) -> None:
    decode(page.encode())


@pytest.mark.parametrize("page", ["&nGt;", "&nLt;"])
def test_the_room_is_no_larger_than_it_must_be(page: str) -> None:
    for count in range(20):
        text = decode(page.encode() * count)
        assert len(text) == room_for(len(page) * count)


def test_no_reference_grows_more_than_the_room() -> None:
    pages = [f"&{name}" for name in NAMES] + [f"&#{form}" for form in ("0", "x0", "128", "2048", "65536", "x800")]
    assert all(len(html.unescape(page).encode()) <= room_for(len(page)) for page in pages)
    assert [room_for(size) for size in (0, 1, 4, 5, 1000)] == [0, 1, 4, 6, 1200]
