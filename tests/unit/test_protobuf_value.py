"""Protobuf values: what each type becomes, and what hostile values and schemas get."""

from __future__ import annotations

import base64
import random
import resource
import time
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, json_format

from simstream.model import PageKind, Record
from simstream.wire.bad_value import BadValueError
from simstream.wire.page import PageLimits, decode
from simstream.wire.protobuf_value import compile_protobuf
from simstream.wire.registered import RegisteredSchema, ValueReader
from tests.peak_memory import peak_memory
from tests.registered_pages import proto_files, proto_message

FIELD = descriptor_pb2.FieldDescriptorProto
WAYS = [("body", "content"), ("body", "raw"), ("meta", "link"), ("meta", "fetched"), ("meta", "code")]
PLACE = b"\x02\x02"
"""The second message of the file: one number, 1, in zigzag."""
HEAD = b"\0\0\0\0\1"


def text_of(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def reader(ways: list[tuple[str, ...]] = WAYS) -> ValueReader:
    meta, page = proto_files()
    schema = RegisteredSchema("PROTOBUF", text_of(page), (("crawl/meta.proto", text_of(meta)),))
    return compile_protobuf(ways, schema)


def one_file(*fields: dict[str, Any], **more: Any) -> Any:
    """A file with a message `Page` of these fields."""
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p", syntax="proto3", **more)
    made = file.message_type.add(name="Page")
    for number, field in enumerate(fields, 1):
        made.field.add(**{"number": number, "label": FIELD.LABEL_OPTIONAL} | field)
    return file


def read(file: Any, data: bytes, *ways: tuple[str, ...]) -> dict[str, Any]:
    return compile_protobuf(ways, RegisteredSchema("PROTOBUF", text_of(file)))(HEAD + b"\0" + data, 5)


def test_a_page_of_two_files_is_read_by_its_paths() -> None:
    page = {"text": "one\ntwo", "url": "https://a.example/1", "time": 1_700_000_000_123, "status": 404}
    value = HEAD + PLACE + proto_message(page).SerializeToString()
    assert reader()(value, 5) == {
        "meta": {"link": page["url"], "fetched": page["time"], "code": 404},
        "body": {"content": ["one", "two"], "raw": None},
    }


def test_maps_wrappers_enums_and_bytes_become_types_of_json() -> None:
    text = {"type": FIELD.TYPE_STRING}
    file = one_file(
        {"name": "labels", "type": FIELD.TYPE_MESSAGE, "type_name": ".p.Page.Entry", "label": FIELD.LABEL_REPEATED},
        {"name": "title", "type": FIELD.TYPE_MESSAGE, "type_name": ".google.protobuf.StringValue"},
        {"name": "kind", "type": FIELD.TYPE_ENUM, "type_name": ".p.Kind"},
        {"name": "raw", "type": FIELD.TYPE_BYTES},
        {"name": "HasField"} | text,
    )
    entry = file.message_type[0].nested_type.add(name="Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=FIELD.LABEL_OPTIONAL, **text)
    entry.field.add(name="value", number=2, label=FIELD.LABEL_OPTIONAL, **text)
    data = b"\x0a\x0a\x0a\x04self\x12\x02at" + b"\x12\x04\x0a\x02ok" + b"\x18\x02" + b"\x22\x01\xff" + b"\x2a\x01x"
    ways = [("labels", "self"), ("title",), ("kind",), ("raw",), ("HasField",)]
    found = read(file, data, *ways)
    assert found == {"labels": {"self": "at"}, "title": "ok", "kind": 2, "raw": b"\xff", "HasField": "x"}


def test_a_damaged_value_is_bad_or_another_page_and_nothing_else() -> None:
    page = {"text": "one\ntwo", "url": "https://a.example/1", "time": 1_700_000_000_123}
    value = HEAD + PLACE + proto_message(page).SerializeToString()
    rng, read_page, bad = random.Random(1), reader(), 0
    for number in range(3_000):
        damaged = bytearray(value[: rng.randrange(5, len(value) + 1)])
        for _ in range(number % 4):
            if len(damaged) > 5:
                damaged[rng.randrange(5, len(damaged))] = rng.randrange(256)
        try:
            read_page(bytes(damaged), 5)
        except BadValueError:
            bad += 1
    assert bad > 500


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (b"\x02\x0a", "has no message 5"),
        (b"\x02\x01", "has no message -1"),
        (b"\x04\x02\x02", "has no message 1.1"),
        (b"\xff\xff\xff\xff\x0f", "nested"),
        (b"\x80\x80\x80\x80\x80\x80", "does not say which message"),
        (b"", "does not say which message"),
    ],
)
def test_a_value_of_no_message_is_bad(place: bytes, said: str) -> None:
    with pytest.raises(BadValueError, match=said):
        reader()(HEAD + place, 5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "@@",
        'syntax = "proto3"; message Page { string text = 1; }',
        base64.b64encode(b"\xff" * 99).decode(),
    ],
)
def test_a_schema_that_is_no_descriptor_is_bad(text: str) -> None:
    with pytest.raises(BadValueError) as caught:
        compile_protobuf([("text",)], RegisteredSchema("PROTOBUF", text))(HEAD + b"\0", 5)
    assert caught.value.reason in ("bad_schema", "bad_value")


