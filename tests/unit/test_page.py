"""What a record of `pages` becomes: ids, kinds, reasons, times."""

from __future__ import annotations

import json
from functools import partial
from hashlib import blake2b

import pytest

from simstream.model import REASONS, Page, PageKind, Record
from simstream.wire.field_paths import parse_paths
from simstream.wire.json_tree import MAX_VALUES
from simstream.wire.page import PageLimits, decode, own_name, time_ms
from tests.cpu_time import least_seconds

LIMITS = PageLimits(max_record_bytes=1 << 20)
STAMP = 1_700_000_000_000


def record(
    value: bytes | None, key: bytes | None = None, headers: tuple[tuple[str, bytes], ...] = (), offset: int = 7
) -> Record:
    return Record("s.pages", 3, offset, key, value, headers, STAMP)


def page_of(content: object, key: bytes | None = None) -> Page:
    return decode(record(json.dumps(content).encode(), key), LIMITS)


def html_of(value: bytes, *headers: tuple[str, bytes], key: bytes | None = b"k") -> Page:
    return decode(record(value, key, (("content-type", b"text/html"), *headers)), LIMITS)


def test_the_key_comes_before_the_id_and_the_difference_is_told() -> None:
    page = page_of({"id": "other", "url": "u", "text": "x"}, key=b"key")
    assert (page.id, page.url, page.key_differs) == ("key", "u", True)


def test_a_key_that_equals_the_id_does_not_differ() -> None:
    assert not page_of({"id": "a", "text": "x"}, key=b"a").key_differs


@pytest.mark.parametrize(
    ("content", "key", "expected"),
    [
        ({"id": "i", "url": "u", "text": ""}, None, "i"),
        ({"id": "i", "url": "u", "text": ""}, b"", "i"),
        ({"id": "", "url": "u", "text": ""}, None, "u"),
        ({"id": None, "url": "", "text": ""}, None, "s.pages/3/7"),
        ({"id": " i\n", "text": ""}, None, " i\n"),
    ],
)
def test_the_id_is_the_first_that_is_not_empty_byte_for_byte(content: object, key: bytes, expected: str) -> None:
    page = page_of(content, key)
    assert page.id == expected
    assert page.identity == blake2b(expected.encode(), digest_size=16).digest()


def test_an_empty_url_counts_as_missing() -> None:
    assert page_of({"id": "i", "url": "", "text": "x"}).url is None


def test_a_page_knows_where_it_came_from() -> None:
    page = page_of({"text": "x"})
    assert (page.partition, page.offset) == (3, 7)


def test_text_counts_where_html_is_there_too() -> None:
    page = page_of({"text": "", "html": "<p>x"})
    assert (page.kind, page.text, page.raw) == (PageKind.READABLE, "", None)


def test_html_from_json_stays_text_for_the_extraction() -> None:
    page = page_of({"html": "<p>x"})
    assert (page.kind, page.text, page.raw, page.content_type) == (PageKind.READABLE, None, "<p>x", "text/html")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "empty_value"),
        (b"{", "bad_json"),
        (b"[]", "bad_json"),
        (b"3", "bad_json"),
        (b"  ", "bad_json"),
        (b'{"text":"a"} {}', "bad_json"),
        (b'{"text":"\xff"}', "bad_json"),
        (b'{"text":"a","other":"\xff"}', "bad_json"),
        (b'{"text":"a","other":NaN}', "bad_json"),
        (b'{"text":"a","other":' + b"[" * 100_000, "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b'{"text":"\\ud800","other":' + b"[" * 100_000, "bad_json"),
        (b"{}", "no_text"),
        (b'{"text":null}', "no_text"),
        (b'{"text":["a"]}', "wrong_type"),
        (b'{"text":"a","title":5}', "wrong_type"),
        (b'{"text":"a","id":5.0}', "wrong_type"),
        (b'{"text":"a","status":200.5}', "wrong_type"),
        (b'{"text":"a","id":true}', "wrong_type"),
        (b'{"text":"a","id":' + b"9" * 5000 + b"}", "wrong_type"),
        (b'{"text":"a","time":true}', "wrong_type"),
        (b'{"text":"a","status":"OK"}', "wrong_type"),
        (b'{"text":"a","status":"\\u001c200"}', "wrong_type"),
        ('{"text":"a","status":"\u3000200"}'.encode(), "wrong_type"),
        (b'{"text":"a","status":' + b"9" * 5000 + b"}", "wrong_type"),
    ],
)
def test_a_broken_value_is_unreadable_for_a_named_reason(value: bytes, reason: str) -> None:
    page = decode(record(value, b"k"), LIMITS)
    assert (page.kind, page.reason, page.id) == (PageKind.UNREADABLE, reason, "k")
    assert page.detail
    assert page.text is page.raw is None
    assert reason in REASONS


