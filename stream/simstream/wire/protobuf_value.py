"""Reads Protobuf values by the file descriptor of their schema, without generated code.

Only the fields on the paths of a page are decoded: a message of just these fields is made for each schema. A field
on no path costs no more than its bytes, however wide or recursive its type is.

A Timestamp becomes ms since 1970, and a wrapper its value. Bytes become text if they are valid UTF-8. A field that
is not in the bytes is absent, also where proto3 would give an empty text or 0.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.message import DecodeError

from simstream.wire.field_paths import MAX_ITEMS, Steps
from simstream.wire.json_tree import MAX_VALUES
from simstream.wire.registered import (
    RegisteredSchema,
    ValueReader,
    bad_schema,
    bad_value,
    check_name,
    refuse_by_schema,
)
from simstream.wire.varint import varint_at

MAX_NESTED = 32
"""How deep the message of a value may be nested in others of its schema's file."""
_MAX_PLACE_BYTES: Final = 5
"""The most bytes of a number that says where a message is."""
MAX_KEPT = 100
"""The most messages of one schema that are kept ready."""
MAX_NAMES = 4 << 20
"""The most characters that the full names of a schema's messages may have together. They stay in memory."""


def _described(kind: Any) -> Any:
    """Return the descriptor of a message as a message."""
    made = descriptor_pb2.DescriptorProto()
    kind.DESCRIPTOR.CopyToProto(made)
    return made


_Field = descriptor_pb2.FieldDescriptorProto
_NO_KEYS: Final = (_Field.TYPE_MESSAGE, _Field.TYPE_GROUP)
_TIMESTAMP = ".google.protobuf.Timestamp"
_TIMES: Final = _described(timestamp_pb2.Timestamp)
_WRAPPED: Final = {
    f".{kind.DESCRIPTOR.full_name}": _described(kind)
    for name in wrappers_pb2.DESCRIPTOR.message_types_by_name
    for kind in [getattr(wrappers_pb2, name)]
}
"""The messages that hold one value each."""
_Names = dict[str, Any]
"""The names on the paths: each leads to the names behind it."""
_Convert = Callable[[Any, list[int]], Any]
"""Makes a value of JSON. The list has the number of fields and items that the page may still have."""
_Plan = list[tuple[str, _Convert]]


@refuse_by_schema
def compile_protobuf(ways: Iterable[Steps], schema: RegisteredSchema) -> ValueReader:
    """Return the reader of a schema's values, for the fields at the end of these ways.

    Raises BadValueError if the schema is malformed. Cost: about 1 ms for each message that values name.
    """
    files = [_file_of(text) for text in (schema.text, *(text for _, text in schema.references))]
    types = _types_of(files)
    names: _Names = {}
    for steps in ways:
        inner = names
        for step in steps:
            inner = inner.setdefault(step, {})
    kept: dict[tuple[int, ...], tuple[Any, _Plan]] = {}

    @refuse_by_schema
    def read(value: bytes, at: int) -> dict[str, object]:
        place, at = _place_of(value, at)
        if place not in kept:
            if len(kept) >= MAX_KEPT:
                kept.clear()
            kept[place] = _Builder(types).build(_message_at(files[0], place), names)
        make, plan = kept[place]
        message = make()
        try:
            message.ParseFromString(value[at:])
        except DecodeError:
            raise bad_value("the bytes do not fit the message of their schema") from None
        return _tree_of(message, plan, [MAX_VALUES])

    return read


def _file_of(text: str) -> Any:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        what = "the registry gives the text of a .proto file" if "message" in text else "the schema is malformed"
        raise bad_schema(f"{what}, not a file descriptor") from None


def _types_of(files: Iterable[Any]) -> dict[str, Any]:
    """Return all messages of the files by their full names. Raises BadValueError if the names are too long."""
    types: dict[str, Any] = {}
    left = MAX_NAMES
    for file in files:
        for name, message in _messages_of(file):
            left -= len(name)
            if left < 0:
                raise bad_schema(f"the names in the schema have more than {MAX_NAMES:,} characters")
            types[name] = message
    return types


def _messages_of(file: Any) -> Iterable[tuple[str, Any]]:
    """Yield all messages of a file with their full names, also nested ones. Raises BadValueError."""
    start = f".{check_name(file.package)}" if file.package else ""
    waiting = [(start, message) for message in file.message_type]
    while waiting:
        above, message = waiting.pop()
        name = check_name(f"{above}.{message.name}")
        yield name, message
        waiting += [(name, inner) for inner in message.nested_type]


