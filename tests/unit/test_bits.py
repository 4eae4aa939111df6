"""Bytes compared and copied 64 at a time, beside numpy's way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simstream.kernels.bits import LANES, at_most_64, copy_64, equal_64, lowest
from simstream.kernels.html import tags
from simstream.kernels.jit import lean_kernel

PAGES = st.binary(min_size=LANES, max_size=3 * LANES) | st.lists(
    st.sampled_from(b"<=> \x80\xbc"), min_size=LANES, max_size=3 * LANES
).map(bytes)
find = lean_kernel(tags.find.py_func)


@lean_kernel
def masks(text: tags.Bytes, at: int, byte: int) -> tuple[np.uint64, np.uint64]:
    return equal_64(text, at, byte), at_most_64(text, at, byte)


@lean_kernel
def copy(source: tags.Bytes, at: int, target: tags.Bytes, to: int) -> None:
    copy_64(source, at, target, to)


@lean_kernel
def lowest_bit(value: int) -> int:
    return int(lowest(value))


@given(PAGES, st.data())
def test_masks_have_a_bit_for_each_byte(page: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(page) - LANES))
    byte = data.draw(st.sampled_from(page) | st.integers(0, 255))
    part = page[at : at + LANES]
    equal, at_most = masks(np.frombuffer(page, np.uint8), at, byte)
    assert equal == sum(1 << i for i, each in enumerate(part) if each == byte)
    assert at_most == sum(1 << i for i, each in enumerate(part) if each <= byte)


@given(PAGES, st.data())
def test_copies_take_64_bytes_and_no_other(page: bytes, data: st.DataObject) -> None:
    at, to = (data.draw(st.integers(0, len(page) - LANES)) for _ in range(2))
    target = np.zeros(len(page), np.uint8)
    copy(np.frombuffer(page, np.uint8), at, target, to)
    assert target.tobytes() == (bytes(to) + page[at : at + LANES] + bytes(len(page)))[: len(page)]


@given(st.integers(1, (1 << 64) - 1))
def test_the_lowest_bit_is_found(value: int) -> None:
    assert lowest_bit(np.uint64(value)) == (value & -value).bit_length() - 1


@given(st.binary(max_size=40) | PAGES, st.data())
def test_the_next_byte_is_found_wherever_the_search_begins(page: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(page)))
    byte = data.draw(st.sampled_from(b"<>\xbc\x00"))
    found = page.find(byte, at)
    assert find(tags.make_html(page), at, byte) == (found if found >= 0 else len(page))