@pytest.mark.parametrize("paths", [None, {"text": "body"}])
def test_a_value_of_a_registrys_serializer_asks_for_the_format(paths: dict[str, str | None] | None) -> None:
    limits = PageLimits(paths=parse_paths(paths) if paths else None)
    page = decode(record(b"\0\0\0\0\1\x12some \xff avro", b"k"), limits)
    assert page.reason == "bad_json"
    assert page.detail.endswith("it begins as a schema registry's values do: is pages_format missing?")
    assert "pages_format" not in decode(record(b"{", b"k"), limits).detail


def test_status_and_time_may_be_written_with_a_point() -> None:
    page = decode(record(b'{"id":5,"text":"a","status":200.0,"time":12.0}', None), LIMITS)
    assert (page.kind, page.id, page.time) == (PageKind.READABLE, "5", 12)
    assert decode(record(b'{"id":5,"text":"a","status":404.0}', None), LIMITS).kind is PageKind.TOO_SHORT


def test_a_page_of_a_wrong_type_keeps_its_id_url_and_time() -> None:
    page = page_of({"id": "i", "url": "u", "text": 5, "time": 12})
    assert (page.reason, page.id, page.url, page.time) == ("wrong_type", "i", "u", 12)


@pytest.mark.parametrize("digits", [b"0", b"7", b"-3", b"18446744073709551616", b"9" * 1000])
@pytest.mark.parametrize("rest", [b'"text":"x"', b'"text":"\\ud800"'])
def test_a_whole_number_is_an_id_in_decimal(digits: bytes, rest: bytes) -> None:
    value = b'{"id":%s,"url":"u",%s}' % (digits, rest)
    page = decode(record(value), LIMITS)
    assert (page.kind, page.id) == (PageKind.READABLE, digits.decode())
    assert own_name(value) == digits


def test_a_byte_order_mark_before_the_json_is_no_fault() -> None:
    assert decode(record(b'\xef\xbb\xbf{"text":"a"}'), LIMITS).text == "a"


def test_lone_surrogates_in_the_text_pass_on() -> None:
    assert decode(record(b'{"id":"i","text":"a\\ud800b"}'), LIMITS).text == "a\ud800b"


def test_a_lone_surrogate_in_the_id_makes_a_bad_id() -> None:
    page = decode(record(b'{"id":"i\\udc00","text":"a"}'), LIMITS)
    assert (page.kind, page.reason) == (PageKind.UNREADABLE, "bad_id")
    page.id.encode()


def test_a_record_over_the_limit_is_not_looked_at() -> None:
    page = decode(record(b'{"id":"i","text":"' + b"x" * 5_000 + b'"}', b"k"), PageLimits(4_096))
    assert (page.kind, page.reason, page.id) == (PageKind.UNREADABLE, "too_large", "k")


def test_a_record_of_just_the_limit_is_read() -> None:
    value = b'{"text":"a"}'
    assert decode(record(value), PageLimits(len(value))).kind is PageKind.READABLE


def test_a_null_value_withdraws_the_page() -> None:
    page = decode(record(None, b"k"), LIMITS)
    assert (page.kind, page.id, page.reason, page.time) == (PageKind.WITHDRAWN, "k", "", STAMP)


def test_null_key_and_null_value_withdraw_the_position() -> None:
    assert decode(record(None), LIMITS).id == "s.pages/3/7"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, PageKind.TOO_SHORT),
        ("410", PageKind.TOO_SHORT),
        (410, PageKind.TOO_SHORT),
        (500, PageKind.FAILED),
        (301, PageKind.FAILED),
        ("301", PageKind.FAILED),
    ],
)
def test_an_error_page_is_too_short_even_without_text(status: int | str, kind: PageKind) -> None:
    page = page_of({"id": "i", "status": status})
    assert (page.kind, page.reason, page.text) == (kind, "http_status", None)


@pytest.mark.parametrize("status", [200, 204, 299, None, "200", " 204 ", ""])
def test_a_page_of_a_good_status_is_read(status: int | str | None) -> None:
    assert page_of({"text": "a", "status": status}).kind is PageKind.READABLE


