"""Reads Avro values by their writer's schema.

This is code of our own, as values and schemas come from strangers. fastavro 1.13 dies on a value of a recursive
schema that is nested a million times, and never ends on an array that announces 2^50 nulls. So it is only the
oracle of the tests. Here a value costs at most MAX_VALUES steps, and every length is checked against the bytes that
are there.

Types become those of JSON. A timestamp or date becomes ms since 1970, and an enum its symbol. Bytes become text if
they are valid UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from simstream.wire.json_tree import MAX_VALUES
from simstream.wire.registered import (
    RegisteredSchema,
    ValueReader,
    bad_schema,
    bad_value,
    check_name,
    refuse_by_schema,
)

_MAX_LONG_BYTES = 10
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_TO_MS: Final = {"micros": 1_000, "nanos": 1_000_000}
_DAY_MS = 86_400_000


class _Cursor:
    """Where a value is being read, and how many fields and items it may still have."""

    __slots__ = ("at", "data", "left")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.left = MAX_VALUES

    def spend(self, values: int) -> None:
        """Count fields or items. Raises BadValueError if they are too many."""
        self.left -= values
        if self.left < 0:
            raise bad_value(f"the value has more than {MAX_VALUES:,} fields and items")

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises BadValueError if there are fewer."""
        at, end = self.at, self.at + size
        if size < 0 or end > len(self.data):
            raise bad_value(f"byte {at} announces {size} bytes, and {len(self.data) - at} follow")
        self.at = end
        return self.data[at:end]


_Read = Callable[[_Cursor], Any]


@refuse_by_schema
def compile_avro(schema: RegisteredSchema) -> ValueReader:
    """Return the reader of a schema's values: records of one type, or of several in a union.

    Raises BadValueError if the schema is malformed, or neither a record nor a union of records. Cost: about 2
    us a field. The reader costs about 0.4 us a field.
    """
    compiler = _Compiler()
    try:
        for _, text in schema.references:
            compiler.reader_of(msgspec.json.decode(text), "")
        tree = msgspec.json.decode(schema.text)
        read = compiler.reader_of(tree, "")
    except RecursionError:
        raise bad_schema("the schema is nested too deeply") from None
    branches = tree if isinstance(tree, list) else [tree] if isinstance(tree, dict) else []
    if not any(map(_may_be_record, branches)):
        raise bad_schema("the schema is neither a record nor a union of records")
    return partial(_read_record, read)


@refuse_by_schema
def _read_record(read: _Read, value: bytes, at: int) -> dict[str, object]:
    cursor = _Cursor(value, at)
    try:
        tree: object = read(cursor)
    except IndexError:
        raise bad_value(f"the value ends within a field (at byte {len(value)})") from None
    except UnicodeDecodeError:
        raise bad_value(f"a text is not valid UTF-8 (before byte {cursor.at})") from None
    except RecursionError:
        raise bad_value("the value is nested too deeply") from None
    if not isinstance(tree, dict):
        raise bad_value("the value is no record")
    if cursor.at != len(value):
        raise bad_value(f"{len(value) - cursor.at} bytes follow the value")
    return tree


def _may_be_record(schema: Any) -> bool:
    """Return whether a schema is that of a record, or the name of one that may be a record."""
    if isinstance(schema, str):
        return schema not in _PRIMITIVES
    return isinstance(schema, dict) and schema.get("type") == "record"


class _Compiler:
    """Makes readers of schemas that may name one another."""

    def __init__(self) -> None:
        self._named: dict[str, _Read] = {}

    def reader_of(self, schema: Any, space: str) -> _Read:
        """Return the reader of a schema within a namespace. Raises ValueError and its like if it is malformed."""
        if isinstance(schema, list):
            return partial(_read_union, [self.reader_of(branch, space) for branch in schema])
        if isinstance(schema, str):
            return self._reader_by_name(schema, space)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.reader_of(kind, space)
        match kind:
            case "record" | "error":
                return self._record(schema, space)
            case "enum":
                symbols = tuple(check_name(str(symbol)) for symbol in schema["symbols"])
                return self._keep(schema, space, partial(_read_enum, symbols))
            case "fixed":
                size = int(schema["size"])
                return self._keep(schema, space, lambda cursor: _text_or_bytes(cursor.take(size)))
            case "array":
                return partial(_read_array, self.reader_of(schema["items"], space))
            case "map":
                return partial(_read_map, self.reader_of(schema["values"], space))
        return _with_logical_type(self._reader_by_name(kind, space), kind, str(schema.get("logicalType", "")))

    def _record(self, schema: dict[str, Any], space: str) -> _Read:
        fields: list[tuple[str, _Read]] = []
        read = self._keep(schema, space, partial(_read_fields, fields))
        inner = _full_name(schema, space).rpartition(".")[0]
        fields += [(str(field["name"]), self.reader_of(field["type"], inner)) for field in schema["fields"]]
        return read

    def _keep(self, schema: dict[str, Any], space: str, read: _Read) -> _Read:
        name = _full_name(schema, space)
        if name in self._named:
            raise ValueError(f"{name[:100]} is there twice")
        self._named[name] = read
        return read

    def _reader_by_name(self, name: str, space: str) -> _Read:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        found = self._named.get(name if "." in name or not space else f"{space}.{name}") or self._named.get(name)
        if found is None:
            raise ValueError(f"no type is called {name[:100]}")
        return found


