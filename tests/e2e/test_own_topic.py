"""A topic of the user's own, with other names for its fields, gets the verdicts that the usual form gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from simstream.log.options import DEAD_LETTERS, PAGES, VERDICTS
from simstream.tools.dead_letters.letters import PREFIX
from tests.e2e import pages
from tests.e2e.harness import Program, bare, by_ordinal, read_topic, watching
from tests.kafka_fixtures import TopicPlace

COUNT = 300
SETTINGS = """
[fields]
id = "header:doc-id"
text = "body.content"
html = "body.raw"
url = "meta.links.self"
time = "meta.fetched"
status = "meta.code"
"""
OWN_NAMES = {"url": ("meta", "links", "self"), "time": ("meta", "fetched"), "status": ("meta", "code")}


def other_form(line: bytes) -> tuple[bytes | None, bytes]:
    """The id of a page and its value with other names; broken JSON stays as it is."""
    try:
        page: dict[str, Any] = json.loads(line)
    except ValueError:
        return None, line
    made: dict[str, Any] = {
        "body": {"lang": "zh"},
        "meta": {"links": {}},
        "title": ["of another", 1],
        "id": {"$oid": 1},
    }
    for name, steps in OWN_NAMES.items():
        if name in page:
            place = made
            for step in steps[:-1]:
                place = place[step]
            place[steps[-1]] = page[name]
    if isinstance(page.get("text"), str):
        head, *rest = page["text"].split("\n")
        made["body"]["content"] = [[head], None, *rest]
    elif "text" in page:
        made["body"]["content"] = page["text"]
    if "html" in page:
        made["body"]["raw"] = page["html"]
    name = page.get("id") or page.get("url")
    return (str(name).encode() if name else None), json.dumps(made).encode()


def in_lines(line: bytes) -> bytes:
    """The same page, its text in up to four lines."""
    page = json.loads(line)
    if isinstance(page.get("text"), str):
        page["text"] = page["text"].replace("，" if "，" in page["text"] else " ", "\n", 3)
    return json.dumps(page).encode()


def produce(place: TopicPlace, topic: str, lines: list[bytes]) -> None:
    """Send the pages as a team's own producer does: the id is in a header, and the key is something else."""
    admin = place.admin()
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    producer = Producer({"bootstrap.servers": place.servers})
    for number, line in enumerate(lines):
        name, value = other_form(line)
        headers = [("doc-id", name)] if name else []
        producer.produce(topic, value, None if name is None else b"shard-%d" % (number % 3), headers=headers)
    assert producer.flush(30) == 0


def judged(program: Program, names: Mapping[str, str], *flags: object) -> list[bytes]:
    """The verdicts of the service, once each page has one."""
    with program.place.open(**names) as log, program.serve(*flags) as service, watching(log) as watcher:
        watcher.wait(COUNT, service)
        assert service.end() == 0, service.output
        return by_ordinal(watcher.rest())


def write_theirs(place: TopicPlace, *last: bytes) -> None:
    """Write 1,100 pages with a text at `body.content`, and then these, to a topic of somebody else."""
    with TopicPlace(place.address, "crawl").open() as theirs:
        theirs.create_topics(1)
        with theirs.open_appender(PAGES) as appender:
            for number, page in enumerate([*[b'{"body":{"content":"text"}}'] * 1_100, *last]):
                appender.append(page, b"%d" % number)


def test_a_path_that_no_page_has_is_refused_before_the_first_page(on_folder: Program, tmp_path: Path) -> None:
    place = on_folder.place
    write_theirs(place)
    file = tmp_path / "simstream.toml"
    file.write_text('pages_topic = "crawl.pages"\n[fields]\ntext = "body.contents"\n')
    on_folder.good("topics", "create")
    done = on_folder.on_log("serve", "--http-port", "0")
    assert done.returncode == 2
    told = "none of 400 pages of crawl.pages has a value of the right type for fields.text at body.contents"
    assert f"{told}: correct the path" in done.stderr.decode().splitlines()[-1]
    with place.open(pages_topic="crawl.pages") as log:
        assert not any(log.end_offsets(VERDICTS).values())
    file.write_text('pages_topic = "crawl.pages"\n[fields]\ntext = "body.content"\n')
    with place.open(pages_topic="crawl.pages") as log, on_folder.serve() as service, watching(log) as watcher:
        watcher.wait(1_100, service)
        assert service.end() == 0


