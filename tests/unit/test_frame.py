"""Frames: what is encoded comes back, and what is damaged is refused."""

from __future__ import annotations

import dataclasses
import random
import struct
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.errors import FrameDamaged, FrameFormat
from simstream.model import REASONS, FingerprintColumns, PageKind
from simstream.wire import frame as frames
from simstream.wire.frame_versions import FORMAT
from tests.old_format import as_format

names = st.text(st.characters(codec="utf-8"), max_size=12)
words64 = st.integers(0, 2**64 - 1)


@st.composite
def all_columns(draw: st.DrawFn, sketch_words: int = 2, most: int = 8) -> FingerprintColumns:
    n = draw(st.integers(0, most))

    def column(values: st.SearchStrategy[int], dtype: type, width: int = 0) -> np.ndarray:
        count = n * width if width else n
        found = np.array(draw(st.lists(values, min_size=count, max_size=count)), dtype)
        return found.reshape(n, width) if width else found

    offsets = sorted(draw(st.sets(st.integers(0, 2**40), min_size=n, max_size=n)))
    ids = [draw(names).encode() for _ in range(n)]
    urls = [draw(names).encode() for _ in range(n)]
    return FingerprintColumns(
        offset=np.array(offsets, np.int64),
        kind=column(st.integers(0, max(PageKind)), np.uint8),
        reason=column(st.integers(0, len(REASONS) - 1), np.uint8),
        time=column(st.integers(0, 2**62), np.int64),
        identity=column(words64, np.uint64, 2),
        fingerprint=column(words64, np.uint64),
        sketch=column(words64, np.uint64, sketch_words) if sketch_words else np.empty((n, 0), np.uint64),
        words=column(st.integers(0, 2**32 - 1), np.uint32),
        id_ends=np.cumsum([len(i) for i in ids]).astype(np.uint32),
        url_ends=np.cumsum([len(u) for u in urls]).astype(np.uint32),
        ids=b"".join(ids),
        urls=b"".join(urls),
    )


def header_for(columns: FingerprintColumns, sketch_words: int = 2, **changes: object) -> frames.FrameHeader:
    to = int(columns.offset[-1]) + 1 if len(columns) else 0
    header = frames.FrameHeader("1234abcd", "simstream.pages", "topic-id", 3, 0, to, sketch_words)
    return msgspec.structs.replace(header, **changes)


def same(a: FingerprintColumns, b: FingerprintColumns) -> bool:
    return all(
        np.array_equal(getattr(a, field.name), getattr(b, field.name))
        for field in dataclasses.fields(FingerprintColumns)
    )


def small() -> tuple[frames.FrameHeader, FingerprintColumns]:
    """Two pages, always the same."""
    columns = FingerprintColumns(
        offset=np.array([5, 9], np.int64),
        kind=np.array([0, 3], np.uint8),
        reason=np.array([0, 3], np.uint8),
        time=np.array([10, 20], np.int64),
        identity=np.array([[1, 2], [3, 4]], np.uint64),
        fingerprint=np.array([7, 0], np.uint64),
        sketch=np.array([[8, 9], [0, 0]], np.uint64),
        words=np.array([11, 0], np.uint32),
        id_ends=np.array([5, 6], np.uint32),
        url_ends=np.array([0, 1], np.uint32),
        ids="é甲b".encode(),
        urls=b"u",
    )
    return frames.FrameHeader("1234abcd", "p", "t", 0, 4, 10, 2, first=True), columns


@given(st.data(), st.sampled_from([0, 1, 2, 4]), st.booleans())
def test_an_encoded_value_decodes_to_itself(data: st.DataObject, sketch_words: int, first: bool) -> None:
    columns = data.draw(all_columns(sketch_words))
    header = header_for(columns, sketch_words, first=first)
    encoded = frames.encode(header, columns)
    frame = frames.decode(encoded)
    assert frame.header == header
    assert same(frame.columns, columns)
    assert frames.encode(frame.header, frame.columns) == encoded


def test_columns_share_the_memory_of_the_frame() -> None:
    encoded = frames.encode(*small())
    columns = frames.decode(encoded).columns
    whole = np.frombuffer(encoded, np.uint8)
    for name in ("offset", "time", "identity", "fingerprint", "sketch", "words", "kind"):
        assert np.shares_memory(getattr(columns, name), whole), name


def test_ids_and_urls_come_out_as_text_and_an_empty_url_as_none() -> None:
    columns = frames.decode(frames.encode(*small())).columns
    assert columns.id_list() == ["é甲", "b"]
    assert columns.url_list() == [None, "u"]


def test_joined_columns_have_the_ids_and_urls_of_their_parts() -> None:
    columns = small()[1]
    joined = frames.join([columns, columns, columns])
    assert joined.id_list() == 3 * ["é甲", "b"]
    assert joined.url_list() == 3 * [None, "u"]


def test_every_single_flipped_bit_is_found() -> None:
    encoded = frames.encode(*small())
    for at in range(len(encoded)):
        for bit in range(8):
            broken = bytearray(encoded)
            broken[at] ^= 1 << bit
            with pytest.raises(FrameDamaged):
                frames.decode(bytes(broken))


def test_every_truncation_and_every_longer_tail_is_found() -> None:
    encoded = frames.encode(*small())
    for size in range(len(encoded)):
        with pytest.raises(FrameDamaged):
            frames.decode(encoded[:size])
    with pytest.raises(FrameDamaged):
        frames.decode(encoded + b"\0")


