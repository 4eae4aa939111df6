"""A topic whose values need a schema registry: a real registry, a real broker, and the service over both."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from deploy.registry.registry import SchemaRegistry
from simstream.log.options import DEAD_LETTERS, PAGES
from simstream.tools.dead_letters.letters import PREFIX
from tests.e2e import pages
from tests.e2e.harness import ROOT, Program, bare, by_ordinal, read_topic, watching
from tests.e2e.test_readme import blocks
from tests.kafka_fixtures import TopicPlace
from tests.registered_pages import ENCODERS, FIELDS, is_ordinary, proto_text_encoder

COUNT = 200
UNKNOWN = b"\0\0\0\xff\xff" + b"x" * 20


def write_settings(folder: Path, form: str, url: str, topic: str) -> None:
    paths = "\n".join(f'{name} = "{path}"' for name, path in FIELDS.items())
    (folder / "simstream.toml").write_text(
        f'pages_topic = "{topic}"\npages_format = "{form}"\n[registry]\nurl = "{url}"\n[fields]\n{paths}\n'
    )


def produce(place: TopicPlace, topic: str, values: list[tuple[str, bytes]]) -> None:
    admin = place.admin()
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    producer = Producer({"bootstrap.servers": place.servers})
    for name, value in values:
        producer.produce(topic, value, headers=[("doc-id", name.encode())])
    assert producer.flush(30) == 0


def ordinary(count: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in pages.lines(count * 2) if is_ordinary(line)][:count]


def name_of(page: dict[str, Any]) -> str:
    return str(page.get("id") or page.get("url"))


@pytest.mark.kafka
@pytest.mark.parametrize("form", ENCODERS)
def test_pages_of_a_registered_schema_get_the_verdicts_of_the_usual_form(
    on_kafka: Program, registry: SchemaRegistry, tmp_path: Path, form: str
) -> None:
    place = on_kafka.place
    told, topic = ordinary(COUNT), f"{place.prefix}-crawl"
    (tmp_path / "usual.jsonl").write_text("".join(json.dumps(page) + "\n" for page in told))
    encode = ENCODERS[form](registry, topic)
    good = [(name_of(page), encode(page)) for page in told]
    cut = good[0][1][: len(good[0][1]) // 2]
    bad = [("cut", cut), ("plain", b'{"text": "no schema"}')] + [("unknown", UNKNOWN)] * (form != "json_schema")
    produce(place, topic, good + bad)
    write_settings(tmp_path, form, registry.url, topic)
    on_kafka.good("topics", "create")
    with place.open() as log, on_kafka.serve() as service, watching(log) as watcher:
        watcher.wait(COUNT + len(bad), service)
        assert service.metric("simstream_registry_wait_seconds") == 0
        assert service.end() == 0, service.output
        verdicts = by_ordinal(watcher.rest())
        letters = read_topic(log, DEAD_LETTERS)
    assert [bare(one) for one in verdicts[:COUNT]] == [
        bare(one) for one in on_kafka.dedup(tmp_path / "usual.jsonl", "--versions")
    ]
    assert {json.loads(one)["reason"] for one in verdicts[COUNT:]} <= {"bad_value", "bad_schema", "bad_json"}
    said = Counter(dict(one.headers)[f"{PREFIX}error-class"] for one in letters)
    assert said.total() == len(bad)
    assert said[b"bad_schema"] == len(bad) - 1, said
    some = next(found["id"] for one in verdicts if (found := json.loads(one))["verdict"] == "near_duplicate")
    assert some in on_kafka.good("explain", some)


@pytest.mark.kafka
def test_the_walk_of_the_document_ends_with_a_near_duplicate(
    on_kafka: Program, registry: SchemaRegistry, tmp_path: Path
) -> None:
    place = on_kafka.place
    topic = f"{place.prefix}-avro"

    def here(text: str) -> str:
        text = text.replace("kafka://127.0.0.1:9092", place.address).replace("crawl.avro", topic)
        text = text.replace("127.0.0.1:9092", place.servers)
        return text.replace("http://127.0.0.1:8081/apis/ccompat/v7", registry.url)

    document = ROOT / "docs/how-to/schema-registry.md"
    exec(compile(here(blocks(document, "python")[0]), document.name, "exec"), {})
    (tmp_path / "simstream.toml").write_text(here(blocks(document, "toml")[0]))
    on_kafka.good("topics", "create")
    with place.open() as log, on_kafka.serve() as service, watching(log) as watcher:
        watcher.wait(2, service)
        assert "near_duplicate" in on_kafka.good("verdicts")


def test_the_service_waits_for_a_registry_that_is_away_and_ends_when_asked(
    on_folder: Program, registry: SchemaRegistry, tmp_path: Path, deaf_port: int
) -> None:
    place = on_folder.place
    page = {"url": "https://a.example/1", "text": "the night train stops at the mill village again after years"}
    topic = f"{place.prefix}.{PAGES}"
    write_settings(tmp_path, "avro", f"http://127.0.0.1:{deaf_port}", topic)
    with place.open() as log:
        log.create_topics(2)
        with log.open_appender(PAGES) as appender:
            for partition in (0, 1):
                value = ENCODERS["avro"](registry, topic)(page)
                appender.append(value, headers=[("doc-id", b"p%d" % partition)], partition=partition)
    with on_folder.serve() as service:
        service.until(lambda: "waits for a schema" in service.get("/health/ready")[1], "it waits")
        service.until(lambda: service.metric("simstream_registry_wait_seconds") > 0.5, "the metric grows")
        assert service.metric('simstream_registry_requests_total{result="failed"}') >= 1
        assert service.get("/health/live")[0] == 200
        began = time.monotonic()
        assert service.end() == 0, service.output
        assert time.monotonic() - began < 25  # less than the default stop_timeout
        assert service.output.count("no page is read until it answers") == 1
    with place.open() as log, watching(log) as watcher:
        assert watcher.rest() == []
        with on_folder.serve(SIMSTREAM_REGISTRY_URL=registry.url) as service:
            watcher.wait(2, service)
        assert {json.loads(one.value or b"")["verdict"] for one in watcher.rest()} == {"new", "near_duplicate"}


def test_pages_are_read_by_the_text_of_proto_files(
    on_folder: Program, registry: SchemaRegistry, tmp_path: Path
) -> None:
    place = on_folder.place = TopicPlace(on_folder.place.address, f"t{secrets.token_hex(4)}")
    topic = f"{place.prefix}.{PAGES}"
    write_settings(tmp_path, "protobuf", registry.url, topic)
    encode, story = (
        proto_text_encoder(registry, topic),
        "the night train stops at the mill village again after years",
    )
    with place.open() as log:
        log.create_topics(1)
        with log.open_appender(PAGES) as appender:
            for name in ("a", "b"):
                value = encode({"url": f"https://{name}.example/1", "text": story})
                appender.append(value, headers=[("doc-id", name.encode())], partition=0)
        with on_folder.serve() as service, watching(log) as watcher:
            watcher.wait(2, service)
            assert service.end() == 0, service.output
            said = [json.loads(one) for one in by_ordinal(watcher.rest())]
    assert [(one["id"], one["verdict"]) for one in said] == [("a", "new"), ("b", "near_duplicate")]


def test_a_registry_that_stays_away_ends_the_service_with_one_line(
    on_folder: Program, tmp_path: Path, deaf_port: int
) -> None:
    place = on_folder.place
    write_settings(tmp_path, "avro", f"http://127.0.0.1:{deaf_port}", f"{place.prefix}.{PAGES}")
    with place.open() as log:
        log.create_topics(1)
        with log.open_appender(PAGES) as appender:
            appender.append(UNKNOWN, b"a")
    last = on_folder.refused(SIMSTREAM_GIVE_UP_AFTER="1s")
    assert last.startswith("simstream: the schema registry http://127.0.0.1:")


def test_settings_that_cannot_work_are_refused(on_folder: Program, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    cases = [
        ('pages_format = "avro"', "no schema registry is named: set registry.url"),
        ('verdicts_format = "protobuf"', "no schema registry is named: set registry.url"),
        ('verdicts_format = "xml"', "use avro or json or json_schema or protobuf"),
        ('[registry]\nauto_register = "maybe"', "use true or false"),
        ('pages_format = "avro"\n[registry]\nurl = "http://u:pw@h:1"', "registry.url holds a user or a password"),
        ('pages_format = "avro"\n[registry]\nurl = "h:1"', "give an address such as"),
        ('pages_format = "avro"\n[registry]\nurl = "http://h:1"\nuser = "u"', "belong together"),
        ('[registry]\nurl = "http://h:1"\ntoken_file = "none"', "registry.token_file names none"),
        ('pages_format = "avro"\n[registry]\nurl = "https://h:1"\nca_file = "secret"', "[registry] does not work"),
    ]
    for text, said in cases:
        (tmp_path / "simstream.toml").write_text(text + "\n")
        shown = on_folder.run("config")
        assert said in (shown.stdout + shown.stderr).decode(), text
        assert b"pw" not in shown.stdout + shown.stderr
        assert on_folder.run("serve").returncode == 2, text
    (tmp_path / "simstream.toml").write_text('pages_format = "avro"\n[registry]\nurl = "http://h:1"\n')
    assert b"cannot send to a topic whose pages_format is avro" in on_folder.run("feed", "x.jsonl").stderr
