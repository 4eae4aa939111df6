"""The API's description in OpenAPI 3.0: the page at /docs is drawn by a Swagger UI that knows no later version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI

VERSION = "3.0.3"
MOST_ERRORS = 8
LONGEST = 200
"""Characters of a name or a sentence in an error."""
BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


class Described(FastAPI):
    """FastAPI, whose /openapi.json says what may be null, and what a bound leaves out, as 3.0 says it."""

    def openapi(self) -> dict[str, Any]:
        """The description; made once."""
        if self.openapi_schema is None:
            self.openapi_version = VERSION
            self.openapi_schema = as_3_0(super().openapi())
        return self.openapi_schema


def told_briefly(errors: Sequence[Any]) -> list[dict[str, Any]]:
    """The first errors of a body that was not understood, without what the client sent."""
    return [
        {"type": error["type"], "loc": [_cut(each) for each in error["loc"]], "msg": _cut(error["msg"])}
        for error in errors[:MOST_ERRORS]
    ]


def _cut(part: Any) -> Any:
    return f"{part[:LONGEST]}…" if isinstance(part, str) and len(part) > LONGEST else part


def as_3_0(part: Any) -> Any:
    """A part of a description of OpenAPI 3.1 in the words of 3.0."""
    if isinstance(part, list):
        return [as_3_0(each) for each in part]
    if not isinstance(part, dict):
        return part
    said = {name: as_3_0(value) for name, value in part.items()}
    for bound, plain in BOUNDS.items():
        if isinstance(said.get(bound), int | float) and not isinstance(said[bound], bool):
            said |= {plain: said[bound], bound: True}
    choices = said.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        left = [choice for choice in choices if choice != {"type": "null"}]
        del said["anyOf"]
        plain_type = len(left) == 1 and "$ref" not in left[0]
        said |= {"nullable": True} | (left[0] if plain_type else {"allOf" if len(left) == 1 else "anyOf": left})
    return said