def test_random_bytes_under_a_right_checksum_are_refused_by_name_or_pages() -> None:
    rng = random.Random(1)
    encoded = frames.encode(*small())
    refused = 0
    for _ in range(3_000):
        body = bytearray(encoded[16:])
        for _ in range(rng.randrange(1, 4)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        try:
            frame = frames.decode(as_format(FORMAT, encoded, bytes(body)))
        except (FrameDamaged, FrameFormat):
            refused += 1
        else:
            assert len(frame.columns.id_list()) == len(frame.columns.url_list()) == len(frame.columns)
    assert refused > 500


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"start": 6}, "order"),
        ({"to": 9}, "order"),
        ({"start": 11}, "range"),
        ({"partition": -1}, "range"),
        ({"partition": 1 << 62}, "range"),
        ({"to": 1 << 62}, "range"),
        ({"lost": True}, "lost"),
        ({"sketch_words": 9}, "width"),
        ({"came": ((7, 1),)}, "arrival"),
        ({"came": ((7, 3), (8, -1))}, "arrival"),
        ({"sketch_words": 1}, "frame"),
    ],
)
def test_a_header_that_contradicts_its_pages_is_refused(changes: dict[str, object], word: str) -> None:
    header, columns = small()
    with pytest.raises(FrameDamaged, match=word):
        frames.decode(frames.encode(msgspec.structs.replace(header, **changes), columns))


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": np.array([9, 5], np.int64)},
        {"offset": np.array([5, 5], np.int64)},
        {"id_ends": np.array([1, 6], np.uint32)},
        {"id_ends": np.array([7, 6], np.uint32)},
        {"ids": b"\xff\xfe\xfdabc"},
        {"time": np.array([-(1 << 62), 7], np.int64)},
        {"ids": b"a" * 2_050, "id_ends": np.array([2_049, 2_050], np.uint32)},
        {"ids": b"a" * 2_052, "id_ends": np.array([3, 2_052], np.uint32), "kind": np.array([3, 0], np.uint8)},
    ],
)
def test_contents_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    header, columns = small()
    with pytest.raises(FrameDamaged):
        frames.decode(frames.encode(header, dataclasses.replace(columns, **changes)))


def test_an_unreadable_page_may_have_a_longer_stand_in_for_its_id() -> None:
    header, columns = small()
    long = dataclasses.replace(columns, ids=b"a" * 3_000, id_ends=np.array([100, 3_000], np.uint32))
    assert frames.decode(frames.encode(header, long)).columns.ids == long.ids


@given(all_columns(most=12), st.integers(1, 5), st.integers(1, 600))
def test_cuts_cover_all_pages_in_order_within_both_limits_and_one_page_always_fits(
    columns: FingerprintColumns, max_pages: int, max_bytes: int
) -> None:
    ranges = list(frames.find_cuts(columns, max_pages, max_bytes))
    assert [page for start, stop in ranges for page in range(start, stop)] == list(range(len(columns)))
    for start, stop in ranges:
        assert 1 <= stop - start <= max_pages
        part = columns.part(start, stop)
        size = len(part.ids) + len(part.urls) + len(part) * (50 + 16)
        assert stop - start == 1 or size <= max_bytes


@given(all_columns(most=12), st.data())
def test_what_is_taken_encodes_as_the_pages_alone(columns: FingerprintColumns, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(columns)))
    stop = data.draw(st.integers(start, len(columns)))
    part = columns.part(start, stop)
    assert part.id_list() == columns.id_list()[start:stop]
    assert part.url_list() == columns.url_list()[start:stop]
    assert same(frames.decode(frames.encode(header_for(part), part)).columns, part)


TIMES = st.lists(st.integers(-1, 60), min_size=1, max_size=120)


@given(TIMES, st.integers(0, 130))
def test_times_of_arrival_are_of_the_last_pages_and_never_later_than_they_were(times: list[int], last: int) -> None:
    columns = small()[1]
    names = ("kind", "reason", "time", "identity", "fingerprint", "sketch", "words", "id_ends", "url_ends")
    olds = {name: getattr(columns, name) for name in names}
    columns = dataclasses.replace(
        columns,
        **{name: np.zeros((len(times), *old.shape[1:]), old.dtype) for name, old in olds.items()},
        offset=np.arange(len(times)),
        ids=b"",
        urls=b"",
    )
    runs = frames.group_arrivals(times)
    header = msgspec.structs.replace(small()[0], start=0, to=len(times), came=runs)
    encoded = frames.encode(header, columns)
    assert frames.decode(encoded).header.came == runs
    assert len(runs) <= frames.MAX_RUNS
    wanted = times[len(times) - last :] if last < len(times) else times
    found = sorted(frames.count_arrivals(frames.decode(encoded).header, last).elements())
    assert len(found) == len(wanted if last else [])
    if sum(a != b for a, b in pairwise(times)) < frames.MAX_RUNS:
        assert found == sorted(wanted if last else [])
    assert all(run <= time for run, time in zip((at for at, n in runs for _ in range(n)), times, strict=True))


def test_a_frame_of_an_earlier_version_is_read_without_arrival_times() -> None:
    header, columns = small()
    encoded = frames.encode(header, columns)
    length = struct.unpack_from("<I", encoded, 16)[0]
    fields = msgspec.msgpack.decode(encoded[24 : 24 + length])
    assert fields.pop() == []
    head = msgspec.msgpack.encode(fields)
    padded = head + bytes(-(24 + len(head)) % 8)
    rest = encoded[24 + length + -(24 + length) % 8 :]
    earlier = as_format(1, encoded, struct.pack("<II", len(head), len(columns)) + padded + rest)
    assert frames.decode(earlier).header == header
    assert frames.count_arrivals(frames.decode(earlier).header, 2) == {}
