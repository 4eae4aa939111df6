"""Hashes of input and text: the hash of one process separates the same pages as the lasting one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simstream.kernels.content_hash import keyed_hash
from simstream.model import Record
from simstream.sources.page_origins import lasting_origin, origin_in_process
from simstream.sources.repeated_names import PageNames
from tests.short import examples

LONG = "夜车又停在村里了。\n" * 400
VALUES = [
    json.dumps(page, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    for ascii_only in (True, False)
    for content in ("", "x", "x" * 4095, "x" * 4096, LONG, LONG + "!", LONG + "\ud800")
    for page in (
        {"text": content},
        {"html": content},
        {"text": None, "html": content, "time": 5},
        {"text": content, "html": LONG},
        {"html": content, "text": 5},
        {"title": LONG, "html": content},
        {"text": [content]},
    )
]
VALUES += [
    b"",
    b"[" * 5_000,
    b"<p>" * 5_000,
    LONG.encode(),
    b'{"html":"\\q' + b"x" * 5_000 + b'"}',
    b"\xff" * 5_000,
]
records = st.builds(
    lambda value, topic, raw: Record(topic, 0, 0, b"k", value, (("content-type", b"text/html"),) if raw else ()),
    st.sampled_from(VALUES),
    st.sampled_from(["a", "b", "\ud800"]),
    st.booleans(),
)


@settings(max_examples=examples(1000))
@given(records, records)
def test_hashes_of_a_process_find_the_same_pages_equal(one: Record, other: Record) -> None:
    alike = lasting_origin(one) == lasting_origin(other)
    assert (origin_in_process(one) == origin_in_process(other)) == alike


def test_only_long_contents_have_another_hash_in_another_process() -> None:
    code = (
        "from simstream.kernels.content_hash import keyed_hash; from simstream.model import Record;"
        "from simstream.sources.page_origins import origin_in_process as origin;"
        "print(*(origin(Record('a', 0, 0, b'k', b'x' * size, (('content-type', b'text/html'),)))"
        " for size in (4095, 4096)), keyed_hash(b'x', 0))"
    )
    one, other = (subprocess.check_output([sys.executable, "-c", code]).split() for _ in range(2))
    assert [a == b for a, b in zip(one, other, strict=True)] == [True, False, False]


def test_every_byte_counts() -> None:
    for size in (4096, 4097, 4103, 4159, 4160):
        content = bytes(size)
        hashes = {keyed_hash(content[:at] + b"\1" + content[at + 1 :], 0) for at in range(size)}
        assert (
            len(hashes | {keyed_hash(content, 0), keyed_hash(content, 1), keyed_hash(content + b"\0", 0)})
            == size + 3
        )


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(0, 2**64 - 1))
@example(b"", b"\0", 0)
def test_different_contents_have_different_hashes(one: bytes, other: bytes, seed: int) -> None:
    assert 0 <= keyed_hash(one, seed) < 2**64
    assert (keyed_hash(one, seed) == keyed_hash(other, seed)) == (one == other)


@pytest.mark.parametrize("origin_of", [lasting_origin, origin_in_process])
def test_another_page_of_a_known_name_gets_a_name_of_its_own(origin_of: Callable[[Record], int]) -> None:
    pages = [
        Record("a", 0, number, b"x", json.dumps({"html": html}).encode())
        for number, html in enumerate([LONG, LONG, LONG[:-1] + "!", LONG])
    ]
    assert [page.key for page in PageNames(origin_of).separate(pages)] == [b"x", b"x", b"x@a:3", b"x"]