def test_an_id_of_2048_bytes_is_good_and_one_more_is_bad() -> None:
    assert decode(record(b'{"text":"a"}', b"x" * 2048), LIMITS).kind is PageKind.READABLE
    raw = "字".encode() * 683
    page = decode(record(b'{"text":"a"}', raw), LIMITS)
    assert (page.kind, page.reason) == (PageKind.UNREADABLE, "bad_id")
    assert page.id == "字" * 341 + "~" + blake2b(raw, digest_size=16).hexdigest()
    assert page.identity == blake2b(raw, digest_size=16).digest()


def test_an_id_that_is_not_utf8_is_shown_with_replacement_characters() -> None:
    raw = b"a\xffb\xe4"
    assert decode(record(b'{"text":"a"}', raw), LIMITS).id == "a�b�~" + blake2b(raw, digest_size=16).hexdigest()


def test_a_withdrawal_with_a_bad_id_is_unreadable() -> None:
    assert decode(record(None, b"\xff"), LIMITS).reason == "bad_id"


def test_a_long_url_is_told_and_left_out() -> None:
    page = page_of({"id": "i", "url": "u" * 8193, "text": "a"})
    assert (page.kind, page.reason, page.url, page.id) == (PageKind.UNREADABLE, "long_url", None, "i")
    assert page_of({"id": "i", "url": "u" * 8192, "text": "a"}).kind is PageKind.READABLE


@pytest.mark.parametrize(("length", "reason"), [(8193, "long_url"), (8192, "bad_id")])
def test_a_long_url_is_told_of_a_page_without_another_name_too(length: int, reason: str) -> None:
    assert page_of({"url": "u" * length, "text": "a"}).reason == reason


