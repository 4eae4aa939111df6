"""Bad pages through the running service: each gets its verdict and its dead letter, and the service goes on."""

from __future__ import annotations

import gzip
import json
import sys
import time
from typing import Any, NamedTuple

import pytest

from simstream.log.options import DEAD_LETTERS, PAGES
from tests.e2e.harness import Program, by_ordinal, read_topic, watching
from tests.e2e.pages import HARBOUR

LIMIT = 200_000


class BadRecord(NamedTuple):
    """A record, and what its verdict must say."""

    name: str
    key: bytes | None
    value: bytes | None
    verdict: str
    reason: str | None
    headers: tuple[tuple[str, bytes], ...] = ()


def page(**fields: Any) -> bytes:
    return json.dumps({"text": HARBOUR} | fields).encode()


UNKNOWN = (("content-type", b"text/html; charset=x-no"),)
HTML = (("content-type", b"text/html"),)
DEEP = "bad_json" if sys.version_info < (3, 14) else "no_text"
"""What a deeply nested page without text is. Python 3.14 takes as many levels as its stack has room for."""
BAD = [
    BadRecord("broken JSON", b"b1", b'{"text": "abc', "unreadable", "bad_json"),
    BadRecord("a list", b"b2", b"[1, 2]", "unreadable", "bad_json"),
    BadRecord("neither text nor html", b"b3", b'{"title": "t"}', "unreadable", "no_text"),
    BadRecord("text of a wrong type", b"b4", page(text=[1]), "unreadable", "wrong_type"),
    BadRecord("status of a wrong type", b"b5", page(status="ok"), "unreadable", "wrong_type"),
    BadRecord("invalid UTF-8", b"b6", b'{"text": "\xff\xfe\xfd"}', "unreadable", "bad_json"),
    BadRecord("an empty value", b"b7", b"", "unreadable", "empty_value"),
    BadRecord("null key and value", None, None, "withdrawn", None),
    BadRecord("null value", b"b8", None, "withdrawn", None),
    BadRecord("more than max_record_bytes", b"b9", page(text=HARBOUR * 3_000), "unreadable", "too_large"),
    BadRecord("binary as HTML", b"b10", gzip.compress(bytes(range(256)) * 40), "unreadable", "binary", HTML),
    BadRecord(
        "an unknown content type", b"b11", b"%PDF", "unreadable", "bad_content_type", (("content-type", b"a/b"),)
    ),
    BadRecord("a key of 10 KB", b"k" * 10_240, page(text=HARBOUR + " one"), "unreadable", "bad_id"),
    BadRecord("a key that is no UTF-8", b"\xff\x00\xfe", page(text=HARBOUR + " two"), "unreadable", "bad_id"),
    BadRecord("a URL of 10 KB", b"b12", page(url="http://x/" + "u" * 10_240), "unreadable", "long_url"),
    BadRecord("deep nesting", b"b13", b'{"x":' * 20_000 + b"1" + b"}" * 20_000, "unreadable", DEEP),
    BadRecord("empty text", b"b14", page(text=""), "too_short", "few_words"),
    BadRecord("an error page", b"b15", page(status=503), "too_short", "http_status"),
]
GOOD = [
    BadRecord("unknown charset", b"g1", b"<p>" + HARBOUR.encode() * 3, "new", None, UNKNOWN),
    BadRecord("a time before 1970", b"g2", page(time=-5), "near_duplicate", None),
    BadRecord("a time in the year 99999", b"g3", page(time=10**18), "near_duplicate", None),
    BadRecord("a time that is no time", b"g4", page(time="tomorrow"), "near_duplicate", None),
    BadRecord(
        "lone surrogates", b"g5", b'{"text": "\\ud800 ' + HARBOUR.encode() + b' \\udfff"}', "near_duplicate", None
    ),
    BadRecord("unknown fields", b"g6", page(x={"y": [1]}), "near_duplicate", None),
]  # fmt: skip


