"""Avro values: what hostile values and schemas get, and what each type becomes."""

from __future__ import annotations

import io
import json
import math
import time
from typing import Any

import fastavro
import pytest

from simstream.wire.avro_value import compile_avro
from simstream.wire.bad_value import BadValueError
from simstream.wire.registered import RegisteredSchema, schema_id_of
from simstream.wire.varint import varint, varint_at
from tests.peak_memory import peak_memory

HEAD = b"\0\0\0\0\1"


def record(*fields: Any, name: str = "Page", **more: Any) -> dict[str, Any]:
    named = [{"name": f"f{number}", "type": field} for number, field in enumerate(fields)]
    return {"type": "record", "name": name, "fields": named, **more}


def read(schema: Any, data: bytes, references: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    return compile_avro(RegisteredSchema("AVRO", json.dumps(schema), references))(HEAD + data, len(HEAD))


def written(schema: Any, value: Any) -> bytes:
    to = io.BytesIO()
    fastavro.schemaless_writer(to, fastavro.parse_schema(schema), value)
    return to.getvalue()


def number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


@pytest.mark.parametrize(
    ("schema", "value", "becomes"),
    [
        ("null", None, None),
        ("boolean", True, True),
        ("long", -(1 << 63), -(1 << 63)),
        ("long", (1 << 63) - 1, (1 << 63) - 1),
        ("double", -0.5, -0.5),
        ("float", math.inf, math.inf),
        ("string", "新闻", "新闻"),
        ("bytes", b"text", "text"),
        ("bytes", b"\xff\xfe", b"\xff\xfe"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "array", "items": ["null", "string"]}, ["a", None], ["a", None]),
        ({"type": "map", "values": "int"}, {"a": 1, "b": -2}, {"a": 1, "b": -2}),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1_700_000_000_123, 1_700_000_000_123),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1_700_000_000_123_456, 1_700_000_000_123),
        ({"type": "int", "logicalType": "date"}, 2, 2 * 86_400_000),
    ],
)
def test_each_type_becomes_one_of_json(schema: Any, value: Any, becomes: Any) -> None:
    assert read(record(schema), written(record(schema), {"f0": value})) == {"f0": becomes}


def test_names_are_found_in_their_namespaces_and_references() -> None:
    inner = record("string", name="Inner", namespace="a.b")
    schema = record("a.b.Inner", ["null", "Next"], name="Page", namespace="c")
    after = record("long", {"type": "array", "items": "c.Next"}, name="Next", namespace="c")
    data = number(1) + b"x" + number(1) + number(7) + number(0)
    found = read(schema, data, (("inner", json.dumps(inner)), ("next", json.dumps(after))))
    assert found == {"f0": {"f0": "x"}, "f1": {"f0": 7, "f1": []}}


def test_a_topic_may_hold_records_of_several_types() -> None:
    inner = record("string", name="Inner", namespace="a.b")
    data = {0: number(1) + b"x", 1: number(7), 2: b""}
    for schema in (
        [inner, record("long", name="Other"), "null"],
        ["a.b.Inner", record("long", name="Other"), "null"],
    ):
        references = (("inner", json.dumps(inner)),) if isinstance(schema[0], str) else ()
        assert read(schema, number(0) + data[0], references) == {"f0": "x"}
        assert read(schema, number(1) + data[1], references) == {"f0": 7}
        with pytest.raises(BadValueError, match="the value is no record"):
            read(schema, number(2), references)
    assert read([inner, "null"], written([inner, "null"], {"f0": "x"})) == {"f0": "x"}


def test_every_cut_of_a_value_is_bad_and_so_is_a_byte_behind_it() -> None:
    schema = record("string", "double", {"type": "array", "items": "string"}, {"type": "map", "values": "bytes"})
    data = written(schema, {"f0": "abc", "f1": 2.0, "f2": ["x", "y"], "f3": {"k": b"v"}})
    assert read(schema, data)["f2"] == ["x", "y"]
    for length in range(len(data)):
        with pytest.raises(BadValueError) as caught:
            read(schema, data[:length])
        assert caught.value.reason == "bad_value"
    with pytest.raises(BadValueError, match="1 bytes follow"):
        read(schema, data + b"x")


LIST = record(["null", "Page"])
DOUBLING: Any = record("null", name="r0")
for _depth in range(1, 40):
    DOUBLING = record(DOUBLING, f"r{_depth - 1}", name=f"r{_depth}")


