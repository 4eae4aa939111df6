"""What is said of a question that was not understood: nothing that the client sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_ERRORS = 8
MAX_SENTENCE_CHARS = 200
"""Characters of a sentence in an error."""


def told_briefly(errors: Sequence[Any]) -> list[dict[str, Any]]:
    """The first errors of a body that was not understood. A field that nobody knows has no name there."""
    return [
        {"type": error["type"], "loc": _known(error), "msg": error["msg"][:MAX_SENTENCE_CHARS]}
        for error in errors[:MAX_ERRORS]
    ]


def _known(error: Any) -> list[str | int]:
    """Where the error is, as far as the description of the API has names for it."""
    where: list[str | int] = list(error["loc"])
    return where[:-1] if error["type"] == "extra_forbidden" else where