def test_each_bad_page_gets_its_verdict_and_its_dead_letter_and_the_service_goes_on(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    with program.place.open(max_record_bytes=1 << 20) as log, watching(log) as watcher:
        with program.serve(SIMSTREAM_MAX_RECORD_BYTES=str(LIMIT)) as service:
            with log.open_appender(PAGES) as appender:
                for bad in BAD + GOOD:
                    appender.append(bad.value, bad.key, bad.headers)
            watcher.wait(len(BAD + GOOD), service)
            unreadable = [bad for bad in BAD if bad.verdict == "unreadable"]
            for reason in {bad.reason for bad in unreadable}:
                count = sum(bad.reason == reason for bad in unreadable)
                assert service.metric(f'simstream_dead_letters_total{{reason="{reason}"}}') == count
            assert service.end() == 0
            assert "Traceback" not in service.output
        verdicts = [json.loads(value) for value in by_ordinal(watcher.rest())]
        letters = read_topic(log, DEAD_LETTERS)
    got = [(bad.name, v["verdict"], v["reason"]) for bad, v in zip(BAD + GOOD, verdicts, strict=True)]
    assert got == [(bad.name, bad.verdict, bad.reason) for bad in BAD + GOOD]
    now = time.time() * 1000
    assert all(0 <= v["time"] <= now for v in verdicts)
    check_letters(letters, unreadable)


def check_letters(letters: list[Any], unreadable: list[BadRecord]) -> None:
    """One letter a bad page, with its key, value and headers, and where it came from."""
    assert len(letters) == len(unreadable)
    for letter, bad in zip(letters, unreadable, strict=True):
        headers = dict(letter.headers)
        assert letter.key == bad.key, bad.name
        assert headers["simstream-error-class"] == (bad.reason or "").encode(), bad.name
        assert headers["simstream-error"], bad.name
        assert headers["simstream-source-topic"].endswith(b".pages")
        assert headers["simstream-source-partition"] == b"0"
        assert headers["simstream-source-offset"] == b"%d" % (BAD + GOOD).index(bad)
        assert letter.headers[: len(bad.headers)] == bad.headers
        assert letter.value == bad.value, bad.name


@pytest.mark.kafka
def test_a_page_that_the_topic_refuses_is_reported_by_feed_which_ends_with_1(
    on_kafka: Program, kafka_place: Any
) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    kafka_place.alter(PAGES, {"max.message.bytes": 100_000})
    lines = b"\n".join([page(id="a"), page(id="b", text=HARBOUR * 2_000), page(id="c")])
    done = on_kafka.on_log("feed", "-", stdin=lines)
    assert done.returncode == 1
    assert b"-:2 was not sent" in done.stderr
    assert b"1 page was not sent" in done.stderr
    with kafka_place.open() as log:
        assert [record.key for record in read_topic(log, PAGES)] == [b"a", b"c"]


@pytest.mark.kafka
def test_a_page_larger_than_a_segment_of_the_topic_is_reported_by_feed(on_kafka: Program, kafka_place: Any) -> None:
    on_kafka.good("topics", "create", "--partitions", 1)
    kafka_place.alter(PAGES, {"segment.bytes": 2 << 20})
    lines = b"\n".join([page(id="a"), page(id="b", text=HARBOUR * 30_000), page(id="c")])
    done = on_kafka.on_log("feed", "-", stdin=lines)
    assert done.returncode == 1
    assert b"-:2 was not sent" in done.stderr
    with kafka_place.open() as log:
        assert [record.key for record in read_topic(log, PAGES)] == [b"a", b"c"]


def test_a_line_longer_than_max_record_bytes_is_reported_by_feed_and_judged_by_dedup(program: Program) -> None:
    program.good("topics", "create", "--partitions", 1)
    lines = page(id="a") + b"\n" + page(id="b", text=HARBOUR * 2_000) + b"\n" + page(id="c")
    done = program.on_log("feed", "-", stdin=lines, SIMSTREAM_MAX_RECORD_BYTES="100000")
    assert done.returncode == 1
    assert b"-:2 was not sent" in done.stderr
    judged = program.run("dedup", "-", stdin=lines, SIMSTREAM_MAX_RECORD_BYTES="100000")
    assert [json.loads(line)["reason"] for line in judged.stdout.splitlines()] == [None, "too_large", None]


@pytest.mark.kafka
def test_a_page_of_50_mb_is_judged_where_the_topic_admits_it(on_kafka: Program) -> None:
    room = {"SIMSTREAM_MAX_RECORD_BYTES": str(60 << 20)}
    on_kafka.good("topics", "create", "--partitions", 1, **room)
    big = page(id="big", text=(HARBOUR + " ") * 500_000)
    assert len(big) > 50 << 20
    on_kafka.good("feed", "-", stdin=big, **room)
    with on_kafka.place.open() as log, watching(log) as watcher, on_kafka.serve(**room) as service:
        watcher.wait(1, service)
        assert service.metric("simstream_texts_cut_total") == 1
        assert service.end() == 0
        assert json.loads(watcher.records[0].value)["verdict"] == "new"