@pytest.mark.parametrize(
    "fields",
    [
        [{"name": "text", "type": FIELD.TYPE_MESSAGE, "type_name": ".p.Nowhere"}],
        [{"name": "text", "type": FIELD.TYPE_STRING, "number": -1}],
        [{"name": "text", "type": FIELD.TYPE_STRING, "number": 1 << 30}],
        [{"name": "text", "type": FIELD.TYPE_STRING, "number": 3}] * 2,
    ],
)
def test_a_malformed_schema_is_bad(fields: list[dict[str, Any]]) -> None:
    with pytest.raises(BadValueError) as caught:
        read(one_file(*fields), b"", ("text",))
    assert caught.value.reason == "bad_schema"


KEY = {"name": "key", "number": 1, "label": FIELD.LABEL_OPTIONAL, "type": FIELD.TYPE_STRING}
REPEATED = {"label": FIELD.LABEL_REPEATED}


def file_with_map(label: Any, *keys: dict[str, Any]) -> Any:
    kind = {"type": FIELD.TYPE_MESSAGE, "type_name": ".p.Page.Entry", "label": label}
    file = one_file({"name": "text"} | kind)
    entry = file.message_type[0].nested_type.add(name="Entry")
    entry.options.map_entry = True
    for key in keys:
        entry.field.add(**key)
    return file


@pytest.mark.parametrize(
    "file",
    [
        file_with_map(FIELD.LABEL_OPTIONAL, KEY),
        file_with_map(FIELD.LABEL_REPEATED),
        file_with_map(FIELD.LABEL_REPEATED, KEY | REPEATED),
        file_with_map(FIELD.LABEL_REPEATED, KEY, KEY | REPEATED | {"number": 2}),
        file_with_map(FIELD.LABEL_REPEATED, KEY | {"type": FIELD.TYPE_MESSAGE, "type_name": ".p.Page"}),
        file_with_map(FIELD.LABEL_REPEATED, KEY | {"type": FIELD.TYPE_GROUP, "type_name": ".p.Page"}),
    ],
)
@pytest.mark.parametrize("data", [b"", b"\x0a\0", b"\x0a\x03\x0a\x01a", b"\x0a\x04\x0a\0\x12\0" * 2])
def test_what_only_calls_itself_a_map_is_a_bad_schema(file: Any, data: bytes) -> None:
    schema = RegisteredSchema("PROTOBUF", text_of(file))
    read_value = compile_protobuf([("text",), ("text", "a")], schema)
    record = Record("pages", 0, 0, None, HEAD + b"\0" + data)
    page = decode(record, PageLimits(read=lambda value: read_value(value, 5)))
    assert (page.kind, page.reason) == (PageKind.UNREADABLE, "bad_schema")


def test_an_error_that_nobody_foresaw_is_a_bad_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OverflowError("too large")

    file = one_file({"name": "text", "type": FIELD.TYPE_STRING})
    monkeypatch.setattr("simstream.wire.protobuf_value._tree_of", fail)
    with pytest.raises(BadValueError, match="too large") as caught:
        read(file, b"", ("text",))
    assert caught.value.reason == "bad_schema"


