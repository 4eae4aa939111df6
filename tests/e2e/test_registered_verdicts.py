"""Verdicts by a registered schema: a real registry, a judge that is killed, and everyone who reads."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from deploy.registry.registry import SchemaRegistry
from simstream import Client
from simstream.log.base import OutgoingVerdict
from simstream.log.options import FINGERPRINTS, POSITIONS, VERDICTS
from simstream.wire import position as positions
from simstream.wire import verdict as wire
from simstream.wire.verdict_schemas import text_of
from tests.e2e import pages
from tests.e2e.harness import QUICK_GROUPS, ROOT, Program, all_verdicts, naive_verdicts, read_topic, watching
from tests.e2e.test_readme import blocks
from tests.kafka_fixtures import TopicPlace
from tests.registered_pages import client_of
from tests.unit.test_verdict_encodings import message_class

COUNT = 150


def write_settings(folder: Path, form: str, url: str, more: str = "") -> None:
    (folder / "simstream.toml").write_text(f'verdicts_format = "{form}"\n[registry]\nurl = "{url}"\n{more}')


def log_has_frames(place: TopicPlace) -> bool:
    with place.open() as log:
        return log.end_offsets(FINGERPRINTS)[0] > 0


def deserialized(form: str, client: SchemaRegistryClient, topic: str, value: bytes) -> dict[str, Any]:
    """What a consumer's own class makes of a value."""
    context = SerializationContext(topic, MessageField.VALUE)
    if form == "avro":
        found: Any = AvroDeserializer(client)(value, context)
    elif form == "json_schema":
        found = JSONDeserializer(None, schema_registry_client=client)(value, context)
    else:
        message = ProtobufDeserializer(message_class(), {"use.deprecated.format": False})(value, context)
        found = {field.name: None for field in message.DESCRIPTOR.fields if field.has_presence}
        found |= {
            field.name: getattr(message, field.name)
            for field in message.DESCRIPTOR.fields
            if not field.has_presence
        }
        found |= {field.name: one for field, one in message.ListFields()}
        source = message.source
        found["source"] = {"topic": source.topic, "partition": source.partition, "offset": source.offset}
        found["merged_clusters"] = list(message.merged_clusters)
    return dict(found)


