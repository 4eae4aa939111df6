"""Looks at a request's body before it is read: its media type, the number of its values. Shortens its errors.

A body of a million tiny values costs a hundred times its bytes to be read and refused, so it is never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
"""Lines of JSON."""
MAX_STRINGS: Final = 1 << 14
"""Names of fields among them. The largest good question has some 4,000."""
MAX_OUTSIDE_BYTES: Final = 64 << 10
"""Of everything that stands in no string."""
MAX_ERRORS = 8
MAX_SENTENCE_CHARS = 200
"""Characters of a sentence in an error."""


def media_type_of(scope: Mapping[str, Any]) -> str:
    """Return the media type of an ASGI request without its parameters, in small letters; empty if there is none."""
    kinds = [value for name, value in scope.get("headers", ()) if name == b"content-type"]
    return kinds[0].partition(b";")[0].strip().lower().decode("latin-1") if kinds else ""


def has_few_values(
    body: bytes | bytearray, strings: int = MAX_STRINGS, outside_bytes: int = MAX_OUTSIDE_BYTES
) -> bool:
    """Return whether JSON has at most so many strings, and so many bytes outside strings. About 1 ns a byte.

    For text that is not JSON the answer means nothing: a reader of JSON refuses the text later.
    """
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 2 * strings:
        return False
    return sum(map(len, plain.split(b'"')[::2])) <= outside_bytes


def explain_errors(errors: Sequence[Any]) -> str:
    """Return a sentence with the first of pydantic's errors. It repeats nothing that the client sent.

    Each error is `PLACE: MESSAGE`, such as `texts: 0: Input should be a valid string`.
    """
    return "; ".join(": ".join([*map(str, _known(error)), _message(error)]) for error in errors[:MAX_ERRORS])


def _message(error: Any) -> str:
    """Return the error's sentence, without pydantic's words before one of our own."""
    message: str = error["msg"][:MAX_SENTENCE_CHARS]
    return message.removeprefix("Value error, ")


def _known(error: Any) -> list[str | int]:
    """Return the place of the error, as far as it consists of names of the API."""
    where: list[str | int] = list(error["loc"])
    return where[:-1] if error["type"] in ("extra_forbidden", "json_invalid") else where