def test_random_schemas_and_values_raise_nothing_but_bad_value_error() -> None:
    rng, good = random.Random(3), 0
    for _ in range(3_000):
        file = one_file()
        file.message_type.add(name="Other").options.map_entry = rng.random() < 0.5
        for message in file.message_type:
            for number in range(1, rng.randrange(2, 5)):
                name, type_name = rng.choice(["text", "key", "value"]), rng.choice([".p.Page", ".p.Other"])
                kind = rng.choice([11, 11, rng.randrange(1, 19)])
                message.field.add(
                    name=name, number=number, type=kind, type_name=type_name, label=rng.randrange(1, 4)
                )
        try:
            read(file, bytes(rng.choices(b"\x0a\x12\x1a\0\1\2\3a", k=12)), ("text", "text"), ("text", "key"))
            good += 1
        except BadValueError:
            pass
    assert good > 50


@pytest.mark.parametrize("package", ["n" * 100_000, "n" * 1_000])
def test_a_long_package_is_refused_before_each_message_repeats_it(package: str) -> None:
    file = one_file({"name": "text", "type": FIELD.TYPE_STRING})
    file.package = package
    assert len(package) > 1_024 or read(file, b"\x0a\x02ok", ("text",)) == {"text": "ok"}
    for number in range(10_000):
        file.message_type.add(name=f"M{number}")
    assert_refused_within_50_mb(file)


def test_messages_in_messages_are_refused_before_each_repeats_all_names_above() -> None:
    file = one_file()
    message = file.message_type[0]
    for _ in range(50):
        message = message.nested_type.add(name="n" * 1_000)
        for number in range(500):
            message.nested_type.add(name=f"M{number}")
    assert_refused_within_50_mb(file)


def assert_refused_within_50_mb(file: Any) -> None:
    with peak_memory() as peak, pytest.raises(BadValueError, match="characters") as caught:
        read(file, b"", ("text",))
    assert peak.bytes < 50 << 20
    assert caught.value.reason == "bad_schema"


def test_a_field_that_is_there_a_thousand_times_is_not_followed_each_time() -> None:
    own = {"name": "own", "type": FIELD.TYPE_MESSAGE, "type_name": ".p.Page"}
    began = time.thread_time()
    with pytest.raises(BadValueError, match="the field own twice"):
        read(one_file(*[own] * 1_000), b"", ("own",) * 3)
    assert time.thread_time() - began < 5


def test_what_no_path_leads_to_costs_no_more_than_its_bytes() -> None:
    wide = {"name": "wide", "type": FIELD.TYPE_MESSAGE, "type_name": ".p.Wide", "label": FIELD.LABEL_REPEATED}
    own = {"name": "own", "type": FIELD.TYPE_MESSAGE, "type_name": ".p.Page"}
    file = one_file({"name": "text", "type": FIELD.TYPE_STRING}, wide, own)
    made = file.message_type.add(name="Wide")
    for number in range(1, 5_000):
        made.field.add(name=f"w{number}", number=number, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_INT64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read(file, b"\x0a\x02ok" + b"\x12\0" * (2 << 20), ("text",)) == {"text": "ok"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    deep = b""
    for _ in range(20_000):
        size, head = len(deep), b""
        while size > 127:
            head, size = head + bytes([size & 127 | 128]), size >> 7
        deep = b"\x1a" + head + bytes([size]) + deep
    assert read(file, b"\x0a\x02ok" + deep, ("text",)) == {"text": "ok"}
    assert read(file, deep, ("own", "own", "text"))["own"]["own"] == {"text": None}


def test_millions_of_items_on_a_path_are_looked_at_only_up_to_the_limit() -> None:
    many = {"name": "many", "type": FIELD.TYPE_MESSAGE, "type_name": ".p.Page", "label": FIELD.LABEL_REPEATED}
    file = one_file({"name": "text", "type": FIELD.TYPE_STRING}, many)
    began = time.thread_time()
    found = read(file, b"\x12\0" * (5 << 20), ("many", "text"))
    assert len(found["many"]) == 50_001
    assert time.thread_time() - began < 10


def test_values_are_read_as_googles_json_says() -> None:
    rng = random.Random(2)
    for _ in range(200):
        page: dict[str, Any] = {"text": "\n".join(rng.choice(["", "a", "字"]) for _ in range(rng.randrange(1, 4)))}
        page |= {"url": rng.choice([None, "https://a.example/é"]), "status": rng.choice([None, 200, 404])}
        message = proto_message(page)
        said = json_format.MessageToDict(message, preserving_proto_field_name=True)
        found = reader()(HEAD + PLACE + message.SerializeToString(), 5)
        for group in ("body", "meta"):
            ours: Any = found[group] or {}
            assert {name: value for name, value in ours.items() if value not in (None, [])} == said.get(group, {})