def test_many_unreadable_pages_stop_the_service_where_they_are_to(on_folder: Program, tmp_path: Path) -> None:
    place = on_folder.place
    write_theirs(place, b'{"body":{"contents":"one page has it"},"lnik":"https://a.example/"}')
    (tmp_path / "simstream.toml").write_text(
        'pages_topic = "crawl.pages"\n[fields]\ntext = "body.contents"\nurl = "lnik"\n'
        "[dead_letters]\nstop_ratio = 0.5\n"
    )
    assert "fields.text              body.contents" in on_folder.run("config").stdout.decode()
    on_folder.good("topics", "create")
    with on_folder.serve() as service:
        assert "unreadable" in service.failed()
        assert "none of the first 50 pages has a value of the right type for fields.url at lnik" in service.output
    assert "no text at body.contents" in on_folder.good("dead-letters", "list", "--json").splitlines()[0]


def test_a_dead_letter_has_the_id_of_its_verdict(on_folder: Program, tmp_path: Path) -> None:
    place = on_folder.place
    with TopicPlace(place.address, "crawl").open() as theirs:
        theirs.create_topics(1)
        with theirs.open_appender(PAGES) as appender:
            appender.append(b'{"meta":{"id":"https://a.example/"},"text":7}', b"k")
    (tmp_path / "simstream.toml").write_text(
        'pages_topic = "crawl.pages"\n[fields]\nid = "meta.id"\ntext = "text"\n'
    )
    on_folder.good("topics", "create")
    with place.open(pages_topic="crawl.pages") as log, on_folder.serve() as service, watching(log) as watcher:
        watcher.wait(1, service)
        assert service.end() == 0
        [verdict] = map(json.loads, by_ordinal(watcher.rest()))
    [letter] = map(json.loads, on_folder.good("dead-letters", "list", "--json").splitlines())
    assert letter["id"] == verdict["id"] == "https://a.example/"
    assert "  https://a.example/: " in on_folder.good("dead-letters", "list")


@pytest.mark.kafka
def test_a_topic_of_ones_own_gets_the_verdicts_of_the_usual_form(on_kafka: Program, tmp_path: Path) -> None:
    place = on_kafka.place
    named = [in_lines(line) for line in pages.lines(COUNT * 2) if other_form(line)[0]][:COUNT]
    usual, theirs = tmp_path / "pages.jsonl", f"{place.prefix}-crawl.v2"
    usual.write_bytes(b"\n".join(named) + b"\n")
    produce(place, theirs, named)
    settings = tmp_path / "own.toml"
    names = {"verdicts_topic": f"{theirs}.judged", "dead_letters_topic": f"{theirs}.refused"}
    settings.write_text("".join(f'{name} = "{topic}"\n' for name, topic in names.items()) + SETTINGS)
    own = ("--pages-topic", theirs, "--fingerprints-topic", f"{theirs}.frames", "--config", settings)
    assert f"exists   {theirs}\n" in on_kafka.good("topics", "create", *own)
    verdicts = judged(on_kafka, names, *own)
    assert [bare(one) for one in verdicts] == [bare(one) for one in on_kafka.dedup(usual, "--versions")]
    told = [json.loads(one) for one in verdicts]
    assert {one["source"]["topic"] for one in told} == {theirs}
    assert theirs in on_kafka.good("status", *own)
    some = next(one["id"] for one in told if one["verdict"] == "near_duplicate")
    assert some in on_kafka.good("explain", some, *own)
    on_kafka.good("source", "rewind", *own)
    with place.open(**names) as log:
        letters = read_topic(log, DEAD_LETTERS)
    assert {dict(one.headers)[f"{PREFIX}source-topic"] for one in letters} == {theirs.encode()}
    assert f"{len(letters)} " in on_kafka.good("dead-letters", "replay", *own)
    again = on_kafka.on_log("replay", "--to", f"{place.prefix}-strict", "--similarity", 0.9, *own)
    assert (
        f"--publish-to {place.prefix}-strict --pages-topic {theirs} --fingerprints-topic" in again.stderr.decode()
    )
    compared = json.loads(
        on_kafka.good("replay", "--to", f"{place.prefix}-strict", "--similarity", 0.9, "--compare", "--json", *own)
    )
    assert (compared["old"], compared["compared"]) == (f"{theirs}.judged", COUNT)
    admin = place.admin()
    there = admin.list_topics(timeout=10).topics
    assert not [name for name in there if name.startswith(f"{place.prefix}.")]
    assert f"{theirs}.judged.verdicts.positions" in there
