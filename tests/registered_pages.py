"""A team's pages in the formats of a schema registry, written by the Kafka client's own serializers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext

from deploy.registry.registry import SchemaRegistry

FIELDS = {
    "id": "header:doc-id",
    "text": "body.content",
    "html": "body.raw",
    "url": "meta.link",
    "time": "meta.fetched",
    "status": "meta.code",
}
AVRO = {
    "type": "record",
    "name": "Page",
    "namespace": "crawl",
    "fields": [
        {
            "name": "body",
            "type": {
                "type": "record",
                "name": "Body",
                "fields": [
                    {"name": "lang", "type": {"type": "enum", "name": "Lang", "symbols": ["EN", "ZH"]}},
                    {"name": "content", "type": ["null", {"type": "array", "items": "string"}]},
                    {"name": "raw", "type": ["null", "string"]},
                ],
            },
        },
        {
            "name": "meta",
            "type": {
                "type": "record",
                "name": "Meta",
                "fields": [
                    {"name": "link", "type": ["null", "string"]},
                    {"name": "fetched", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
                    {"name": "code", "type": ["null", "int"]},
                    {"name": "labels", "type": {"type": "map", "values": ["null", "double"]}},
                ],
            },
        },
    ],
}
Encode = Callable[[dict[str, Any]], bytes]


def is_ordinary(line: bytes) -> bool:
    """Whether a typed producer could write this page: it has a name and a text or HTML."""
    try:
        page = json.loads(line)
    except ValueError:
        return False
    has_text = isinstance(page.get("text", page.get("html")), str)
    return has_text and bool(page.get("id") or page.get("url"))


def tree_of(page: dict[str, Any]) -> dict[str, Any]:
    """A page with the team's names; its time in ms."""
    text = page.get("text")
    return {
        "body": {
            "lang": "ZH",
            "content": None if text is None else text.split("\n"),
            "raw": page.get("html"),
        },
        "meta": {
            "link": page.get("url"),
            "fetched": page.get("time"),
            "code": page.get("status"),
            "labels": {"weight": 0.5, "none": None},
        },
    }


def client_of(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url, "timeout": 10})


def avro_encoder(registry: SchemaRegistry, topic: str) -> Encode:
    from confluent_kafka.schema_registry.avro import AvroSerializer

    serialize = AvroSerializer(client_of(registry), json.dumps(AVRO))

    def encode(page: dict[str, Any]) -> bytes:
        tree = tree_of(page)
        if tree["meta"]["fetched"] is not None:
            tree["meta"]["fetched"] *= 1000
        return bytes(serialize(tree, SerializationContext(topic, MessageField.VALUE)))

    return encode


def json_encoder(registry: SchemaRegistry, topic: str) -> Encode:
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    schema = {"title": "Page", "type": "object", "properties": {"body": {"type": "object"}}}
    serialize = JSONSerializer(json.dumps(schema), client_of(registry))

    def encode(page: dict[str, Any]) -> bytes:
        return bytes(serialize(tree_of(page), SerializationContext(topic, MessageField.VALUE)))

    return encode


PROTO_META = """
syntax = "proto3";
package crawl;
import "google/protobuf/timestamp.proto";
message Meta {
  string link = 1;
  google.protobuf.Timestamp fetched = 2;
  int32 code = 3;
  Meta above = 4;
}
"""
PROTO_PAGE = """
syntax = "proto3";
package crawl;
import "crawl/meta.proto";
message Other {}
message Page {
  message Body {
    repeated string content = 1;
    string raw = 2;
  }
  Meta meta = 2;
  Body body = 9;
}
"""
"""The texts of `proto_files`."""


def proto_files() -> list[Any]:
    """The team's two files: the meta data are in one of their own."""
    from google.protobuf import descriptor_pb2

    field = descriptor_pb2.FieldDescriptorProto
    one, many, text, whole, message = (
        field.LABEL_OPTIONAL,
        field.LABEL_REPEATED,
        field.TYPE_STRING,
        field.TYPE_INT32,
        field.TYPE_MESSAGE,
    )
    meta = descriptor_pb2.FileDescriptorProto(name="crawl/meta.proto", package="crawl", syntax="proto3")
    meta.dependency.append("google/protobuf/timestamp.proto")
    made = meta.message_type.add(name="Meta")
    made.field.add(name="link", number=1, label=one, type=text)
    made.field.add(name="fetched", number=2, label=one, type=message, type_name=".google.protobuf.Timestamp")
    made.field.add(name="code", number=3, label=one, type=whole)
    made.field.add(name="above", number=4, label=one, type=message, type_name=".crawl.Meta")
    page = descriptor_pb2.FileDescriptorProto(name="crawl/page.proto", package="crawl", syntax="proto3")
    page.dependency.append("crawl/meta.proto")
    page.message_type.add(name="Other")
    made = page.message_type.add(name="Page")
    made.field.add(name="meta", number=2, label=one, type=message, type_name=".crawl.Meta")
    made.field.add(name="body", number=9, label=one, type=message, type_name=".crawl.Page.Body")
    body = made.nested_type.add(name="Body")
    body.field.add(name="content", number=1, label=many, type=text)
    body.field.add(name="raw", number=2, label=one, type=text)
    return [meta, page]


def proto_page() -> Any:
    """The class of the team's pages."""
    from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in proto_files():
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("crawl.Page"))


def proto_message(page: dict[str, Any]) -> Any:
    made, tree = proto_page()(), tree_of(page)
    made.body.content.extend(tree["body"]["content"] or [])
    made.body.raw = tree["body"]["raw"] or ""
    made.meta.link = tree["meta"]["link"] or ""
    made.meta.code = tree["meta"]["code"] or 0
    if tree["meta"]["fetched"] is not None:
        made.meta.fetched.FromMilliseconds(tree["meta"]["fetched"])
    return made


def proto_encoder(registry: SchemaRegistry, topic: str) -> Encode:
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    client = client_of(registry)

    def encode(page: dict[str, Any]) -> bytes:
        message = proto_message(page)
        serialize = ProtobufSerializer(type(message), client)
        return bytes(serialize(message, SerializationContext(topic, MessageField.VALUE)))

    return encode


def proto_text_encoder(registry: SchemaRegistry, topic: str) -> Encode:
    """The same messages, whose schemas another program registered as text."""
    from confluent_kafka.schema_registry import Schema, SchemaReference

    client, subject = client_of(registry), f"{topic}-meta"
    client.register_schema(subject, Schema(PROTO_META, "PROTOBUF"))
    needed = [SchemaReference("crawl/meta.proto", subject, 1)]
    number = client.register_schema(f"{topic}-value", Schema(PROTO_PAGE, "PROTOBUF", needed))
    head = b"\0" + number.to_bytes(4, "big") + b"\2\2"
    return lambda page: head + bytes(proto_message(page).SerializeToString())


ENCODERS = {"protobuf": proto_encoder, "avro": avro_encoder, "json_schema": json_encoder}
