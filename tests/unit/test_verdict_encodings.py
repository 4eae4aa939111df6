"""Verdicts by a registered schema: fastavro, Protobuf and jsonschema read them, and write the same bytes."""

from __future__ import annotations

import io
import json
import tempfile
import types
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import fastavro
import jsonschema
import msgspec
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from deploy import reference
from simstream.errors import LogDamaged
from simstream.model import PageSource, Verdict, VerdictKind
from simstream.wire import verdict as wire
from simstream.wire import verdict_avro, verdict_protobuf
from simstream.wire.verdict_schemas import path_of, text_of
from tests.unit.test_verdict import EXAMPLE

FORMATS = ("avro", "protobuf", "json_schema")
SCHEMA_ID = 70_000
HEAD = b"\0\0\1\x11\x70"
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=300)
ids = texts.filter(bool)
hex_digits = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
verdicts = st.builds(
    Verdict, id=ids, url=st.none() | texts, verdict=st.sampled_from(VerdictKind), reason=st.none() | texts,
    near_duplicate_of=st.none() | ids, distance=st.none() | st.integers(0, 63),
    similarity=st.none() | st.integers(0, 256).map(lambda a: wire.similarity(a, 256)),
    cluster_id=st.none() | texts, canonical=st.none() | ids,
    merged_clusters=st.lists(texts, max_size=200).map(tuple), fingerprint=st.none() | ids, policy=hex_digits,
    ordinal=longs, time=longs, source=st.builds(PageSource, ids, st.integers(-(2**31), 2**31 - 1), longs),
)  # fmt: skip
AVRO = fastavro.parse_schema(json.loads(text_of("avro")))


@cache
def message_class() -> Any:
    """The message that Protobuf's own compiler makes of the published file."""
    path = path_of("protobuf")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        assert protoc.main(["protoc", f"-I{path.parent}", f"--descriptor_set_out={made}", path.name]) == 0
        [file] = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{file.package}.{file.message_type[0].name}")
    )


def message_of(verdict: Verdict) -> Any:
    return message_class()(**{name: value for name, value in plain(verdict).items() if value is not None})


def plain(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(verdict)
    return found | {"merged_clusters": list(verdict.merged_clusters)}


@given(verdicts)
def test_avro_is_what_fastavro_writes_and_reads(verdict: Verdict) -> None:
    value = wire.encoder_of("avro", SCHEMA_ID)(verdict)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, AVRO, plain(verdict))
    assert value == HEAD + written.getvalue()
    assert fastavro.schemaless_reader(io.BytesIO(value[5:]), AVRO, None) == plain(verdict)
    assert wire.decode(value) == verdict


@given(verdicts)
def test_protobuf_is_what_its_own_library_writes_and_reads(verdict: Verdict) -> None:
    value = wire.encoder_of("protobuf", SCHEMA_ID)(verdict)
    message = message_of(verdict)
    assert value == HEAD + b"\0" + message.SerializeToString(deterministic=True)
    assert message_class().FromString(value[6:]) == message
    assert wire.decode(value) == verdict


@given(verdicts)
def test_json_by_a_schema_is_the_usual_json_and_fits_the_schema(verdict: Verdict) -> None:
    value = wire.encoder_of("json_schema", SCHEMA_ID)(verdict)
    assert value == HEAD + wire.encode(verdict)
    jsonschema.Draft202012Validator(json.loads(text_of("json_schema"))).validate(json.loads(value[5:]))
    assert wire.decode(value) == verdict


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_back_the_designs_example(form: str) -> None:
    value = wire.encoder_of(form, SCHEMA_ID)(wire.decode(EXAMPLE))
    assert value.startswith(HEAD)
    assert wire.as_json(value) == EXAMPLE == wire.as_json(EXAMPLE)


def test_plain_json_has_no_head() -> None:
    assert wire.encoder_of("json", None) is wire.encode