def test_a_url_too_long_for_an_id_stays_as_url() -> None:
    page = page_of({"url": "u" * 3000, "text": "a"})
    assert (page.reason, page.url) == ("bad_id", "u" * 3000)
    assert page.id.startswith("u" * 1024 + "~")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (1_795_000_000_000, 1_795_000_000_000),
        (1_795_000_000_000.7, 1_795_000_000_000),
        ("2026-03-02T06:00:00Z", 1_772_431_200_000),
        ("2026-03-02T06:00:00", 1_772_431_200_000),
        ("2026-03-02 14:00:00.250+08:00", 1_772_431_200_250),
        ("20260302T060000Z", 1_772_431_200_000),
        ("2026-03-02", 1_772_409_600_000),
        (" 1795000000000\n", 1_795_000_000_000),
        ("1711111111111", 1_711_111_111_111),
        ("20260302", 1_772_409_600_000),
        ("2026", None),
        ("1795000000", None),
        ("20260302060000", None),
        ("١795000000000", None),
        (0, 0),
        (-1, None),
        (10**30, None),
        (float("inf"), None),
        ("0001-01-01T00:00:00+23:59", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_time_is_iso_8601_or_milliseconds_or_absent(time: object, expected: int | None) -> None:
    assert time_ms(time) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("time", [b"1e999", b"9" * 5000, b'"soon"', b"-5", b"null"])
def test_a_time_that_cannot_be_read_gives_way_to_the_records(time: bytes) -> None:
    page = decode(record(b'{"text":"a","time":' + time + b"}"), LIMITS)
    assert (page.kind, page.time) == (PageKind.READABLE, STAMP)


def test_raw_html_keeps_its_bytes_and_charset() -> None:
    head = (("Content-Type", b"Text/HTML; charset=GBK"), ("url", b"https://a.example/"))
    page = decode(record(b"<p>\xd6\xd0", None, head), LIMITS)
    assert (page.id, page.url, page.raw) == ("https://a.example/", "https://a.example/", b"<p>\xd6\xd0")
    assert page.content_type == "Text/HTML; charset=GBK"


def test_raw_pages_may_bring_time_and_status_in_headers() -> None:
    page = html_of(b"<p>x", ("time", b"2026-03-02"), ("status", b"410"))
    assert (page.kind, page.time) == (PageKind.TOO_SHORT, 1_772_409_600_000)
    assert html_of(b"<p>x", ("time", b"1772409600000")).time == 1_772_409_600_000


@pytest.mark.parametrize(
    "status", [200, 204, 404, -1, "200", " 204 ", "", "\t404\n", "OK", "200 OK", "2e2", "\x0b200"]
)
def test_a_status_in_a_header_counts_as_in_json(status: int | str) -> None:
    raw, json = html_of(b"<p>x", ("status", str(status).encode())), page_of({"html": "<p>x", "status": status})
    assert (raw.kind, raw.reason, raw.detail) == (json.kind, json.reason, json.detail)


@pytest.mark.parametrize("media", [b"text/plain", b"image/png"])
@pytest.mark.parametrize(
    ("status", "kind"), [(b"410", PageKind.TOO_SHORT), (b"304", PageKind.FAILED), (b"500", PageKind.FAILED)]
)
def test_an_error_page_may_have_no_body_or_one_of_another_type(media: bytes, status: bytes, kind: PageKind) -> None:
    for value in (b"", b"\x89PNG") if media == b"image/png" else (b"",):
        page = html_of(value, ("content-type", media), ("status", status))
        assert (page.kind, page.reason) == (kind, "http_status")


def test_an_error_page_may_be_longer_than_any_page_that_is_read() -> None:
    head = (("content-type", b"text/html"), ("status", b"410"))
    page = decode(record(b"<p>gone" * 100, b"k", head), PageLimits(100))
    assert (page.kind, page.reason) == (PageKind.TOO_SHORT, "http_status")


def test_very_long_numbers_in_headers_are_read_in_part() -> None:
    digits = b"2" * 5_000  # Python refuses to convert more than 4,300
    page = html_of(b"<p>x", ("status", digits), ("time", digits))
    assert (page.kind, page.reason, page.time) == (PageKind.FAILED, "http_status", html_of(b"<p>x").time)


def test_a_fetched_page_of_just_the_limit_is_read() -> None:
    for size, reason in ((10, ""), (11, "too_large")):
        page = decode(record(b"x" * size, b"k", (("content-type", b"text/html"),)), PageLimits(10))
        assert page.reason == reason


@pytest.mark.parametrize("status", [b"", b"200", b"204"])
def test_an_empty_page_of_a_good_status_is_unreadable(status: bytes) -> None:
    assert html_of(b"", ("status", status)).reason == "empty_value"


def test_a_header_url_that_is_not_utf8_makes_the_page_unreadable() -> None:
    page = html_of(b"<p>x", ("url", b"\xff"))
    assert (page.kind, page.reason, page.url) == (PageKind.UNREADABLE, "long_url", None)


def test_any_other_content_type_is_unreadable() -> None:
    page = decode(record(b"x", b"k", (("content-type", b"image/png"),)), LIMITS)
    assert (page.kind, page.reason) == (PageKind.UNREADABLE, "bad_content_type")


def test_json_with_a_charset_parameter_is_json() -> None:
    head = (("content-type", b"application/JSON; charset=utf-8"),)
    assert decode(record(b'{"text":"a"}', None, head), LIMITS).text == "a"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b'{"id":"i","url":"u"}', b"i"),
        (b'{"id":"","url":"u","text":"\\ud800"}', b"u"),
        (b'{"text":"no name"}', None),
        (b'{"id":5.5,"url":"u"}', b"u"),
        (b'{"id":"i"', None),
        (b'{"id":"i","x":"\xff"}', None),
    ],
)
def test_own_name_is_the_id_that_decode_finds(value: bytes, name: bytes | None) -> None:
    assert own_name(value) == name
    assert decode(record(value), LIMITS).id == (name or b"s.pages/3/7").decode()


@pytest.mark.parametrize("many", [b"[]," * (MAX_VALUES + 1), b'{"a":1},' * (MAX_VALUES // 2 + 1)])
def test_json_of_very_many_values_is_not_decoded_as_a_whole(many: bytes) -> None:
    surrogate = b'{"id":"i\\udc00","text":"a","more":[' + many + b"0]}"
    page = decode(record(surrogate), PageLimits(10 << 20))
    assert (page.reason, page.detail) == ("bad_json", "the JSON has more than 500,000 arrays, objects and fields")
    ordinary = decode(record(surrogate.replace(b"\\udc00", b"")), PageLimits(10 << 20))
    assert (ordinary.id, ordinary.text) == ("i", "a")


def test_a_status_of_a_megabyte_of_spaces_costs_no_more_than_its_size() -> None:
    seconds = []
    for size in (100_000, 800_000):
        made = record(b'{"id":"a","text":"a","status":"' + b" " * size + b'x"}', None)
        assert decode(made, LIMITS).reason == "wrong_type"
        seconds.append(least_seconds(partial(decode, made, LIMITS)))
    assert seconds[1] < 30 * max(seconds[0], 0.001)