def _place_of(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return where the value's message is in its file, and where its bytes begin. Raises BadValueError."""
    size, at = _number_at(value, at)
    if size == 0:
        return (0,), at
    if not 0 < size <= MAX_NESTED:
        raise bad_value(f"the value names a message that is nested {size} times")
    place = []
    for _ in range(size):
        number, at = _number_at(value, at)
        place.append(number)
    return tuple(place), at


def _number_at(value: bytes, at: int) -> tuple[int, int]:
    found = varint_at(value, at, _MAX_PLACE_BYTES)
    if found is None:
        raise bad_value("the value does not say which message of its schema it is")
    return (found[0] >> 1) ^ -(found[0] & 1), found[1]


def _message_at(file: Any, place: Sequence[int]) -> Any:
    messages = file.message_type
    for number in place[:-1]:
        if not 0 <= number < len(messages):
            break
        messages = messages[number].nested_type
    if not 0 <= place[-1] < len(messages):
        raise bad_value(f"its schema has no message {'.'.join(map(str, place))}")
    return messages[place[-1]]


class _Builder:
    """Makes a message of only the fields on the paths, in a pool of its own."""

    def __init__(self, types: dict[str, Any]) -> None:
        self._types = types
        self._file = descriptor_pb2.FileDescriptorProto(name="page.proto", package="page", syntax="proto2")

    def build(self, message: Any, names: _Names) -> tuple[Any, _Plan]:
        """Return the class of the message, and how its fields are read. Raises BadValueError."""
        made, plan = self._add(message, names)
        pool = descriptor_pool.DescriptorPool()
        try:
            pool.Add(self._file)
            found = pool.FindMessageTypeByName(f"page.{made}")
        except (TypeError, KeyError, ValueError) as error:
            raise bad_schema(f"the schema is malformed: {error}") from None
        return message_factory.GetMessageClass(found), plan

    def _add(self, message: Any, names: _Names) -> tuple[str, _Plan]:
        """Add a message of the fields with these names. Returns its name and its plan."""
        made = self._file.message_type.add(name=f"M{len(self._file.message_type)}")
        plan: _Plan = []
        seen: set[str] = set()
        for field in message.field:
            if field.name not in names or field.type == _Field.TYPE_GROUP:
                continue
            if field.name in seen:  # each one more would be followed along all of its paths
                raise bad_schema(f"a message of the schema has the field {field.name} twice")
            seen.add(field.name)
            is_repeated = field.label == _Field.LABEL_REPEATED
            label = _Field.LABEL_REPEATED if is_repeated else _Field.LABEL_OPTIONAL
            own = f"f{field.number}"  # a name of the schema could be that of a method
            new = made.field.add(name=own, number=field.number, label=label, type=_plain_type(field.type))
            convert: _Convert = _CONVERTERS.get(field.type, _convert_scalar)
            is_map = False
            if field.type == _Field.TYPE_MESSAGE:
                new.type_name, convert, is_map = self._inner(field.type_name, names[field.name], is_repeated)
            plan.append((field.name, _reader_of(own, convert, is_repeated, is_map)))
        return made.name, plan

    def _inner(self, type_name: str, names: _Names, is_repeated: bool) -> tuple[str, _Convert, bool]:
        """Add a field's message. Returns its name, what makes a value of it, and whether it is a map's entry."""
        if type_name == _TIMESTAMP:
            made, _ = self._add(_TIMES, {"seconds": {}, "nanos": {}})
            return f".page.{made}", _convert_timestamp, False
        if type_name in _WRAPPED:
            made, plan = self._add(_WRAPPED[type_name], {"value": {}})
            return f".page.{made}", lambda message, room: _tree_of(message, plan, room)["value"], False
        message = self._types.get(type_name)
        if message is None:
            raise bad_schema(f"the schema has no message {type_name[:200]}")
        if not message.options.map_entry:
            made, plan = self._add(message, names)
            return f".page.{made}", lambda message, room: _tree_of(message, plan, room), False
        if not is_repeated or not _has_key(message):
            raise bad_schema(f"the schema makes a map of {type_name[:200]}, which is no entry of one")
        behind: _Names = {}
        for inner in names.values():
            _merge(behind, inner)
        made, plan = self._add(message, {"key": {}, "value": behind})
        return f".page.{made}", lambda message, room: _tree_of(message, plan, room), True


def _has_key(entry: Any) -> bool:
    """Return whether each entry has one plain value as its key."""
    keys = [field for field in entry.field if field.name == "key"]
    return len(keys) == 1 and keys[0].label != _Field.LABEL_REPEATED and keys[0].type not in _NO_KEYS


def _plain_type(kind: Any) -> Any:
    """Return the type under which a field is decoded: a text as bytes, which are checked later."""
    return {_Field.TYPE_STRING: _Field.TYPE_BYTES, _Field.TYPE_ENUM: _Field.TYPE_INT32}.get(kind, kind)


def _merge(into: _Names, names: _Names) -> None:
    for name, inner in names.items():
        _merge(into.setdefault(name, {}), inner)


def _tree_of(message: Any, plan: _Plan, room: list[int]) -> dict[str, Any]:
    room[0] -= len(plan) + 1
    if room[0] < 0:
        raise bad_value(f"the value has more than {MAX_VALUES:,} fields and items")
    return {name: read(message, room) for name, read in plan}


def _reader_of(name: str, convert: _Convert, is_repeated: bool, is_map: bool) -> _Convert:
    """Return what reads the field of a message. It reads no more items than a path looks at."""

    def read_one(message: Any, room: list[int]) -> Any:
        return convert(getattr(message, name), room) if message.HasField(name) else None

    def read_all(message: Any, room: list[int]) -> list[Any]:
        items = getattr(message, name)
        room[0] -= min(len(items), MAX_ITEMS)
        return [convert(item, room) for item in islice(items, MAX_ITEMS + 1)]

    def read_map(message: Any, room: list[int]) -> dict[Any, Any]:
        return {entry.get("key"): entry.get("value") for entry in read_all(message, room)}

    return read_map if is_map else read_all if is_repeated else read_one


def _convert_scalar(value: Any, _: list[int]) -> Any:
    return value


def _convert_text(value: bytes, _: list[int]) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise bad_value(f"a text is not valid UTF-8 (at byte {error.start})") from None


def _convert_bytes(value: bytes, _: list[int]) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _convert_timestamp(message: Any, _: list[int]) -> int:
    return int(message.f1) * 1000 + int(message.f2) // 1_000_000


_CONVERTERS: Final[dict[int, _Convert]] = {_Field.TYPE_STRING: _convert_text, _Field.TYPE_BYTES: _convert_bytes}