@given(verdicts, st.sampled_from(FORMATS), st.data())
def test_other_bytes_are_refused_by_name(verdict: Verdict, form: str, data: st.DataObject) -> None:
    value = bytearray(wire.encoder_of(form, SCHEMA_ID)(verdict))
    for at in data.draw(st.lists(st.integers(0, len(value) - 1), max_size=3)):
        value[at] ^= data.draw(st.integers(1, 255))
    cut = bytes(value[: data.draw(st.integers(0, len(value)))])
    for made in (bytes(value), cut, cut + data.draw(st.binary(max_size=30))):
        with suppress(LogDamaged):
            assert isinstance(wire.decode(made), Verdict)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        HEAD,
        HEAD + b"\0",
        HEAD + b"\0\x0a",
        HEAD + b"\0\x0a\xff\xff\xff\xff\x0f",
        HEAD + b"\0" + b"\x80" * 20,
        HEAD + b"\0\x0b",
        HEAD + b"\x02\xff",
        HEAD + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        HEAD + b"{",
        HEAD + b"[" * 100_000,
        HEAD + verdict_avro.encode(wire.decode(EXAMPLE)) + b"x",
        HEAD + verdict_avro.encode(wire.decode(EXAMPLE))[:-1],
        HEAD + b"\0" + verdict_protobuf.encode(wire.decode(EXAMPLE))[:-1],
    ],
)
def test_a_value_that_is_cut_off_or_announces_more_than_it_has_is_refused(value: bytes) -> None:
    with pytest.raises(LogDamaged, match="is not a verdict"):
        wire.decode(value)


def test_fields_that_a_later_message_has_are_skipped() -> None:
    value = wire.encoder_of("protobuf", SCHEMA_ID)(wire.decode(EXAMPLE))
    later = b"\x80\x01\x07" + b"\x89\x01" + b"8 bytes." + b"\x92\x01\x02ab" + b"\x9d\x014 by"
    assert wire.decode(value + later) == wire.decode(EXAMPLE)


def avro_types(hint: Any) -> list[Any]:
    """The types of Avro that may hold a type of Python."""
    if get_origin(hint) is types.UnionType:
        return [["null", one] for one in avro_types(get_args(hint)[0])]
    if get_origin(hint) is tuple:
        return [{"type": "array", "items": one} for one in avro_types(get_args(hint)[0])]
    if isinstance(hint, type) and issubclass(hint, str):
        return ["string"]
    return {int: ["int", "long"], float: ["double"]}[hint]


def check_record(kind: type, schema: dict[str, Any]) -> None:
    hints = get_type_hints(kind)
    assert schema["name"] == kind.__name__
    assert [field["name"] for field in schema["fields"]] == list(hints)
    for field in schema["fields"]:
        hint = hints[field["name"]]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            check_record(hint, field["type"])
        else:
            assert field["type"] in avro_types(hint), field["name"]


def test_the_schema_of_avro_has_the_fields_and_types_of_the_verdict() -> None:
    check_record(Verdict, json.loads(text_of("avro")))


def check_message(kind: type, message: Any) -> None:
    hints = get_type_hints(kind)
    assert message.name == kind.__name__
    assert [field.name for field in message.fields] == list(hints)
    assert [field.number for field in message.fields] == list(range(1, len(hints) + 1))
    for field in message.fields:
        hint = hints[field.name]
        is_optional = get_origin(hint) is types.UnionType
        assert field.is_repeated == (get_origin(hint) is tuple), field.name
        inner = get_args(hint)[0] if get_origin(hint) else hint
        if field.message_type is not None:
            check_message(inner, field.message_type)
            continue
        assert field.has_presence == is_optional, field.name
        wanted = (str,) if issubclass(inner, str) else (inner,)
        assert {field.TYPE_STRING: str, field.TYPE_DOUBLE: float}.get(field.type, int) in wanted, field.name


def test_the_message_of_protobuf_has_the_fields_and_types_of_the_verdict() -> None:
    check_message(Verdict, message_class().DESCRIPTOR)


def without_descriptions(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {
            name: without_descriptions(one)
            for name, one in tree.items()
            if not (name == "description" and isinstance(one, str))
        }
    return [without_descriptions(one) for one in tree] if isinstance(tree, list) else tree


def test_the_json_schema_is_that_of_the_reference_without_its_sentences() -> None:
    assert json.loads(text_of("json_schema")) == without_descriptions(json.loads(reference.schema(Verdict)))


def test_a_published_schema_keeps_every_byte() -> None:
    """Another byte is another schema for a registry: its id would change, and no judge would go on."""
    assert {form: sha256(path_of(form).read_bytes()).hexdigest()[:16] for form in FORMATS} == {
        "avro": "310a564249d79bdc",
        "protobuf": "40f4ea09cb2e4777",
        "json_schema": "d8a72c48a144d508",
    }
