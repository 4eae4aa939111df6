"""`simstream explain` over a log, local or Kafka: the published verdict, the log judged again, texts read back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from simstream.log.base import Log, OutgoingVerdict
from simstream.log.options import PAGES, POSITIONS, TOPICS, VERDICTS
from simstream.model import Record
from tests.e2e.harness import Program, all_verdicts, read_topic
from tests.e2e.pages import HARBOUR
from tests.e2e.test_errors import one_line

COUNT = 120
WITHDRAWN = "taken-back"


def explained(program: Program, *arguments: object) -> list[dict[str, Any]]:
    """The objects that `explain --json` prints."""
    return [json.loads(line) for line in program.good("explain", "--json", *arguments).splitlines()]


def judge_texts(program: Program, log: Log, texts: Mapping[str, str], before: int = 0) -> None:
    """Append a page for each id and text, and serve until each has its verdict, like the pages `before`."""
    with log.open_appender(PAGES) as appender:
        for page_id, text in texts.items():
            appender.append(json.dumps({"text": text}).encode(), page_id.encode())
    program.judge(before + len(texts))


@pytest.fixture
def judged(program: Program) -> Iterator[Log]:
    """A log of 3 partitions in which 120 pages, a withdrawal among them, have their verdicts."""
    program.good("topics", "create", "--partitions", 3)
    program.feed(COUNT - 2)
    with program.place.open() as log:
        with log.open_appender(PAGES) as appender:
            appender.append(json.dumps({"text": HARBOUR}).encode(), WITHDRAWN.encode())
            appender.append(None, WITHDRAWN.encode())
        program.judge(COUNT)
        yield log


def everything(log: Log) -> dict[str, list[Record]]:
    return {topic: read_topic(log, topic) for topic in TOPICS}


@pytest.mark.usefixtures("judged")
def test_every_page_is_explained_by_the_verdict_that_was_published(program: Program, judged: Log) -> None:
    newest = {}
    for value in all_verdicts(judged):
        newest[json.loads(value)["id"]] = json.loads(value)
    before = everything(judged)
    found = explained(program, *newest, "--diff")
    assert [one["verdict"] for one in found] == list(newest.values())
    assert all(one["agrees"] for one in found)
    assert all(one["text_missing"] is None for one in found)
    readable = [one for one in found if one["verdict"]["fingerprint"]]
    assert all(len(one["words"]) == one["distinct_words"] for one in readable)
    assert any(one["difference"] and one["difference"]["passages"] for one in readable)
    assert {one["verdict"]["verdict"] for one in found} >= {"new", "near_duplicate", "too_short", "withdrawn"}
    assert everything(judged) == before, "it writes nothing"


@pytest.mark.usefixtures("judged")
def test_a_withdrawal_and_an_older_verdict_are_explained(program: Program) -> None:
    page_id = WITHDRAWN
    text = program.good("explain", page_id)
    assert text.startswith(f"{page_id}  withdrawn\nIt was withdrawn: a record without a value")
    assert "the same verdict, byte for byte" in text
    assert "stays live" not in text
    assert "leaves." in text
    [newest] = explained(program, page_id)
    [older] = explained(program, "--ordinal", newest["before"]["earlier"]["ordinal"])
    assert (older["id"], older["verdict"]["verdict"]) == (page_id, "new")
    assert newest["before"]["earlier"]["cluster_id"] == older["verdict"]["cluster_id"]
    text = program.good("explain", page_id, "--ordinal", older["verdict"]["ordinal"])
    assert "It is new: " in text


@pytest.mark.usefixtures("judged")
def test_other_settings_than_those_of_serve_are_refused_by_name(program: Program) -> None:
    page_id = WITHDRAWN
    for flags in (("--distance", 4), ("--link", "canonical")):
        line = one_line(program.on_log("explain", page_id, *flags), 1)
        assert "has the policy" in line
        assert "use --distance 8 --similarity 0.6 --window none --link any" in line
    assert "recipe" in one_line(program.on_log("explain", page_id, "--recipe", "google2007"), 1)


def test_a_page_without_a_verdict_is_said_to_wait_and_for_what(program: Program) -> None:
    program.good("topics", "create", "--partitions", 2)
    assert "no verdict" in one_line(program.on_log("explain", "a"), 1)
    with program.place.open() as log:
        with log.open_appender(PAGES) as appender:
            appender.append(json.dumps({"text": HARBOUR}).encode(), b"a")
        assert "waits to be fingerprinted" in one_line(program.on_log("explain", "a"), 1)
        with program.serve("--roles", "fingerprint") as service:
            service.until(lambda: len(read_topic(log, "fingerprints")) > 0, "a frame is there")
        assert "waits for the judge" in one_line(program.on_log("explain", "a"), 1)
        program.judge(1)
    assert program.good("explain", "a").startswith("a  new\n")
    assert "did you mean a?" not in one_line(program.on_log("explain", "b"), 1)
    assert "0 to 0" in one_line(program.on_log("explain", "--ordinal", 1), 1)


@pytest.mark.long
def test_a_published_verdict_that_the_log_does_not_give_is_said_loudly(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.place.open() as log:
        judge_texts(program, log, {"a": HARBOUR, "b": HARBOUR})
        true = all_verdicts(log)[1]
        forged = true.replace(b'"cluster_id":"0"', b'"cluster_id":"7"')
        position = read_topic(log, POSITIONS)[-1].value or b""
        with log.open_publisher() as publisher:
            publisher.start()
            publisher.publish([OutgoingVerdict(b"b", forged, (("verdict", b"near_duplicate"),))], position)
    done = program.on_log("explain", "b", "--json")
    found = json.loads(done.stdout)
    assert (found["verdict"], found["published"]) == (json.loads(true), json.loads(forged))
    assert found["agrees"] is False
    assert "does not give the verdict that was published for b" in one_line(done, 1)
    text = program.on_log("explain", "b").stdout.decode()
    assert "THE PUBLISHED VERDICT DIFFERS" in text


def test_texts_that_are_gone_are_said_to_be_and_all_else_is_explained(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.place.open() as log:
        judge_texts(program, log, {"a": HARBOUR, "b": HARBOUR})
    program.place.delete(PAGES)
    program.good("topics", "create", "--partitions", 1)
    [one] = explained(program, "b", "--diff")
    assert (one["verdict"]["near_duplicate_of"], one["agrees"], one["words"]) == ("a", True, [])
    assert "created again" in one["text_missing"]
    assert "created again" in one["difference"]["missing"]
    assert one["overlap"] is None
    text = program.good("explain", "b", "--diff")
    assert "The words are not known: the topic" in text
    assert "cannot be compared" in text


@pytest.mark.kafka
@pytest.mark.long
def test_texts_that_retention_removed_are_said_to_be(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    with on_kafka.place.open() as log:
        judge_texts(on_kafka, log, {page_id: f"{HARBOUR} {page_id}" for page_id in "abc"})
        on_kafka.place.expire(PAGES, 2)
    [gone, there] = explained(on_kafka, "b", "c", "--diff")
    assert "retention has removed the page" in gone["text_missing"]
    assert gone["candidates"][0]["id"] == "a"
    assert there["text_missing"] is None
    assert "retention has removed the page" in there["difference"]["missing"]


@pytest.mark.kafka
@pytest.mark.long
def test_a_log_that_retention_cut_cannot_be_judged_again(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    with on_kafka.place.open() as log:
        judge_texts(on_kafka, log, {"a": HARBOUR})
        judge_texts(on_kafka, log, {"b": HARBOUR}, before=1)
        on_kafka.place.expire("fingerprints", 1)
        assert len(read_topic(log, VERDICTS)) == 2
    assert "frame 0 is missing" in one_line(on_kafka.on_log("explain", "b"), 1)


@pytest.mark.kafka
@pytest.mark.long
def test_a_verdict_that_retention_removed_is_told_from_one_that_is_to_come(on_kafka: Program) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    with on_kafka.place.open() as log:
        judge_texts(on_kafka, log, {"a": HARBOUR})
        on_kafka.place.expire(VERDICTS, 1)
    assert "a was judged, but its verdict is no longer in the topic" in one_line(on_kafka.on_log("explain", "a"), 1)
