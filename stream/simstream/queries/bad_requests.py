"""Makes error answers for request bodies that cannot be read. They repeat nothing that the client sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_ERRORS = 8
MAX_SENTENCE_CHARS = 200
"""Characters of a sentence in an error."""


def brief_errors(errors: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the first errors of a body that was not understood; the name of an unknown field is left out."""
    return [
        {"type": error["type"], "loc": _known(error), "msg": error["msg"][:MAX_SENTENCE_CHARS]}
        for error in errors[:MAX_ERRORS]
    ]


def _known(error: Any) -> list[str | int]:
    """Return the place of the error, as far as it consists of names of the API."""
    where: list[str | int] = list(error["loc"])
    return where[:-1] if error["type"] == "extra_forbidden" else where