@pytest.mark.kafka
def test_a_judge_that_is_killed_publishes_the_same_bytes_in_avro(
    on_kafka: Program, registry: SchemaRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = on_kafka.place
    write_settings(tmp_path, "avro", registry.url)
    on_kafka.good("topics", "create")
    told = list(pages.lines(COUNT * 2))
    with place.open() as log, watching(log) as watcher:
        with on_kafka.serve("--state", "state", **QUICK_GROUPS) as service:
            on_kafka.good("feed", "-", stdin=b"\n".join(told[:COUNT]))
            watcher.wait(COUNT // 3, service)
            service.kill()
        with on_kafka.serve("--state", "state", **QUICK_GROUPS) as service:
            on_kafka.good("feed", "-", stdin=b"\n".join(told[COUNT:]))
            watcher.wait(COUNT * 2, service)
            assert service.end() == 0, service.output
        values = all_verdicts(log)
        lines = [wire.as_json(one) for one in values]
        assert lines == naive_verdicts(log)
    on_kafka.good("replay", "--to", f"{place.prefix}-again")
    with TopicPlace(place.address, f"{place.prefix}-again").open() as log:
        assert all_verdicts(log) == values
    assert "same" in on_kafka.good("replay", "--to", f"{place.prefix}-again", "--compare")
    client, topic = client_of(registry), f"{place.prefix}.{VERDICTS}"
    number = client.get_latest_version(f"{topic}-value").schema_id
    assert {one[:5] for one in values} == {wire.encoder_of("avro", number)(wire.decode(lines[0]))[:5]}
    assert [deserialized("avro", client, topic, one) for one in values] == list(map(json.loads, lines))

    text = blocks(ROOT / "docs/how-to/schema-registry.md", "python")[1].replace(
        "consumer.poll(10)", "next_of(consumer)"
    )
    text = text.replace("127.0.0.1:9092", place.servers).replace("simstream.verdicts", topic)
    text = text.replace("http://127.0.0.1:8081/apis/ccompat/v7", registry.url).replace(
        "verdict-reader", place.prefix
    )
    capsys.readouterr()
    awaited = list(lines)

    def next_of(consumer: Consumer) -> Any:
        return consumer.poll(60) if awaited and awaited.pop() else None

    exec(compile(text, "schema-registry.md", "exec"), {"next_of": next_of})
    said = [(one["id"], one["verdict"], one["near_duplicate_of"]) for one in map(json.loads, lines)]
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(" ".join(map(str, one)) for one in said)


@pytest.mark.parametrize("form", ["avro", "protobuf", "json_schema"])
def test_every_reader_of_verdicts_reads_each_format(
    on_folder: Program, registry: SchemaRegistry, tmp_path: Path, form: str
) -> None:
    place = on_folder.place
    url = registry.url
    write_settings(tmp_path, form, url)
    subject = f"{place.prefix}.{VERDICTS}-value"
    on_folder.good("topics", "create")
    text = "The night train stops at the mill village again after forty years, before dawn."
    with on_folder.serve() as service:
        service.ready()
        with Client(log=place.address, prefix=place.prefix) as client:
            told = [client.submit({"id": name, "text": text}).result(60).verdict for name in ("a", "b")]
        assert told == ["new", "near_duplicate"]
        shown = on_folder.good("verdicts", "--json").splitlines()
        assert "near_duplicate" in on_folder.good("verdicts")
        explained = json.loads(on_folder.good("explain", "--json", "b"))
        assert explained["agrees"] is True
    with place.open() as log:
        values = all_verdicts(log)
        position = positions.decode(read_topic(log, POSITIONS)[-1].value or b"")
    assert values[0][:1] == b"\0"
    assert shown == [wire.as_json(one).decode() for one in values]
    assert [json.loads(line)["id"] for line in shown] == ["a", "b"]
    assert position.published_schema == int.from_bytes(values[0][1:5], "big")
    registered = client_of(registry)
    assert (
        registered.lookup_schema(
            subject, Schema(text_of(form), {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}[form])
        ).schema_id
        == position.published_schema
    )
    read = [deserialized(form, registered, subject.removesuffix("-value"), one) for one in values]
    assert read == [json.loads(line) for line in shown]
    with place.open() as log, log.open_publisher() as publisher:
        publisher.publish([OutgoingVerdict(b"c", b"\0junk", ())], publisher.start() or b"")
    assert json.loads(on_folder.good("explain", "--json", "b")) == explained


def test_a_schema_that_is_not_registered_or_not_that_of_the_topic_ends_the_judge(
    on_folder: Program, registry: SchemaRegistry, tmp_path: Path
) -> None:
    place = on_folder.place = TopicPlace(on_folder.place.address, f"t{secrets.token_hex(4)}")
    client, subject = client_of(registry), f"{place.prefix}.{VERDICTS}-value"
    client.register_schema(subject, Schema('"int"', "AVRO"))
    client.set_compatibility(subject, level="BACKWARD")
    on_folder.good("topics", "create")

    def ends(form: str, said: str, more: str = "") -> None:
        write_settings(tmp_path, form, registry.url, more)
        assert said in on_folder.refused()

    ends("avro", "refuses the schema of")
    ends("avro", f"has no schema of verdicts in avro under {subject}", "auto_register = false")
    client.set_compatibility(subject, level="NONE")
    client.register_schema(subject, Schema(text_of("avro"), "AVRO"))
    write_settings(tmp_path, "avro", registry.url, "auto_register = false")
    with on_folder.serve() as service, place.open() as log, watching(log) as watcher:
        on_folder.good("feed", "-", stdin=b'{"id": "a", "text": "Too short."}')
        watcher.wait(1, service)
        assert service.end() == 0, service.output
    ends("json", "but those of this judge are plain JSON")
    ends("json_schema", f"has no schema of verdicts in json_schema under {subject}")


def test_a_judge_waits_for_a_registry_that_is_away(
    on_folder: Program, registry: SchemaRegistry, tmp_path: Path, deaf_port: int
) -> None:
    place = on_folder.place
    write_settings(tmp_path, "protobuf", f"http://127.0.0.1:{deaf_port}")
    on_folder.good("topics", "create")
    on_folder.good("feed", "-", stdin=b'{"id": "a", "text": "Too short."}')
    with on_folder.serve() as service:
        why = "judge: waits for the schema of verdicts: the schema registry http://127.0.0.1:"
        service.until(lambda: why in service.get("/health/ready")[1], "it says what it waits for")
        service.until(lambda: log_has_frames(place), "pages are fingerprinted meanwhile")
        assert service.get("/health/live")[0] == 200
        assert service.end() == 0, service.output
        assert service.output.count("no verdict is published until it answers") == 1
    with place.open() as log, watching(log) as watcher:
        assert watcher.rest() == []
        with on_folder.serve(SIMSTREAM_REGISTRY_URL=registry.url) as service:
            watcher.wait(1, service)
    last = on_folder.refused(SIMSTREAM_GIVE_UP_AFTER="1s")
    assert last.startswith("simstream: the schema registry http://127.0.0.1:")
