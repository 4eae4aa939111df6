"""What OpenAPI 3.1 says, in the words of 3.0."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")
from stream.queries.described import as_3_0


def test_what_may_be_null_is_said_as_3_0_says_it() -> None:
    assert as_3_0({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Url"}) == {
        "type": "string",
        "nullable": True,
        "title": "Url",
    }
    other = {"$ref": "#/components/schemas/Page"}
    assert as_3_0({"anyOf": [other, {"type": "null"}]}) == {"nullable": True, "allOf": [other]}
    both = [{"type": "string"}, {"type": "integer"}]
    assert as_3_0({"anyOf": [*both, {"type": "null"}]}) == {"nullable": True, "anyOf": both}
    assert as_3_0({"anyOf": both}) == {"anyOf": both}


def test_a_bound_that_is_left_out_is_said_as_3_0_says_it() -> None:
    assert as_3_0([{"exclusiveMinimum": 0.0, "maximum": 60.0}]) == [
        {"minimum": 0.0, "exclusiveMinimum": True, "maximum": 60.0}
    ]
