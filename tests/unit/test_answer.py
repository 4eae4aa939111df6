"""Answers of shards: what is encoded comes back, and what is damaged is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from simstream.errors import AnswerDamaged
from simstream.wire import answer as wire
from simstream.wire.answer import Answer, AnswerHeader, MatchColumns, MatchLists
from simstream.wire.frame import checksum

CHECKED = 14
"""Where the part under the checksum begins."""
identities = st.binary(min_size=16, max_size=16)
matched_pages = st.tuples(
    st.none() | identities, st.integers(0, 64), st.integers(0, 65_535), st.lists(identities, max_size=3)
)
HEADER = AnswerHeader("log", "1234abcd", 3, 8, 4, 10, 12, 1_000, 50, bytes(range(16)))


@st.composite
def all_answers(draw: st.DrawFn) -> Answer:
    """Any header, and matches of some of its pages."""
    pages = draw(st.integers(0, 5_000))
    frame, ordinal = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**40))
    shards = 1 << draw(st.integers(0, 8))
    frames = draw(st.integers(1, 256))
    header = AnswerHeader(
        draw(st.text(max_size=12)), "1234abcd", draw(st.integers(0, shards - 1)), shards, draw(st.integers(1, 99)),
        frame, frame + frames, ordinal, pages, b"12345678" * frames,
    )  # fmt: skip
    places = sorted(draw(st.sets(st.integers(0, pages - 1), max_size=6))) if pages else []
    return Answer(header, listed(places, [draw(matched_pages) for _ in places]))


def listed(places: list[int], rows: list[tuple[bytes | None, int, int, list[bytes]]]) -> MatchColumns:
    """Matches as a shard collects them."""
    lists = MatchLists()
    for place, row in zip(places, rows, strict=True):
        lists.add(place, *row)
    return lists.columns()


def small(**changes: object) -> bytes:
    """An answer with two matches and a further cluster, always the same but for these fields of its header."""
    rows: list[tuple[bytes | None, int, int, list[bytes]]] = [
        (bytes(range(16)), 3, 120, [b"a" * 16]),
        (None, 0, 0, [b"b" * 16, b"c" * 16]),
    ]
    return wire.encode(msgspec.structs.replace(HEADER, **changes), listed([4, 49], rows))


def under_its_checksum(body: bytes) -> bytes:
    """An answer of these bytes behind the checksum."""
    return wire.MAGIC + wire.FORMAT.to_bytes(2, "little") + checksum(body, wire.FORMAT).to_bytes(8, "little") + body


def rows_of(matches: MatchColumns) -> list[tuple[int, bytes, int, int, bytes]]:
    """One tuple for each page that has a match."""
    ties, ends = matches.ties.tobytes(), [0, *matches.tie_ends.tolist()]
    return [
        (
            int(matches.place[i]), matches.best[i].tobytes(), int(matches.distance[i]), int(matches.agreement[i]),
            ties[16 * ends[i] : 16 * ends[i + 1]],
        )
        for i in range(len(matches.place))
    ]  # fmt: skip


@given(all_answers())
def test_what_is_encoded_comes_back(answer: Answer) -> None:
    found = wire.decode(wire.encode(*answer))
    assert found.header == answer.header
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(found.matches, answer.matches, strict=True))
    for column, expected in pairs:
        assert column.dtype == expected.dtype
        np.testing.assert_array_equal(column, expected)


@given(all_answers(), st.data())
def test_a_cut_has_the_matches_of_its_pages(answer: Answer, data: st.DataObject) -> None:
    count = len(answer.matches.place)
    start = data.draw(st.integers(0, count))
    end = data.draw(st.integers(start, count))
    assert rows_of(answer.matches.cut(start, end)) == rows_of(answer.matches)[start:end]


def test_an_answer_takes_the_room_that_its_description_names() -> None:
    empty = wire.encode(HEADER, MatchLists().columns())
    assert len(small()) == len(empty) + 2 * (4 + 16 + 1 + 2 + 4) + 3 * 16


@given(st.integers(0, len(small()) - 1))
def test_a_truncated_answer_is_refused(length: int) -> None:
    with pytest.raises(AnswerDamaged):
        wire.decode(small()[:length])


@given(st.integers(0, len(small()) - 1), st.integers(0, 7))
def test_an_answer_with_a_flipped_bit_is_refused(place: int, bit: int) -> None:
    data = bytearray(small())
    data[place] ^= 1 << bit
    with pytest.raises(AnswerDamaged):
        wire.decode(bytes(data))


@given(st.integers(0, len(small()) - CHECKED - 1), st.integers(0, 255))
def test_a_changed_byte_under_a_right_checksum_is_refused_or_read(place: int, value: int) -> None:
    body = bytearray(small()[CHECKED:])
    body[place] = value
    try:
        found = wire.decode(under_its_checksum(bytes(body)))
    except AnswerDamaged:
        return
    assert len(rows_of(found.matches)) == 2


@pytest.mark.parametrize(
    "changes",
    [{"to_frame": 10}, {"frame": -1}, {"ordinal": -1}, {"shard": 8}, {"shard": -1}, {"pages": 49}],
    ids=lambda changes: " ".join(f"{name} {value}" for name, value in changes.items()),
)
def test_a_header_that_cannot_be_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(AnswerDamaged, match=r"not possible|not in their order"):
        wire.decode(small(**changes))


@pytest.mark.parametrize("places", [[7, 7], [7, 3]], ids=["twice", "backwards"])
def test_pages_out_of_order_are_refused(places: list[int]) -> None:
    with pytest.raises(AnswerDamaged, match="not in their order"):
        wire.decode(wire.encode(HEADER, listed(places, [(None, 0, 0, []), (None, 0, 0, [])])))


def test_clusters_that_end_before_they_begin_are_refused() -> None:
    columns = listed([1, 2], [(None, 0, 0, [b"a" * 16]), (None, 0, 0, [])])
    wrong = columns._replace(tie_ends=np.array([2, 1], np.uint32))
    with pytest.raises(AnswerDamaged, match="clusters do not fit"):
        wire.decode(wire.encode(HEADER, wrong))


def test_another_format_and_other_records_are_refused() -> None:
    other = bytearray(small())
    other[4] += 1
    for data in (bytes(other), b"", b"sman", b"{}" * 40, small() + b"\0"):
        with pytest.raises(AnswerDamaged):
            wire.decode(data)


@given(all_answers(), st.integers(0, 3_000), st.data())
def test_an_answer_that_is_too_large_is_divided_between_frames(
    answer: Answer, most: int, data: st.DataObject
) -> None:
    header, matches = answer
    frames = header.to_frame - header.frame
    cuts = sorted(data.draw(st.lists(st.integers(0, header.pages), min_size=frames - 1, max_size=frames - 1)))
    sizes = [after - before for before, after in pairwise([0, *cuts, header.pages])]
    parts = [wire.decode(part) for part in wire.encode_within(header, matches, sizes, most)]
    frame, ordinal, digests, rows = header.frame, header.ordinal, b"", []
    for part in parts:
        assert (part.header.frame, part.header.ordinal) == (frame, ordinal)
        assert len(wire.encode(*part)) <= most or part.header.to_frame == frame + 1
        frame, ordinal = part.header.to_frame, ordinal + part.header.pages
        digests += part.header.digests
        rows += read(part)
    assert (frame, ordinal, digests) == (header.to_frame, header.ordinal + header.pages, header.digests)
    assert rows == read(answer)


def read(answer: Answer) -> list[tuple[int, bytes, int, int, bytes]]:
    """The ordinals of an answer, each with what it has."""
    header, matches = answer
    ends = [0, *matches.tie_ends.tolist()]
    return [
        (
            header.ordinal + int(place),
            matches.best[i].tobytes(),
            int(matches.distance[i]),
            int(matches.agreement[i]),
            matches.ties[ends[i] : ends[i + 1]].tobytes(),
        )
        for i, place in enumerate(matches.place)
    ]
