"""What the feed reads of a page's own record: its title, and whether it is gone."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from simstream.feeds.records import PageSheet
from simstream.feeds.titles import sheet_of
from simstream.model import Record
from simstream.text.titles import MAX_CHARACTERS, tidy
from simstream.wire.field_paths import parse_paths
from simstream.wire.page import PageLimits
from tests.cpu_time import least_seconds

LIMITS = PageLimits(1 << 20)
NOW = 1_750_000_000_000


def sheet(value: Any, content_type: str = "", **headers: str) -> PageSheet | None:
    raw = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    pairs = [(name, text.encode()) for name, text in headers.items()]
    pairs += [("content-type", content_type.encode())] if content_type else []
    return sheet_of(Record("pages", 0, 7, b"id", raw, tuple(pairs), NOW), LIMITS)


def title(value: Any, content_type: str = "") -> str:
    found = sheet(value, content_type)
    assert found is not None
    return found.title


def test_the_field_title_comes_first_then_html_then_the_first_line() -> None:
    page = "<html><head><title>In\n HTML &amp; more</title></head><body><p>Text</p></body></html>"
    assert title({"title": "As  a\tfield", "html": page}) == "As a field"
    assert title({"title": " ", "html": page}) == "In HTML & more"
    assert title({"html": "<style>p {}</style><!-- x --><p>No title,</p><p>but text"}) == "No title,"
    assert title({"text": "\n\n 第一行\n第二行"}) == "第一行"
    assert title({"text": ""}) == ""


def test_a_title_is_found_at_its_path() -> None:
    limits = PageLimits(1 << 20, parse_paths({"title": "head.line", "text": "body"}))

    def read(value: str) -> PageSheet | None:
        return sheet_of(Record("crawl", 0, 7, b"id", value.encode(), (), NOW), limits)

    at_path = read('{"head":{"line":["As","lines"]},"title":"no","body":"text"}')
    assert at_path == PageSheet("As lines", NOW, page_id="id")
    assert read('{"title":"no","body":"First line"}') == PageSheet("First line", NOW, page_id="id")


@pytest.mark.parametrize(
    "meta",
    [
        '<meta property="og:title" content="Better">',
        "<META content='Better' property='og:title' />",
        "<meta name=og:title content=Better>",
    ],
)
def test_a_page_as_fetched_is_asked_for_og_title_and_then_for_title(meta: str) -> None:
    page = f"<title>Site | Section</title>{meta}<p>text"
    assert title(page.encode(), "text/html") == "Better"
    assert title(page.replace("og:title", "og:type").encode(), "text/html") == "Site | Section"


@pytest.mark.parametrize(
    ("reference", "shown"),
    [
        (f"&#{'1' * 5000};", "\ufffd"),
        (f"&#{'0' * 5000}65;", "A"),
        (f"&#x{'f' * 9000};", "\ufffd"),
        ("&#99999999;&#0;&#128512;&#x4e2d;", "\ufffd\ufffd😀中"),
    ],
)
def test_a_character_s_number_may_be_of_any_length(reference: str, shown: str) -> None:
    assert title({"html": f"<p>{reference}</p>"}) == shown
    assert title(f"<p>{reference}</p>".encode(), "text/html") == shown


def test_titles_keep_to_the_page_s_character_set() -> None:
    page = "<meta charset=gb2312><title>长江新闻</title><p>正文"
    assert title(page.encode("gb18030"), "text/html") == "长江新闻"
    assert title("纯文本\n第二行".encode("gb18030"), "text/plain; charset=gbk") == "纯文本"


def test_control_characters_and_direction_marks_are_left_out_and_length_is_bounded() -> None:
    assert tidy("a\x00b\u202ec\u2066d\ufffe\x1b[31m") == "abcd[31m"
    assert tidy("x" * 1000) == "x" * (MAX_CHARACTERS - 1) + "…"


def test_joiners_stay_and_a_title_that_cannot_be_seen_is_none() -> None:
    for whole in ("\U0001f468\u200d\U0001f469 family", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"):
        assert tidy(whole) == whole
    for blank in ("\u3164" * 10, "\u200d \u200c", "\u2800\xad", "\u202e"):
        assert tidy(blank) == ""
    assert title({"title": "\u3164\u200d", "text": "the first line"}) == "the first line"


def test_markup_in_a_title_stays_the_text_that_it_is() -> None:
    assert title({"title": "<script>alert(1)</script>", "text": "x"}) == "<script>alert(1)</script>"


def test_error_pages_say_whether_the_page_is_gone() -> None:
    for status, gone in ((404, True), (410, True), (500, False), (301, False)):
        assert sheet({"text": "x", "status": status}) == PageSheet("", NOW, gone, page_id="id")
        assert sheet(b"<p>x", "text/html", status=str(status)) == PageSheet("", NOW, gone, page_id="id")


def test_what_has_no_text_has_no_sheet() -> None:
    for value in (None, b"", b"{", b"[]", {"title": "x"}, {"text": 7}, b"\xff\xfe{"):
        assert sheet(value) is None


def test_a_time_in_the_future_counts_as_the_record_s() -> None:
    assert sheet({"text": "x", "time": NOW + 10**9}) == PageSheet("x", NOW, page_id="id")
    assert sheet({"text": "x", "time": 5}) == PageSheet("x", 5, page_id="id")


@pytest.mark.parametrize("piece", ["<", "<title", "<meta ", "<!--", "<script", "&", "<meta content='", "<a\n"])
def test_hostile_html_costs_no_more_than_its_first_part(piece: str) -> None:
    html = piece * (600_000 // len(piece))
    began = time.thread_time()
    assert sheet({"html": html}) is not None
    assert time.thread_time() - began < 5


def test_a_title_of_any_length_costs_about_as_much_as_its_beginning() -> None:
    long, short = ("a word " * number for number in (1_000_000, 1_000))
    assert least_seconds(lambda: tidy(long), 5) < 20 * least_seconds(lambda: tidy(short), 5)


def test_a_page_without_any_time_is_one_of_now_and_not_of_1970() -> None:
    began = int(time.time() * 1000)
    sheet = sheet_of(Record("pages", 0, 7, b"id", b'{"id": "a", "title": "A", "text": "one"}'), LIMITS)
    assert sheet is not None
    assert sheet.time >= began
    own = sheet_of(Record("pages", 0, 7, b"id", b'{"id": "a", "text": "one", "time": 99000}'), LIMITS)
    assert own is not None
    assert own.time == 99000
