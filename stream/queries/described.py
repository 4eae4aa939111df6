"""The API's description in OpenAPI 3.0: the page at /docs is drawn by a Swagger UI that knows no later version."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

VERSION = "3.0.3"
BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


class Described(FastAPI):
    """FastAPI, whose /openapi.json says what may be null, and what a bound leaves out, as 3.0 says it."""

    def openapi(self) -> dict[str, Any]:
        """The description; made once."""
        if self.openapi_schema is None:
            self.openapi_version = VERSION
            self.openapi_schema = as_3_0(super().openapi())
        return self.openapi_schema


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
