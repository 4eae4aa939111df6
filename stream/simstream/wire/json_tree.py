"""Decodes a whole JSON value, for pages whose fields are not where the fast decoder looks."""

from __future__ import annotations

import codecs
import json
from typing import NoReturn

import msgspec

from simstream.model import MAX_ID_BYTES
from simstream.wire.bad_value import BadValueError

MAX_VALUES = 500_000
"""The most arrays, objects and fields of a page that is decoded as a whole."""

_decode_tree = msgspec.json.Decoder().decode


def tree_of(value: bytes) -> dict[str, object]:
    """Return the whole JSON object, from the fast decoder if it takes the value. Raises BadValueError."""
    _refuse_many_values(value)
    try:
        tree = _decode_tree(value)
    except RecursionError:
        raise _bad("the JSON is nested too deeply") from None
    except ValueError:
        return slow_tree_of(value)
    return _object_of(tree)


def slow_tree_of(value: bytes) -> dict[str, object]:
    """Return the JSON object from the slow decoder.

    It accepts two things that the fast decoder refuses: a byte-order mark, and lone surrogates, which JSON can
    write (`"\\ud800"`). Raises BadValueError.
    """
    _refuse_many_values(value)
    try:
        tree = json.loads(
            value.removeprefix(codecs.BOM_UTF8).decode(), parse_int=_integer, parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        raise _bad(f"the JSON is not valid UTF-8 (at byte {error.start})") from None
    except RecursionError:
        raise _bad("the JSON is nested too deeply") from None
    except ValueError as error:
        raise _bad(f"the JSON is broken: {error}") from None
    return _object_of(tree)


def _refuse_many_values(value: bytes) -> None:
    """Raise BadValueError if decoding the whole value could make more than MAX_VALUES arrays, objects and fields.

    Each of them is a Python object or more: 10 MB of `[]` would take two seconds and 270 MB. Brackets and colons of
    a text count, too, as finding texts would cost as much as decoding. Cost: 1 to 3 ns a byte above 500 KB.
    """
    if len(value) > MAX_VALUES and len(value) - len(value.translate(None, b"[{:")) > MAX_VALUES:
        raise _bad(f"the JSON has more than {MAX_VALUES:,} arrays, objects and fields")


def _object_of(tree: object) -> dict[str, object]:
    if not isinstance(tree, dict):
        raise _bad(f"the JSON is no object but {type(tree).__name__}")
    return tree


def _bad(detail: str) -> BadValueError:
    return BadValueError("bad_json", detail)


def _integer(digits: str) -> int | float:
    """Return a JSON number as an int, or as a float if it has more digits than an id may have."""
    return int(digits) if len(digits) <= MAX_ID_BYTES else float(digits)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
