"""The published JSON Schemas say what the service takes, and hold what it writes."""

from __future__ import annotations

import json

import jsonschema
from hypothesis import assume, example, given
from hypothesis import strategies as st

from deploy.reference import FOLDER
from simstream.model import Record
from simstream.wire import position as wire
from simstream.wire.page import PageFields, PageLimits, decode
from simstream.wire.position import Position


def validator(name: str, **more: object) -> jsonschema.Draft202012Validator:
    """A validator of a published schema."""
    return jsonschema.Draft202012Validator(json.loads((FOLDER / f"{name}.schema.json").read_bytes()) | more)


PAGE = validator("page")
POSITION = validator("position", additionalProperties=False)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.just("2026-11-26"),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from([*PageFields.__struct_fields__, "more"]), VALUES))
@example({"text": "a text", "status": 200.0})
@example({"text": "a text", "status": "404"})
@example({"text": "a text", "status": " "})
@example({"text": "a text", "status": "OK"})
@example({"text": "a text", "status": "\x1c200"})
@example({"text": "a text", "status": "200\n"})
@example({"text": "a text", "status": "²00"})
@example({"text": "a text", "status": "1234567890"})
@example({"text": "a text", "status": True})
@example({"text": "a text", "time": False})
@example({"text": "a text", "status": 404.5})
@example({"id": 10**30, "text": "a text"})
def test_a_page_has_the_types_of_the_schema_or_is_refused_for_them(page: dict[str, object]) -> None:
    # JSON Schema knows no difference between 7 and 7.0, but a float may have been rounded, and names no page
    assume(not isinstance(page.get("id"), float))
    refused = decode(Record("t", 0, 0, b"k", json.dumps(page).encode(), (), 0), PageLimits())
    assert PAGE.is_valid(page) == (refused.reason != "wrong_type"), refused.detail


@given(
    st.builds(
        Position,
        st.text(max_size=30),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        st.text("0123456789abcdef", min_size=16, max_size=16),
        st.text(max_size=30),
    ),
    st.none() | st.integers(0, 2**31 - 1),
)
def test_every_written_position_fits_its_schema(position: Position, schema: int | None) -> None:
    written = wire.encode(wire.with_schema(position, schema))
    POSITION.validate(json.loads(written))
    assert wire.decode(written).published_schema == schema
