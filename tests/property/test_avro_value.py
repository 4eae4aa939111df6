"""Our reader of Avro against fastavro, on generated schemas and values, and on damaged bytes."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import fastavro
from hypothesis import given
from hypothesis import strategies as st

from simstream.wire.avro_value import compile_avro
from simstream.wire.bad_value import BadValueError
from simstream.wire.registered import RegisteredSchema

LEAVES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(),
}


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A schema and a value of it."""
    kind = draw(st.sampled_from([*LEAVES, *(["array", "map", "record", "union"] if depth else [])]))
    if kind in LEAVES:
        return kind, draw(LEAVES[kind])
    if kind == "union":
        schema, value = draw(pairs(depth=0).filter(lambda pair: pair[0] != "null"))
        return ["null", schema], draw(st.sampled_from([None, value]))
    if kind == "record":
        inner = draw(st.lists(pairs(depth=depth - 1), max_size=4))
        name = "R" + "".join(draw(st.lists(st.sampled_from("abcdef0123456789"), min_size=12, max_size=12)))
        fields = [{"name": f"f{number}", "type": schema} for number, (schema, _) in enumerate(inner)]
        schema = {"type": "record", "name": name, "fields": fields}
        return schema, {f"f{number}": value for number, (_, value) in enumerate(inner)}
    schema, value = draw(pairs(depth=depth - 1))
    times = draw(st.integers(0, 3))
    if kind == "array":
        return {"type": "array", "items": schema}, [value] * times
    return {"type": "map", "values": schema}, {f"k{number}": value for number in range(times)}


@given(st.lists(pairs(), min_size=1, max_size=4), st.data())
def test_values_are_read_as_fastavro_reads_them(inner: list[tuple[Any, Any]], data: st.DataObject) -> None:
    fields = [{"name": f"f{number}", "type": schema} for number, (schema, _) in enumerate(inner)]
    schema = {"type": "record", "name": "Page", "fields": fields}
    try:
        parsed = fastavro.parse_schema(schema)
    except fastavro.schema.SchemaParseException:
        return  # two records of one name
    to = io.BytesIO()
    fastavro.schemaless_writer(to, parsed, {f"f{number}": value for number, (_, value) in enumerate(inner)})
    value = to.getvalue()
    read = compile_avro(RegisteredSchema("AVRO", json.dumps(schema)))
    assert read(b"head:" + value, 5) == fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
    damaged = bytearray(value)
    for _ in range(data.draw(st.integers(1, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadValueError):  # any other error fails the test
        read(bytes(damaged), 0)
