"""Reads what Confluent's serializers put before a value: a zero byte, and the schema's id in four bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from simstream.wire.bad_value import BadValueError
from simstream.wire.json_tree import tree_of

HEAD_BYTES = 5
MAX_SCHEMA_ID = (1 << 31) - 1
"""The greatest id that a registry can give: its ids are positive numbers of 32 bits with a sign."""
MAX_NAME = 1_024
"""The most characters of a type's full name: each type's name repeats the names of all that it is in."""
_P = ParamSpec("_P")
_T = TypeVar("_T")
_UNFORESEEN = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)

ValueReader = Callable[[bytes, int], dict[str, object]]
"""Reads a value from a byte on, by one schema. Raises BadValueError."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as a registry has it."""

    kind: str
    """`AVRO`, `PROTOBUF` or `JSON`."""
    text: str
    """The schema. For Protobuf: its file descriptor in base 64."""
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts of the schemas that it needs, each after the ones that it needs itself."""


def bad_schema(detail: str) -> BadValueError:
    """Return the error of a value whose schema is unknown or cannot be used."""
    return BadValueError("bad_schema", detail)


def bad_value(detail: str) -> BadValueError:
    """Return the error of a value whose bytes do not fit its schema."""
    return BadValueError("bad_value", detail)


def refuse_by_schema(work: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return `work` so that it raises no other error of Python's than BadValueError.

    A schema comes from strangers as its values do: what nobody foresaw in one costs its pages, and not the service.
    """

    @wraps(work)
    def guarded(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return work(*args, **options)
        except BadValueError:
            raise
        except _UNFORESEEN as error:
            raise bad_schema(f"the schema is malformed: {type(error).__name__}: {str(error)[:200]}") from None

    return guarded


def check_name(name: str) -> str:
    """Return the full name of a type, the space of such names, or a symbol. Raises BadValueError if it is long."""
    if len(name) > MAX_NAME:
        raise bad_schema(f"a name in the schema has {len(name):,} characters, and at most {MAX_NAME:,} are allowed")
    return name


def schema_id_of(value: bytes) -> int:
    """Return the id of a value's schema. Raises BadValueError if there is none, or if no registry can give it."""
    if len(value) < HEAD_BYTES or value[0] != 0:
        raise bad_schema("the value does not begin with a zero byte and the id of a schema")
    number = int.from_bytes(value[1:HEAD_BYTES], "big")
    if number > MAX_SCHEMA_ID:
        raise bad_schema(f"no schema can have the id {number}")
    return number


def read_json(value: bytes) -> dict[str, object]:
    """Return the object behind the id of a JSON Schema. The schema is not asked: the fields are checked as in plain
    JSON. Raises BadValueError."""
    schema_id_of(value)
    return tree_of(value[HEAD_BYTES:])
