"""Reads the media type of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
"""Lines of JSON."""


def media_type_of(scope: Mapping[str, Any]) -> str:
    """Return the media type of an ASGI request without its parameters, in small letters; empty if there is none."""
    kinds = [value for name, value in scope.get("headers", ()) if name == b"content-type"]
    return kinds[0].partition(b";")[0].strip().lower().decode("latin-1") if kinds else ""
