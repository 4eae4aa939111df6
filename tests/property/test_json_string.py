"""JSON strings in UTF-8, and pages with long HTML, against Python's decoder and against the way of short pages."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from simstream.kernels.text.json_string import string_in_utf8
from simstream.model import Page, Record
from simstream.text.extraction.extract import extract_one
from simstream.text.extraction.fast import extract_fast
from simstream.text.extraction.pool import _request
from simstream.utf8_html import Utf8Html
from simstream.wire import page as page_module
from simstream.wire.page import PageLimits, decode
from tests.property.test_page import records
from tests.short import examples

PIECES = [
    "\\",
    "\\u",
    "\\n",
    '\\"',
    "\\/",
    "\\x",
    "\\ud83d",
    "\\uDE00",
    "\\u00e9",
    "\\u0000",
    "\\uFFFF",
    "d8",
    "0",
    "fG",
]
PIECES += [
    "a" * 63,
    "a" * 64,
    "文",
    "é",
    "😀",
    "\x1f",
    "\x7f",
    "\t",
    " ",
    "<p class=x>",
    "\\u12",
    "\\uD800\\uD800\\uDC00",
]
strings = st.lists(st.sampled_from(PIECES), max_size=30).map(lambda pieces: f'"{"".join(pieces)}"')
LIMITS, BY_KERNELS = PageLimits(), PageLimits(html_by_kernels=True)
STORY = "<html><body><article><p>" + "The night train stops at the mill village again. 夜车又停在村里了。" * 90


def expected(string: str) -> bytes | None:
    """What Python says."""
    try:
        found = json.loads(string)
        return found.encode() if isinstance(found, str) else None
    except ValueError:  # UnicodeEncodeError, too: a lone surrogate
        return None


@settings(max_examples=examples(1000))
@given(strings)
@example('"\\"')
@example('"\\\\""')
@example('"\\u1"')
@example('"\\ud83d\\u"')
@example('"\\ud83d\\ude"')
def test_a_string_is_what_python_reads_or_is_left_to_it(string: str) -> None:
    assert string_in_utf8(string.encode()) == expected(string)


@settings(max_examples=examples(300))
@given(st.text(max_size=300), st.booleans())
def test_every_text_comes_back(text: str, ascii_only: bool) -> None:
    string = json.dumps(text, ensure_ascii=ascii_only)
    if not ascii_only:
        string = string.encode(errors="ignore").decode()
    assert string_in_utf8(memoryview(string.encode())) == expected(string)


@pytest.mark.parametrize("length", range(130))
def test_an_escape_may_stand_at_every_place(length: int) -> None:
    for after in ("", "b" * 70):
        text = "a" * length + "\n" + after
        assert string_in_utf8(json.dumps(text).encode()) == text.encode()


@pytest.mark.parametrize("string", [b"", b'"', b"ab", b"null", b'a"', b'"a', b"5"])
def test_what_has_no_quotes_is_no_string(string: bytes) -> None:
    assert string_in_utf8(string) is None


def both(record: Record, monkeypatch: pytest.MonkeyPatch) -> tuple[Page, Page]:
    """The page as a short one, and as a long one."""
    monkeypatch.setattr(page_module, "_LONG_BYTES", 0)
    monkeypatch.setattr(page_module, "_HEAD_BYTES", 1 << 30)
    return decode(record, LIMITS), decode(record, BY_KERNELS)


def check(record: Record, monkeypatch: pytest.MonkeyPatch) -> Page:
    """Both ways say the same of the page; return it as a long one."""
    short, long = both(record, monkeypatch)
    given = long.raw.decode() if isinstance(long.raw, Utf8Html) else long.raw
    assert Page(**{**fields(long), "raw": given}) == short
    return long


def fields(page: Page) -> dict[str, object]:
    return {name: getattr(page, name) for name in page.__struct_fields__}


@settings(max_examples=examples(1000), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records)
def test_a_long_page_is_read_as_a_short_one(monkeypatch: pytest.MonkeyPatch, record: Record) -> None:
    check(record, monkeypatch)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    strings, st.sampled_from(['"id": 5, ', '"text": "a", ', '"html": null, ', '"status": 404, ', '"other": {', ""])
)
def test_html_of_any_string_is_read_as_that_of_a_short_page(
    monkeypatch: pytest.MonkeyPatch, string: str, before: str
) -> None:
    check(Record("p", 0, 0, b"a", f'{{"title": "é", {before}"html": {string}}}'.encode()), monkeypatch)


@pytest.mark.parametrize(
    "value",
    [
        b'{"html": 5}',
        b'{"html": ["a"]}',
        b'{"html": {"a": "b"}}',
        b'{"html": null}',
        b'{"html": "a", "html": "b"}',
        b'{"html": "a", "html": null}',
        b'{"html": "a"} ',
        b'{"html": "a"}x',
        b'{"html" : \t"a"\n}',
        b'{"html": "\xff"}',
        b'{"html": "a", "other": "\xff"}',
        b'{"html": "\xed\xa0\x80"}',
        b'{"html": "\\ud800"}',
        b'{"html": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"other": ' + b"[" * 5000 + b"]" * 5000 + b', "html": "a"}',
        b'["html"]',
        b'"html"',
        b"\xef\xbb\xbf{}",
    ],
)
def test_html_of_a_wrong_form_is_refused_in_the_same_words(monkeypatch: pytest.MonkeyPatch, value: bytes) -> None:
    for one in (value, value.replace(b"{", '{"title": "é", '.encode(), 1)):
        check(Record("p", 0, 0, b"a", one), monkeypatch)


@pytest.mark.parametrize(
    "html",
    [
        STORY,
        "\ufeff" + STORY,
        "<meta charset=gbk>" + STORY,
        "%PDF-1.4 " + STORY,
        "\x00" + STORY,
        STORY + "\ufffd\uffff\U0001f600",
        "",
        "\r\n",
    ],
)
def test_every_extraction_finds_the_same_in_long_html(monkeypatch: pytest.MonkeyPatch, html: str) -> None:
    value = json.dumps({"title": "é", "html": html}, ensure_ascii=False).encode()
    long = check(Record("p", 0, 0, b"a", value), monkeypatch)
    assert isinstance(long.raw, Utf8Html)
    for extract in (extract_fast, extract_one, _request):
        assert extract(long.raw, long.content_type) == extract(html, long.content_type)


@pytest.mark.parametrize(
    ("html", "kind"), [("é" * 8000, str), ("é" * 8200, Utf8Html), ("e" * 20_000, str), ("", str)]
)
def test_only_long_values_beyond_ascii_take_this_way(html: str, kind: type) -> None:
    record = Record("p", 0, 0, b"a", json.dumps({"html": html}, ensure_ascii=False).encode())
    assert type(decode(record, BY_KERNELS).raw) is kind
    assert type(decode(record, LIMITS).raw) is str
    beside = json.dumps({"html": html, "text": "é"}, ensure_ascii=False).encode()
    assert decode(Record("p", 0, 0, b"a", beside), BY_KERNELS).text == "é"


def test_programs_that_read_pages_load_no_numba_unless_they_ask_for_kernels() -> None:
    code = (
        "import sys; from simstream.client import Client; from simstream.model import Record;"
        "from simstream.wire.page import PageLimits, decode;"
        "value = '{\"html\": \"%s\"}' % ('é' * 9000);"
        "assert decode(Record('p', 0, 0, b'a', value.encode()), PageLimits()).raw;"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
