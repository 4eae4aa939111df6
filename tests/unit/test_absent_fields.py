"""A path in `[fields]` at which no page has a value is told once, and no other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from simstream.errors import SettingsError
from simstream.log import Log, open_log
from simstream.log.options import FINGERPRINTS, PAGES
from simstream.model import Record
from simstream.roles.fingerprint.absent_fields import (
    MAX_LOOKED_AT,
    MIN_PAGES,
    SAMPLE_RECORDS,
    AbsentFields,
    refuse_absent_paths,
)
from simstream.wire.field_paths import parse_paths
from simstream.wire.page import PageLimits

PATHS = {"id": "meta.id", "url": "meta.lnik", "text": "body.content", "time": "meta.time"}


def looked_at(paths: dict[str, str | None], *values: object, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
    """Look at a record with each value, one batch each."""
    absent = AbsentFields(PageLimits(paths=parse_paths(paths)))
    for number, value in enumerate(values):
        raw = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        absent.look([Record("their.topic", 0, number, None, raw, headers, 5)])


def test_a_path_without_a_value_is_told_once_and_none_that_a_single_page_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = {"meta": {"id": 7, "link": "https://a.example/"}, "body": {}}
    timed = {"meta": {"id": 7.5, "time": "of another type"}}
    looked_at(PATHS, timed, *[page] * (MAX_LOOKED_AT - 2))
    assert not caplog.messages
    looked_at(PATHS, timed, *[page] * (3 * MAX_LOOKED_AT))
    assert caplog.messages == [
        "none of the first 50 pages has a value of the right type for fields.url at meta.lnik: is the path right?"
    ]


def test_records_that_are_not_read_by_paths_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    looked_at(PATHS, *[None, b"", b"{", b"\xff", [1]] * MAX_LOOKED_AT)
    looked_at(PATHS, *[b"<p>raw"] * (2 * MAX_LOOKED_AT), headers=(("content-type", b"text/html"),))
    looked_at({}, *[{}] * (2 * MAX_LOOKED_AT))
    assert not caplog.messages


@pytest.mark.parametrize(("name", "told"), [("Doc-Id", 0), ("docid", 1)])
def test_an_id_in_a_header_is_looked_for_there(name: str, told: int, caplog: pytest.LogCaptureFixture) -> None:
    paths: dict[str, str | None] = {"id": "header:doc-id"}
    looked_at(paths, *[{"id": "own", "text": "t"}] * MAX_LOOKED_AT, headers=((name, b"17"),))
    assert len(caplog.messages) == told


def topic_of(folder: Path, *values: object) -> Log:
    log = open_log(str(folder))
    log.create_topics()
    with log.open_appender(PAGES) as appender:
        for value in values:
            appender.append(json.dumps(value).encode(), b"k")
    return log


def admit(records: Sequence[Record]) -> Sequence[Record]:
    return records


def refusal(folder: Path, paths: dict[str, str | None], page: object) -> SettingsError:
    """Return the error of a first start over just enough pages of one kind."""
    with topic_of(folder, *[page] * MIN_PAGES) as log, pytest.raises(SettingsError) as caught:
        refuse_absent_paths(log, PageLimits(paths=parse_paths(paths)), admit)
    return caught.value


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (
            {"text": "a.b"},
            "none of 20 pages of simstream.pages has a value of the right type for fields.text at a.b",
        ),
        ({"html": "a.b"}, "for fields.html at a.b"),
        ({"text": "x", "html": "y"}, "for fields.text at x or fields.html at y"),
        ({"id": "meta.id"}, "for fields.id at meta.id"),
        ({"url": "meta.link"}, "for fields.url at meta.link"),
        ({"text": "text", "time": "meta.time"}, "for fields.time at meta.time"),
        ({"text": "meta"}, "has a value of the right type for fields.text at meta"),
        ({"status": "text"}, "has a value of the right type for fields.status at text"),
        ({"html": "meta"}, "has a value of the right type for fields.html at meta"),
    ],
)
def test_a_first_start_is_refused_where_no_page_has_a_value_at_a_path(
    paths: dict[str, str | None], told: str, tmp_path: Path
) -> None:
    assert told in refusal(tmp_path, paths, {"text": "t", "meta": {"a": 1}}).what


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ({"text": "text", "html": "meta"}, "fields.html at meta"),
        ({"text": "text", "html": "raww"}, "fields.html at raww"),
        ({"text": "meta.text", "html": "text"}, "fields.text at meta.text"),
    ],
)
def test_one_of_text_and_html_is_not_enough_if_both_have_paths(
    paths: dict[str, str | None], told: str, tmp_path: Path
) -> None:
    error = refusal(tmp_path, paths, {"text": "t", "meta": {"a": 1}})
    assert error.what.endswith(f"has a value of the right type for {told}")


@pytest.mark.parametrize(
    ("paths", "page"), [({"status": "meta.s"}, {"meta": {"s": 404}}), ({"url": "u"}, {"u": "x", "status": 500})]
)
def test_error_pages_need_no_text(paths: dict[str, str | None], page: object, tmp_path: Path) -> None:
    with topic_of(tmp_path, *[page] * (2 * MIN_PAGES)) as log:
        refuse_absent_paths(log, PageLimits(paths=parse_paths(paths)), admit)


@pytest.mark.parametrize("header", [("content-type", b"application/xml"), ("damaged", b"by a proxy")])
def test_records_that_are_never_read_do_not_count(header: tuple[str, bytes], tmp_path: Path) -> None:
    with topic_of(tmp_path) as log:
        with log.open_appender(PAGES) as appender:
            for _ in range(2 * MIN_PAGES):
                appender.append(b'{"body": 1}', b"k", headers=[header])
        refuse_absent_paths(log, PageLimits(paths=parse_paths({"text": "body"})), admit)


@pytest.mark.parametrize(("name", "may_go"), [("text", False), ("id", False), ("title", True), ("time", True)])
def test_a_path_that_pages_need_not_have_may_be_left_out(name: str, may_go: bool, tmp_path: Path) -> None:
    paths: dict[str, str | None] = {"text": "text"} | {name: "a.b"}
    assert refusal(tmp_path, paths, {"text": "t"}).todo.endswith("leave it out") == may_go


def test_a_first_start_is_refused_where_pages_have_no_text_under_its_own_name(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"id": "key"}, {"key": "k", "body": "t"})
    assert error.what == f"none of {MIN_PAGES} pages of simstream.pages has a `text` or `html`"


def test_a_start_is_not_refused_if_one_page_has_it_or_pages_are_few_or_were_read(tmp_path: Path) -> None:
    limits = PageLimits(paths=parse_paths({"text": "a.b"}))
    some, last = [{"text": "t"}] * (MIN_PAGES - 1), {"a": {"b": "text"}}
    for name, values in {
        "few": some,
        "one of them": [*some, last],
        "the last of many": [*[{"text": "t"}] * (5 * SAMPLE_RECORDS), last],
    }.items():
        with topic_of(tmp_path / name, *values) as log:
            refuse_absent_paths(log, limits, admit)
    with topic_of(tmp_path / "read", *[{"text": "t"}] * (2 * MIN_PAGES)) as log:
        with log.open_appender(FINGERPRINTS) as appender:
            appender.append(b"a frame")
        refuse_absent_paths(log, limits, admit)
