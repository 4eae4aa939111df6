"""A path in `[fields]` at which no page has a value is told once, and no other."""

from __future__ import annotations

import json

import pytest

from simstream.model import Record
from simstream.roles.fingerprint.absent_fields import LOOKED_AT, AbsentFields
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
    looked_at(PATHS, timed, *[page] * (LOOKED_AT - 2))
    assert not caplog.messages
    looked_at(PATHS, timed, *[page] * (3 * LOOKED_AT))
    assert caplog.messages == [
        "none of the first 50 pages has a value for fields.url at meta.lnik: is the path right?"
    ]


def test_records_that_are_not_read_by_paths_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    looked_at(PATHS, *[None, b"", b"{", b"\xff", [1]] * LOOKED_AT)
    looked_at(PATHS, *[b"<p>raw"] * (2 * LOOKED_AT), headers=(("content-type", b"text/html"),))
    looked_at({}, *[{}] * (2 * LOOKED_AT))
    assert not caplog.messages


@pytest.mark.parametrize(("name", "told"), [("Doc-Id", 0), ("docid", 1)])
def test_an_id_in_a_header_is_looked_for_there(name: str, told: int, caplog: pytest.LogCaptureFixture) -> None:
    paths: dict[str, str | None] = {"id": "header:doc-id"}
    looked_at(paths, *[{"id": "own", "text": "t"}] * LOOKED_AT, headers=((name, b"17"),))
    assert len(caplog.messages) == told
