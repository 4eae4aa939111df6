"""The questions that the news page's web takes, and the reasons for which it does not answer."""

from __future__ import annotations

import re
from importlib import resources
from urllib.parse import parse_qsl

import pytest

from simstream.errors import (
    BrokerUnreachable,
    ExtractionNotStarted,
    LogError,
    StateDamaged,
    UsageError,
)
from simstream.feeds.cards import CardQuery
from simstream.feeds.fold import FoldLimits
from simstream.feeds.reasons import CODES, FAILED, REASONS, code_of, code_of_status
from simstream.feeds.shelves import site_of
from simstream.feeds.state import FeedState
from simstream.feeds.web import FILES, HEADERS
from simstream.feeds.web_objects import asked_of, safe_url


def test_a_question_without_limits_asks_for_the_newest() -> None:
    assert asked_of({}, 200) == (CardQuery(), 1, 30)
    asked, number, size = asked_of(
        {"since": "2026-03-02T00:00:00Z", "until": "5", "page": "3", "per_page": "200"}, 200
    )
    assert (asked.since, asked.until, number, size) == (1_772_409_600_000, 5, 3, 200)


@pytest.mark.parametrize(
    "query",
    [
        {"per_page": "201"},
        {"page": "-1"},
        {"page": "<b>me</b>"},
        {"page": "１"},
        {"until": "soon"},
        {"sort": "x" * 100},
        {"at_least": "9" * 40},
    ],
)
def test_a_question_that_makes_no_sense_is_refused_in_a_sentence(query: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=next(iter(query))) as error:
        asked_of(query, 200)
    assert len(str(error.value)) < 150
    said = next(iter(query.values()))
    assert len(said) < 3 or said not in str(error.value)


def test_a_time_whose_plus_the_address_made_a_space_is_refused_with_the_way_to_write_it() -> None:
    def since(query: str) -> int | None:
        return asked_of(dict(parse_qsl(query)), 200)[0].since

    assert since("since=2026-03-02T08:00:00%2B08:00") == 1_772_409_600_000
    with pytest.raises(UsageError, match=r"since is not a time: .* write \+ in an address as %2B"):
        since("since=2026-03-02T08:00:00+08:00")


def test_only_addresses_of_the_web_can_be_followed() -> None:
    assert safe_url("HTTPS://a.example/") == "HTTPS://a.example/"
    for url in (
        None,
        "",
        "javascript:alert(1)",
        " https://a.example",
        "data:text/html,x",
        "//a.example",
        "ftp://a",
    ):
        assert safe_url(url) is None


def test_the_site_is_the_host_of_the_url_or_of_an_id_that_is_a_url() -> None:
    assert site_of("x", "https://www.a.example:8080/b") == "a.example"
    assert site_of("http://[::1]/", None) == "::1"
    assert site_of("https://b.example/", "http://[broken") == "b.example"
    assert site_of("x", "http://a.example\\@b.example/") == "a.example", "as browsers read it"
    assert site_of("page 7", "javascript://a.example/") == ""
    for broken in ("http://..../", "http://a.example:99999/", "https://\u202egnp.example/", "http://[broken/"):
        assert site_of("page 7", broken) == ""
        assert safe_url(broken) is None


def test_a_host_that_is_too_long_for_dns_is_no_site() -> None:
    longest = "a." * 125 + "com"
    assert site_of("", f"https://{longest}/") == longest
    for host in ("a" + longest, "а." * 2_690 + "com", "а." * 100 + "com"):  # the last one is too long in ASCII
        assert site_of("page 7", f"http://{host}/") == ""
        assert safe_url(f"http://{host}/") is None


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("müller.example", "müller.example"),
        ("新闻.中国", "新闻.中国"),
        ("новости.рф", "новости.рф"),
        ("p\u0430ypal.example", "xn--pypal-4ve.example"),  # one Cyrillic letter
        ("\u0430\u0440\u0440\u04cf\u0435.example", "xn--80ak6aa92e.example"),  # Cyrillic letters alone
        ("p\u0430ypal.рф", "xn--pypal-4ve.xn--p1ai"),
        ("\u03bf.example.", "xn--0xa.example."),
    ],
)
def test_a_host_that_may_look_like_another_is_shown_in_ascii(host: str, shown: str) -> None:
    assert site_of("x", f"https://{host}/") == shown


def test_the_page_names_no_other_host_and_makes_no_html_of_text() -> None:
    folder = resources.files("simstream.feeds") / "static"
    assert {name for name, _ in FILES.values()} == {file.name for file in folder.iterdir()}
    for name, _ in FILES.values():
        text = (folder / name).read_text(encoding="utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http:", "https:"):
            assert word not in text, (name, word)
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_the_page_says_every_reason_in_chinese() -> None:
    words = (resources.files("simstream.feeds") / "static" / "words.js").read_text(encoding="utf-8")
    chinese = words[words.index("  zh: {") :]
    reasons = chinese[chinese.index("reasons: {") : chinese.index("    },", chinese.index("reasons: {"))]
    assert set(re.findall(r"\b(\w+): \"", reasons)) == set(CODES)


def test_a_reason_has_the_code_of_its_sentence_or_else_of_its_kind() -> None:
    assert code_of(LogError(*REASONS["late_texts"])) == "late_texts"
    assert code_of(BrokerUnreachable("no broker of 127.0.0.1:1 answers")) == "log"
    assert code_of(UsageError("sort is not a known order")) == "bad_question"
    assert code_of(ExtractionNotStarted("no process starts")) == FAILED
    assert [code_of_status(status) for status in (401, 403, 404, 421)] == [
        "token",
        "origin",
        FAILED,
        "host",
    ]


@pytest.mark.parametrize(
    "entry", [("va", b"{"), ("x1", b"{}"), ("mx", b'{"into":1,"time":1}'), ("sa", b'{"title":1}')]
)
def test_a_table_with_something_else_in_it_is_refused_by_name(entry: tuple[str, bytes]) -> None:
    with pytest.raises(StateDamaged, match="start the news page again"):
        FeedState(FoldLimits()).begin(dict([entry]))
