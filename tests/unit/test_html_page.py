"""What an HTML page says: its article, its title and its canonical link."""

from __future__ import annotations

import pytest

import simstream
from simstream.text.html_page import MAX_ADDRESS_BYTES, HtmlPage, read_html
from tests.hostile_html import LINEAR, QUADRATIC

TEXT = "The ferry has been adrift since noon, and its crew is well."
HERE = "https://mill.example/print/ferry?page=1"


def page(head: str) -> str:
    return f"<html><head>{head}</head><body><p>{TEXT}</p></body></html>"


def canonical(href: str, url: str | None = HERE) -> str | None:
    return read_html(page(f'<link rel="canonical" href="{href}">'), url=url).canonical


def test_text_title_and_canonical_link_come_from_one_page() -> None:
    html = page("<title>Ferry&nbsp;adrift &amp; safe</title><link rel=canonical href=/ferry>")
    assert simstream.read_html(html, url=HERE) == HtmlPage(
        TEXT, "Ferry adrift & safe", "https://mill.example/ferry"
    )


def test_bytes_are_decoded_as_their_character_set_says() -> None:
    html = page("<title>渡轮失联</title>").encode("gb18030")
    assert read_html(html, "text/html; charset=gb2312")[:2] == (TEXT, "渡轮失联")


@pytest.mark.parametrize(
    ("href", "found"),
    [
        ("https://mill.example/ferry", "https://mill.example/ferry"),
        ("ferry", "https://mill.example/print/ferry"),
        ("//www.mill.example/f", "https://www.mill.example/f"),
        (" /a?x=1&amp;copy=2 ", "https://mill.example/a?x=1&copy=2"),
        ("/a?x=1&copy=2", "https://mill.example/a?x=1&copy=2"),
        ("javascript:alert(1)", None),
        ("https://[", None),
        ("mailto:a@mill.example", None),
        ("HTTPS://mill.example/&#10;x&#9;y", "https://mill.example/xy"),
        ("\x01https://mill.example/a", "https://mill.example/a"),
        ("/a\x1b[31m", None),
        ("/a&#x202e;bc", None),
        ("/a b", None),
        ("https://mill.example\\@evil.example/", None),
        ("https://user:pw@mill.example/", None),
        ("https://:80/a", None),
        ("https://mill.example:99999/", None),
        ("/" + "x" * MAX_ADDRESS_BYTES, None),
        ("", None),
    ],
)
def test_a_canonical_link_is_an_address_of_http_or_none(href: str, found: str | None) -> None:
    assert canonical(href) == found


@pytest.mark.parametrize("url", [None, "https://mill.example/"])
def test_an_address_is_the_same_with_and_without_the_page_s_own(url: str | None) -> None:
    assert canonical("HTTPS://mill.example/&#10;x", url) == "https://mill.example/x"
    assert canonical("\x01https://mill.example/a", url) == "https://mill.example/a"


@pytest.mark.parametrize("content_type", [None, "", "text/html; charset=\udcff", "text/html; charset=渡", "x"])
def test_no_content_type_makes_it_raise(content_type: str | None) -> None:
    assert read_html(page("").encode(), content_type).text == TEXT


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_are_read(kind: type) -> None:
    assert read_html(kind(page("").encode())).text == TEXT
    assert read_html(kind(b"\x89PNG\r\n\x1a\n" + bytes(99))) == HtmlPage("", "", None)


@pytest.mark.parametrize(
    ("title", "found"),
    [
        (" " * 3_996 + "&nbsp;x", "x"),
        ("&nbsp;" * 10_000, TEXT),
        ("&nbsp;" * 666 + "x&nbsp;y", "x"),
        ("渡" * 10_000, "渡" * 199 + "…"),
        ("渡" * 9 + "&nbsp;" * 1_000, "渡" * 9),
    ],
)
def test_a_long_title_is_cut_between_characters(title: str, found: str) -> None:
    assert read_html(page(f"<title>{title}</title>")).title == found


def test_a_link_without_host_needs_the_page_s_own_address() -> None:
    assert canonical("/ferry", None) is None
    assert canonical("https://mill.example/ferry", None) == "https://mill.example/ferry"


def test_a_page_without_title_is_named_by_its_first_line() -> None:
    assert read_html(page("")) == HtmlPage(TEXT, TEXT, None)


@pytest.mark.parametrize("html", [b"", "", b"\x89PNG\r\n\x1a\n" + bytes(99), b"%PDF-1.7\n"])
def test_what_is_no_page_says_nothing(html: bytes | str) -> None:
    assert read_html(html) == HtmlPage("", "", None)


@pytest.mark.parametrize("name", [*LINEAR, *QUADRATIC])
def test_no_page_makes_it_raise(name: str) -> None:
    html = {**LINEAR, **QUADRATIC}[name](5_000)
    assert read_html(html, url=HERE) == read_html(html.encode(), url=HERE)