@pytest.mark.parametrize(
    ("schema", "data", "said"),
    [
        (LIST, b"\2" * 3_000_000 + b"\0", "nested too deeply"),
        (record({"type": "array", "items": "null"}), number(1 << 50), "more than 500,000"),
        (record({"type": "array", "items": "boolean"}), number(1 << 22) + b"\0" * (1 << 22), "more than 500,000"),
        (record({"type": "map", "values": "null"}), number(1 << 22) + b"\0" * (1 << 22), "more than 500,000"),
        (record({"type": "array", "items": "null"}), number(-(1 << 60)) + b"\0", "more than 500,000"),
        (DOUBLING, b"", "more than 500,000"),
        (record("string"), number(1 << 60), "announces"),
        (record("string"), number(-5) + b"abcdef", "announces -5 bytes"),
        (record("string"), number(2) + b"\xff\xfe", "not valid UTF-8"),
        (record("long"), b"\xff" * 20, "more than 10 bytes"),
        (record(["null", "string"]), number(7), "the choice 7"),
        (record({"type": "enum", "name": "E", "symbols": ["A"]}), number(-1), "the choice -1"),
    ],
)
def test_a_hostile_value_is_bad_within_a_second_or_two(schema: Any, data: bytes, said: str) -> None:
    began = time.thread_time()
    with pytest.raises(BadValueError, match=said) as caught:
        read(schema, data)
    assert caught.value.reason == "bad_value"
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[]",
        "[7]",
        '["string", "long"]',
        '[["string"]]',
        "{}",
        '"string"',
        '{"type":"string"}',
        '{"type":"record","name":"P"}',
        '{"type":"record","name":"P","fields":[{"name":"a"}]}',
        '{"type":"record","name":"P","fields":[{"name":"a","type":"Q"}]}',
        '{"type":"record","name":"P","fields":{"a":1}}',
        '{"type":"record","name":"P","fields":[{"name":"a","type":{"type":"record","name":"P","fields":[]}}]}',
        '{"type":"record","name":"P","fields":[{"name":"a","type":' + '{"type":' * 5_000 + '"int"' + "}" * 5_000,
    ],
)
def test_a_malformed_schema_is_bad(text: str) -> None:
    with pytest.raises(BadValueError) as caught:
        compile_avro(RegisteredSchema("AVRO", text))
    assert caught.value.reason == "bad_schema"


@pytest.mark.parametrize("name", ["namespace", "name"])
def test_a_long_name_is_refused_before_each_type_repeats_it(name: str) -> None:
    types = [{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(10_000)]
    schema = record(*types, **{name: "n" * 100_000})
    with peak_memory() as peak, pytest.raises(BadValueError, match="100,000 characters") as caught:
        read(schema, b"")
    assert peak.bytes < 50 << 20
    assert caught.value.reason == "bad_schema"
    assert read(record("null", **{name: "n" * 1_000}), b"") == {"f0": None}


def test_a_long_symbol_is_refused_before_each_item_repeats_it() -> None:
    schema = record({"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["s" * 100_000]}})
    with pytest.raises(BadValueError, match="100,000 characters") as caught:
        read(schema, number(1) + b"\0\0")
    assert caught.value.reason == "bad_schema"


def test_a_size_that_is_no_number_is_bad() -> None:
    text = '{"type":"record","name":"P","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1e999}}]}'
    for schema in (text, text.replace("1e999", "NaN"), text.replace("1e999", "1" * 6_000)):
        with pytest.raises(BadValueError) as caught:
            compile_avro(RegisteredSchema("AVRO", schema))(HEAD, 5)
        assert caught.value.reason == "bad_schema"


def test_a_schema_that_is_nested_too_deeply_is_bad() -> None:
    deep = '{"type":' * 2_000 + '"int"' + "}" * 2_000
    deep = '{"type":"record","name":"P","fields":[{"name":"a","type":' + deep + "}]}"
    with pytest.raises(BadValueError, match="nested too deeply"):
        compile_avro(RegisteredSchema("AVRO", deep))


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0", b"\1\0\0\0\1x", b'{"text":1}', b"\0\xff\xff\xff\xffx"])
def test_a_value_without_a_possible_id_is_bad(value: bytes) -> None:
    with pytest.raises(BadValueError) as caught:
        schema_id_of(value)
    assert caught.value.reason == "bad_schema"


@pytest.mark.parametrize("number", [0, 127, 128, (1 << 14) - 1, 1 << 14, (1 << 64) - 1])
def test_a_number_of_any_size_is_written_and_read(number: int) -> None:
    data = varint(number)
    assert varint_at(b"x" + data + b"y", 1, 10) == (number, 1 + len(data))


def test_a_number_without_an_end_is_read_no_further_than_its_most_bytes() -> None:
    assert varint_at(b"\x80" * 10 + b"\x01", 0, 10) is None
