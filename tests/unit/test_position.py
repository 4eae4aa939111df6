"""Positions: the same bytes for the same place, and a clear word about others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simstream.errors import WrongLog
from simstream.wire import position as positions
from simstream.wire.position import Position

counts = st.integers(0, 2**62)


@given(st.builds(Position, st.text(max_size=30), counts, counts, st.text(max_size=16), st.text(max_size=8)))
def test_a_position_comes_back(position: Position) -> None:
    assert positions.decode(positions.encode(position)) == position


def test_the_record_is_json_that_a_person_can_read() -> None:
    data = positions.encode(Position("log", 3, 42, "00ff00ff00ff00ff", "5be0c2d1"))
    assert data == (
        b'{"log_id":"log","frame":3,"ordinal":42,"digest":"00ff00ff00ff00ff","policy":"5be0c2d1","version":1}'
    )


def test_an_earlier_position_has_no_recipe_and_a_new_one_its_log_s() -> None:
    earlier = b'{"log_id":"log","frame":3,"ordinal":42,"digest":"d","policy":"p","version":1}'
    assert not positions.decode(earlier).recipe
    data = positions.encode(Position("log", 3, 42, "d", "p", recipe="5be0c2d1"))
    assert data == earlier[:-1] + b',"recipe":"5be0c2d1"}'
    assert positions.decode(data).recipe == "5be0c2d1"


def test_the_schema_of_verdicts_stands_in_a_record_that_earlier_versions_refuse() -> None:
    place = Position("log", 3, 42, "00ff00ff00ff00ff", "5be0c2d1")
    made = positions.with_schema(place, 7)
    assert positions.encode(made) == (
        b'{"log_id":"log","frame":3,"ordinal":42,"digest":"00ff00ff00ff00ff","policy":"5be0c2d1","version":2,'
        b'"schema_id":7}'
    )
    assert positions.decode(positions.encode(made)).published_schema == 7
    assert positions.with_schema(place, None) is place
    assert place.published_schema is None


@pytest.mark.parametrize("data", [b"", b"{}", b"7", b'{"log_id":1}', b"\xff", b"null"])
def test_what_is_no_position_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(WrongLog, match="cannot be read"):
        positions.decode(data)


def test_another_format_is_refused_by_name() -> None:
    data = positions.encode(Position("log", 3, 42, "d", "p", version=3))
    with pytest.raises(WrongLog, match="format 3, this version reads 2"):
        positions.decode(data)
