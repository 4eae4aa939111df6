"""Paths of fields: what they find, which id counts, what is refused, and what hostile JSON costs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from simstream.cli.main import invoke
from simstream.client import Client
from simstream.errors import SettingsError
from simstream.model import Page, PageKind, Record
from simstream.wire import field_paths
from simstream.wire.field_paths import MAX_ITEMS, MAX_STEPS, parse_paths
from simstream.wire.page import PageLimits, decode
from tests.cpu_time import least_seconds

Headers = tuple[tuple[str, bytes], ...]


def read(
    value: bytes | None, paths: dict[str, str | None], key: bytes | None = b"k", headers: Headers = ()
) -> Page:
    return decode(Record("their.topic", 3, 7, key, value, headers, 5), PageLimits(10 << 20, parse_paths(paths)))


def page_of(content: object, *, key: bytes | None = b"k", headers: Headers = (), **paths: str) -> Page:
    return read(json.dumps(content).encode(), dict(paths), key, headers)


@pytest.mark.parametrize(
    ("content", "path", "expected"),
    [
        ({"body": {"content": "a"}}, "body.content", "a"),
        ({"body": {"content": ["a", "b"]}}, "body.content", "a\nb"),
        ({"body": [{"content": "a"}, {"other": 1}, {"content": ["b", None, ["c"]]}]}, "body.content", "a\nb\nc"),
        ({"body": ["x", {"content": "a"}]}, "body.content", "a"),
        ({"body": [[[{"content": "a"}]]]}, "body.content", "a"),
        ({"body": {"content": ""}}, "body.content", ""),
    ],
)
def test_text_is_found_and_strings_of_arrays_are_lines(content: object, path: str, expected: str) -> None:
    page = page_of(content, text=path)
    assert (page.kind, page.text) == (PageKind.READABLE, expected)


@pytest.mark.parametrize(
    "content",
    [{}, {"body": None}, {"body": "x"}, {"body": []}, {"body": {"content": [None, []]}}, {"body.content": "x"}],
)
def test_a_page_without_text_names_the_path(content: object) -> None:
    page = page_of(content, text="body.content")
    assert (page.kind, page.reason, page.detail) == (PageKind.UNREADABLE, "no_text", "no text at body.content")


def test_both_paths_are_named_if_there_is_neither_text_nor_html() -> None:
    assert page_of({}, text="a", html="b.c").detail == "no text at a and no html at b.c"


@pytest.mark.parametrize(("content", "kind"), [(7, "int"), ({"a": 1}, "dict"), (["a", 7], "int"), ([{}], "dict")])
def test_a_value_of_a_wrong_type_names_the_path(content: object, kind: str) -> None:
    page = page_of({"body": content}, text="body")
    assert (page.reason, page.detail) == ("wrong_type", f"`text` at body is of the wrong type ({kind})")


def test_an_array_is_no_url() -> None:
    assert page_of({"text": "x", "links": ["u"]}, url="links").reason == "wrong_type"


def test_a_field_without_a_path_has_its_own_name_and_is_absent_if_its_type_is_wrong() -> None:
    page = page_of({"t": "x", "url": "u", "status": "published", "title": {"de": "T"}}, text="t")
    assert (page.kind, page.text, page.url) == (PageKind.READABLE, "x", "u")


def test_html_without_a_path_is_ignored_if_text_has_one() -> None:
    assert page_of({"html": "<p>x"}, text="body").reason == "no_text"
    page = page_of({"text": "a summary", "raw": "<p>x"}, html="raw")
    assert (page.text, page.raw, page.content_type) == (None, "<p>x", "text/html")


def test_time_and_status_have_paths() -> None:
    page = page_of({"text": "x", "meta": {"at": 12, "code": 404}}, time="meta.at", status="meta.code")
    assert (page.kind, page.time) == (PageKind.TOO_SHORT, 12)


def test_an_id_with_a_path_counts_before_the_key() -> None:
    page = page_of({"meta": {"id": 5}, "text": "x"}, id="meta.id")
    assert (page.id, page.key_differs) == ("5", False)
    assert page_of({"id": "own", "text": "x"}, id="id").id == "own"


def test_a_page_without_the_named_id_has_its_key() -> None:
    assert page_of({"text": "x"}, id="meta.id").id == "k"
    assert page_of({"text": "x"}, id="header:doc-id", headers=(("doc-id", b""),)).id == "k"
    assert page_of({"text": "x"}, key=None, id="meta.id").id == "their.topic/3/7"


def test_a_header_names_the_page_also_if_it_is_html_or_withdrawn() -> None:
    headers = (("Doc-Id", b"d"),)
    assert page_of({"text": "x"}, id="header:doc-id", headers=headers).id == "d"
    assert read(None, {"id": "header:doc-id"}, b"k", headers).id == "d"
    assert read(b"<p>", {"id": "header:doc-id"}, b"k", (*headers, ("content-type", b"text/html"))).id == "d"


def test_without_a_path_the_id_is_the_key() -> None:
    assert page_of({"id": "other", "t": "x"}, text="t").id == "k"


@pytest.mark.parametrize(
    "value", [b"{", b"[]", b'{"a":NaN}', b'{"a":"\xff"}', b'{"a":' + b"[" * 100_000, b'{"a":' * 100_000]
)
def test_broken_json_is_unreadable_with_paths_too(value: bytes) -> None:
    assert read(value, {"text": "a.b"}).reason == "bad_json"


def test_what_only_the_slow_decoder_takes_is_read() -> None:
    assert read(b'\xef\xbb\xbf{"a":{"b":"x\\ud800"}}', {"text": "a.b"}).text == "x\ud800"


def test_the_last_of_two_equal_names_counts() -> None:
    assert read(b'{"a":{"b":"x"},"a":{"b":"y","b":"z"}}', {"text": "a.b"}).text == "z"


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ({"text": ""}, "fields.text is '': write names with one dot"),
        ({"text": "body..content"}, r"fields.text is 'body..content': write names with one dot"),
        ({"text": "$.body"}, "fields.text is '$.body': leave out $., and begin"),
        ({"url": ".url"}, "fields.url is '.url': write names with one dot"),
        ({"url": "header:url"}, "only fields.id can be a header"),
        ({"id": "header: "}, "name the header, such as header:doc-id"),
        ({"text": ".".join("a" * (MAX_STEPS + 1))}, "write at most 16 names"),
        ({"text": "body", "html": "body"}, "fields.text and fields.html are both 'body': keep fields.html if"),
    ],
)
def test_a_malformed_path_is_refused_with_advice(paths: dict[str, str | None], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_paths(paths)
    assert said in str(caught.value)


def test_no_path_at_all_is_the_usual_form() -> None:
    assert parse_paths({"text": None, "id": None}) is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SIMSTREAM_FIELDS_TEXT", "body.content", "whose pages have the fields of [fields]"),
        ("SIMSTREAM_PAGES_FORMAT", "avro", "whose pages_format is avro"),
    ],
)
def test_feed_and_clients_refuse_to_send_pages_that_the_topic_does_not_take(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    Path("pages.jsonl").write_text('{"text":"a"}\n')
    assert invoke(["feed", "pages.jsonl", "--log", "log"]) == 2
    assert f"feed cannot send to a topic {said}: send pages with your own producer" in capsys.readouterr().err
    with pytest.raises(SettingsError, match=re.escape(f"a client cannot send to a topic {said}")):
        Client("log")


def test_the_news_page_refuses_pages_that_are_not_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIMSTREAM_PAGES_FORMAT", "avro")
    assert invoke(["news", "--log", "log"]) == 2
    assert "the news page reads pages in JSON, and pages_format is avro" in capsys.readouterr().err


SIZE = 512 << 10
HOSTILE = {
    "arrays": b'{"a":[' + b"[]," * (SIZE // 3) + b"[]]}",
    "objects": b'{"a":[' + b"{}," * (SIZE // 3) + b"{}]}",
    "strings": b'{"a":[' + b'{"a":"x"},' * (SIZE // 10) + b'{"a":"x"}]}',
    "nested": b'{"a":' + (b"[" * 400 + b"]" * 400 + b",").join([b"[", *[b""] * (SIZE // 801), b"1]"]) + b"}",
    "twice": b'{"a":' + b'[1],"a":' * (SIZE // 8) + b"1}",
    "names": b"{" + b",".join(b'"%d":1' % n for n in range(SIZE // 10)) + b"}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_costs_at_most_a_constant_times_the_standard_decoder(name: str) -> None:
    deep = {"text": ".".join("a" * MAX_STEPS), "title": ".".join("a" * (MAX_STEPS - 1))}
    plain = least_seconds(lambda: json.loads(HOSTILE[name]))
    assert least_seconds(lambda: read(HOSTILE[name], deep)) < 20 * plain + 0.1


def test_an_array_with_too_many_items_is_of_a_wrong_type() -> None:
    paths = parse_paths({"text": "a.b"})
    assert paths is not None
    many = [{"b": "x"}] * MAX_ITEMS
    assert paths.find_fields({"a": many})["text"] == "\n".join(["x"] * MAX_ITEMS)
    assert paths.find_fields({"a": [*many, {}]})["text"] == [*many, {}]
    assert paths.find_fields({"a": [[]] * (MAX_ITEMS + 1)})["text"] == [[]] * (MAX_ITEMS + 1)


def test_an_array_with_too_many_characters_is_of_a_wrong_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_paths, "MAX_JOINED", 100)
    paths = parse_paths({"text": "a"})
    assert paths is not None
    assert paths.find_fields({"a": ["x" * 50] * 2})["text"] == "x" * 50 + "\n" + "x" * 50
    assert paths.find_fields({"a": ["x" * 50] * 3})["text"] == ["x" * 50] * 3


def test_an_array_is_joined_to_few_bytes_for_each_byte_of_its_value() -> None:
    """As symbols of a schema of Avro that a value names by a byte each."""

    def kind(items: int, symbol: str) -> PageKind:
        value = b"\0" * items
        limits = PageLimits(paths=parse_paths({"text": "a"}), read=lambda data: {"a": [symbol] * len(data)})
        return decode(Record("t", 0, 0, b"k", value, (), 5), limits).kind

    assert kind(64, "s" * 1_000) is PageKind.READABLE
    assert kind(40_000, "s" * 8) is PageKind.READABLE
    assert kind(40_000, "é" * 2) is PageKind.READABLE
    assert kind(4_000, "s" * 1_000) is PageKind.UNREADABLE
    assert kind(40_000, "s" * 9) is PageKind.UNREADABLE
    assert kind(40_000, "é" * 3) is PageKind.UNREADABLE