def _full_name(schema: dict[str, Any], space: str) -> str:
    name = str(schema["name"])
    space = check_name(str(schema.get("namespace", space)))
    return check_name(name if "." in name or not space else f"{space}.{name}")


def _with_logical_type(read: _Read, kind: str, logical: str) -> _Read:
    """Return the reader of a time that gives ms; of any other type as it is."""
    if kind == "int" and logical == "date":
        return lambda cursor: read(cursor) * _DAY_MS
    if kind == "long" and "timestamp-" in logical:
        divisor = _TO_MS.get(logical.rpartition("-")[2], 1)
        return lambda cursor: read(cursor) // divisor
    return read


def _read_long(cursor: _Cursor) -> int:
    data, at = cursor.data, cursor.at
    byte = data[at]
    number, shift = byte & 0x7F, 7
    while byte & 0x80:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 7 * _MAX_LONG_BYTES:
            raise bad_value(f"a number has more than {_MAX_LONG_BYTES} bytes (at byte {at})")
    cursor.at = at + 1
    return (number >> 1) ^ -(number & 1)


def _read_null(cursor: _Cursor) -> None:
    return None


def _read_boolean(cursor: _Cursor) -> bool:
    return cursor.take(1) != b"\0"


def _read_float(cursor: _Cursor) -> float:
    return float(_FLOAT.unpack(cursor.take(4))[0])


def _read_double(cursor: _Cursor) -> float:
    return float(_DOUBLE.unpack(cursor.take(8))[0])


def _read_string(cursor: _Cursor) -> str:
    return cursor.take(_read_long(cursor)).decode()


def _read_bytes(cursor: _Cursor) -> str | bytes:
    return _text_or_bytes(cursor.take(_read_long(cursor)))


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


_PRIMITIVES: dict[str, _Read] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": _read_long,
    "long": _read_long,
    "float": _read_float,
    "double": _read_double,
    "string": _read_string,
    "bytes": _read_bytes,
}


def _read_fields(fields: list[tuple[str, _Read]], cursor: _Cursor) -> dict[str, object]:
    cursor.spend(len(fields) + 1)
    return {name: read(cursor) for name, read in fields}


def _read_union(branches: list[_Read], cursor: _Cursor) -> object:
    return branches[_index(cursor, len(branches))](cursor)


def _read_enum(symbols: tuple[str, ...], cursor: _Cursor) -> str:
    return symbols[_index(cursor, len(symbols))]


def _index(cursor: _Cursor, size: int) -> int:
    number = _read_long(cursor)
    if not 0 <= number < size:
        raise bad_value(f"the choice {number} is none of {size} (before byte {cursor.at})")
    return number


def _read_array(read: _Read, cursor: _Cursor) -> list[object]:
    items: list[object] = []
    while count := _count(cursor):
        for _ in range(count):
            cursor.spend(1)
            items.append(read(cursor))
    return items


def _read_map(read: _Read, cursor: _Cursor) -> dict[str, object]:
    entries: dict[str, object] = {}
    while count := _count(cursor):
        for _ in range(count):
            cursor.spend(1)
            key = _read_string(cursor)
            entries[key] = read(cursor)
    return entries


def _count(cursor: _Cursor) -> int:
    """Return the number of items in a block. Behind a negative one comes the block's size, which is not needed."""
    count = _read_long(cursor)
    if count < 0:
        _read_long(cursor)
    return abs(count)
