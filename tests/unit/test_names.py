"""Names that come again in files: whose pages are apart, in how much memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.model import MAX_ID_BYTES, PageKind, Record
from simstream.sources.name_origins import NameOrigins
from simstream.sources.repeated_names import PageNames
from simstream.telemetry.process_memory import held
from simstream.wire.page import PageLimits, decode


def record(topic: str, offset: int, key: str, text: str) -> Record:
    return Record(topic, 0, offset, key.encode(), b'{"text":"%s","time":%d}' % (text.encode(), offset))


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "x@a:1"]), st.sampled_from("st"))))
def test_pages_share_a_name_only_where_input_and_text_are_the_same(made: list[tuple[str, str, str]]) -> None:
    pages = [record(topic, offset, key, text) for offset, (topic, key, text) in enumerate(made)]
    names = PageNames()
    found = list(names.separate(pages))
    owner: dict[bytes | None, tuple[str, bytes]] = {}
    for before, after in zip(pages, found, strict=True):
        assert (after.topic, after.offset, after.value) == (before.topic, before.offset, before.value)
        assert (after.key or b"").startswith(before.key or b"?")
        text = (before.value or b"").split(b",")[0]
        assert owner.setdefault(after.key, (before.topic, text)) == (before.topic, text)
    assert names.repeated == sum(a.key != b.key for a, b in zip(pages, found, strict=True))


def test_the_first_page_of_a_name_has_it_and_others_say_where_they_are() -> None:
    pages = [record("a", 0, "x", "s"), record("b", 6, "x", "s"), record("a", 7, "x@b:7", "t")]
    assert [page.key for page in PageNames().separate(pages)] == [b"x", b"x@b:7", b"x@b:7@a:8"]


def test_each_of_many_names_is_still_known() -> None:
    names, count = PageNames(), 40_000
    pages = [record("a", number, str(number), "s") for number in range(count)]
    assert [page.key for page in names.separate(pages)] == [page.key for page in pages]
    others = [record("b", number, str(number), "s") for number in range(0, count, 100)]
    assert all(b"@b:" in (page.key or b"") for page in names.separate(others))
    assert names.repeated == len(others)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=200))
def test_a_name_keeps_its_first_origin_however_often_parts_are_cut(made: list[tuple[int, int]]) -> None:
    origins, first = NameOrigins(most=1), dict[int, int]()
    for name, origin in made:
        hashed = name * 0x9E3779B97F4A7C15 % 2**64
        assert origins.first(hashed, origin) == first.setdefault(name, origin)
    assert len(origins) == len(first)


def test_many_names_take_little_more_than_their_hashes() -> None:
    origins = NameOrigins()
    numbers = np.random.default_rng(1).integers(0, 2**64, (200_000, 2), np.uint64).tolist()
    before = dict(held())["own"]
    for name, origin in numbers:
        origins.first(name, origin)
    assert (dict(held())["own"] - before) / 200_000 < 22


def test_a_watch_ends_at_a_number_of_names() -> None:
    names = PageNames()
    pages = [record("a", 0, "x", "s"), record("b", 0, "x", "s"), record("b", 1, "y", "s"), record("c", 0, "x", "s")]
    assert list(names.count_repeated(pages, 2)) == pages
    assert names.repeated == 1


@pytest.mark.parametrize("size", [900, 1020, MAX_ID_BYTES - 6, MAX_ID_BYTES])
@pytest.mark.parametrize("topic", ["b", "folder/" * 150 + "b", "文件夹/" * 400 + "b"])
def test_pages_of_a_long_name_stay_readable_and_apart(size: int, topic: str) -> None:
    keys = ["x" * size, "页" * (size // 3), "x" * (size - 1) + "y"]
    pages = [record(where, number, key, where) for where in ("a", topic) for number, key in enumerate(keys)]
    pages += [record(topic, 7, keys[0], "another text"), record(topic, 7, keys[0], "a third one")]
    decoded = [decode(page, PageLimits()) for page in PageNames().separate(pages)]
    assert [page.kind for page in decoded] == [PageKind.READABLE] * len(pages)
    assert len({page.identity for page in decoded}) == len({page.id for page in decoded}) == len(pages)
    assert all(page.id.rstrip("+").endswith((":1", ":2", ":3", ":8")) for page in decoded[3:])


@pytest.mark.parametrize("key", [b"x" * (MAX_ID_BYTES + 1), b"\xff" * MAX_ID_BYTES])
def test_a_repeated_name_that_is_no_id_stays_no_id(key: bytes) -> None:
    pages = [Record(topic, 0, 0, key, b'{"text":"s"}') for topic in "ab"]
    assert [decode(page, PageLimits()).reason for page in PageNames().separate(pages)] == ["bad_id", "bad_id"]
